"""Saturation load: full clusters, arriving gangs, and a constant stream of changes."""

import asyncio
from collections import deque
from typing import Any, Final

from phalanx.model.resources import CPU, GPU

from phalanx_simulator.embedded.manifests import job, pod, pod_group, tree_of_nodes
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World

HOSTS_PER_RACK: Final = 10
_RACKS_PER_BLOCK: Final = 10
_DAEMONS_PER_NODE: Final = 3
_MEMBERS_PER_NODE: Final = 7
"""One-GPU pods of ours on each node of a full cluster: one GPU is left."""
_MEMBERS_PER_JOB: Final = 100
_STEP_S: Final = 0.05
_OTHERS: Final[Any] = {
    "namespace": "kube-system",
    "scheduler": "default-scheduler",
    "requests": {CPU: "100m"},
}


def nodes_of(nodes: int) -> list[Object]:
    """Blocks of at most ten racks of ten nodes with eight GPUs each."""
    racks = nodes // HOSTS_PER_RACK
    per_block = min(racks, _RACKS_PER_BLOCK)
    levels = {
        "network.topology.nvidia.com/block": racks // per_block,
        "cloud.provider.com/topology-rack": per_block,
        "kubernetes.io/hostname": HOSTS_PER_RACK,
    }
    return tree_of_nodes(levels)


def daemons(nodes: int) -> list[Object]:
    """Three pods of other schedulers on every node."""
    return [
        pod(f"daemon-{node}-{number}", nodeName=node, **_OTHERS)
        for node in _names(nodes)
        for number in range(_DAEMONS_PER_NODE)
    ]


def full_cluster(nodes: int) -> list[Object]:
    """Pods of a full cluster: the daemons and a started gang in each rack.

    Each node has ten pods and one free GPU.
    """
    found, names = daemons(nodes), _names(nodes)
    for first in range(0, len(names), HOSTS_PER_RACK):
        gang = f"old-{first}"
        found.append(pod_group(gang, min_member=HOSTS_PER_RACK * _MEMBERS_PER_NODE))
        found.extend(
            pod(f"{gang}-{node}-{number}", group=gang, requests={CPU: "1", GPU: "1"}, nodeName=node)
            for node in names[first : first + HOSTS_PER_RACK]
            for number in range(_MEMBERS_PER_NODE)
        )
    return found


def gang_of_jobs(name: str, members: int, *, level: str = "", run_s: float | None = None) -> list[Object]:
    """A gang of one-GPU pods in Jobs of at most 100 members.

    It requires a domain of `level` if given.
    """
    spec: dict[str, Any] = {"topology": {"required": level}} if level else {}
    found = [pod_group(name, min_member=members, **spec)]
    for first in range(0, members, _MEMBERS_PER_JOB):
        part = min(_MEMBERS_PER_JOB, members - first)
        whole = job(f"{name}-{first}", members=part, group=name, requests={CPU: "1", GPU: "1"}, run_s=run_s)
        whole["spec"]["backoffLimit"] = 1000
        found.append(whole)
    return found


class ChangeLoad:
    """A stream of changes: pod statuses (half), node heartbeats (30 %), foreign pods that come and go."""

    def __init__(self, world: World, *, per_s: int) -> None:
        self._client = world.client
        self._random = world.random("storm")
        self._each_step = max(1, round(per_s * _STEP_S))
        self._pods = world.client.keys("pods")
        self._nodes = world.client.keys("nodes")
        self._passing: deque[Key] = deque()
        self._count = 0

    async def rage(self, seconds: float) -> None:
        """Write changes at the given rate, then delete the foreign pods."""
        for _ in range(round(seconds / _STEP_S)):
            for _ in range(self._each_step):
                self._change()
            await asyncio.sleep(_STEP_S)
        while self._passing:
            self._leave()

    def _change(self) -> None:
        kind = self._random.randrange(10)
        if kind < 5:
            self._report(self._random.choice(self._pods))
        elif kind < 8:
            self._report(self._random.choice(self._nodes))
        elif kind == 8 or not self._passing:
            self._come(self._random.choice(self._nodes).name)
        else:
            self._leave()

    def _report(self, key: Key) -> None:
        """Write a condition that means nothing to a scheduler."""
        self._count += 1
        times = {"lastProbeTime" if key.resource == "pods" else "lastHeartbeatTime": self._client.now()}
        seen = {"type": "Seen", "status": "True", "reason": "Seen", "message": str(self._count), **times}
        self._client.update_status(key, condition=seen)

    def _come(self, node: str) -> None:
        manifest = pod("", nodeName=node, **_OTHERS)
        manifest["metadata"] |= {"name": "", "generateName": "passing-"}
        new = self._client.create("pods", _OTHERS["namespace"], manifest)
        self._passing.append(Key("pods", _OTHERS["namespace"], new["metadata"]["name"]))

    def _leave(self) -> None:
        key = self._passing.popleft()
        found = self._client.get(key)
        if found is not None:
            self._client.delete(key, uid=found["metadata"]["uid"], grace_s=0)


def _names(nodes: int) -> list[str]:
    return [node["metadata"]["name"] for node in nodes_of(nodes)]
