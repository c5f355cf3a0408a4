"""Places the jobs with Phalanx (`phalanx decide`) and with the real kube-scheduler."""

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.framework.config import SchedulerConfig
from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane

from bench.harness.cluster import nodes_usable
from bench.traffic.cases import RACK, Case, Job, requests_of
from bench.traffic.emulated import Placement
from tests.fake_objects import create_many, fake_node, fake_pod

GROUP: Final = "scheduling.phalanx.dev"
_LOOK_S: Final = 0.2
_PATIENCE_S: Final = 120.0

Manifest = dict[str, Any]


class Decided(Struct, frozen=True):
    """Placements of Phalanx, how many were proven optimal, and the CPU seconds of all cycles."""

    placement: Placement
    proven: int
    gangs: int
    seconds: float


def by_phalanx(case: Case, *, traffic: bool) -> Decided:
    """Decide with or without `traffic` in the PodGroups, one job after the other."""
    items = [*map(_node, _nodes(case)), *_taken(case, "other")]
    items.append(_object("Topology", "default", {"levels": [{"name": "rack", "nodeLabel": RACK}]}))
    for job in case.jobs:
        items += [_pod_group(job, traffic=traffic), *_pods(job, "phalanx")]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "case.json")
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        read = read_manifests([str(file)])
    config = SchedulerConfig()
    cluster = StaticCluster(read.objects, config=config, now=0)
    before = time.process_time()
    results, _ = run_until_stable(cluster, config)
    seconds = time.process_time() - before
    placed = [placement for result in results for placement in result.placements]
    return Decided(
        placement={bind.name: bind.node for placement in placed for bind in placement.binds},
        proven=sum(placement.certificate.proven for placement in placed),
        gangs=len(placed),
        seconds=round(seconds, 3),
    )


async def by_kube_scheduler(case: Case) -> Placement:
    """The placement of the real kube-scheduler with its default configuration, pod after pod."""
    async with ControlPlane.start(kube_scheduler=KubeScheduler()) as plane, plane.session() as session:
        await create_many(session, map(_node, _nodes(case)))
        await nodes_usable(session, expected=len(case.nodes))
        taken = _taken(case, "other")
        await create_many(session, taken)
        made = {pod["metadata"]["name"]: pod for job in case.jobs for pod in _pods(job, "default-scheduler")}
        for name, _ in case.arrivals():
            await create_many(session, [made[name]])
        wanted = len(taken) + len(made)
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                async with session.get("/api/v1/namespaces/default/pods") as answer:
                    pods = (await answer.json())["items"]
                bound = [pod for pod in pods if pod["spec"].get("nodeName")]
                if len(bound) == wanted or _is_over(pods, wanted):
                    break
                await asyncio.sleep(_LOOK_S)
    ours = [pod for pod in bound if pod["spec"]["schedulerName"] == "default-scheduler"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in ours}


def _is_over(pods: list[Manifest], wanted: int) -> bool:
    """Whether each pod has a node or was found unschedulable."""
    seen = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName")
        or any(each["type"] == "PodScheduled" for each in pod.get("status", {}).get("conditions", ()))
    ]
    return len(seen) == wanted


def _nodes(case: Case) -> list[tuple[str, str, dict[str, Any]]]:
    return [(node.name, node.rack, requests_of(node.capacity)) for node in case.nodes]


def _node(node: tuple[str, str, dict[str, Any]]) -> Manifest:
    name, rack, amounts = node
    return fake_node(name, labels={RACK: rack, "kubernetes.io/hostname": name}, allocatable=amounts)


def _taken(case: Case, scheduler: str) -> list[Manifest]:
    """A pod of others on each node that has one."""
    found = []
    for node in case.nodes:
        amounts = {name: amount for name, amount in node.taken.items() if amount}
        if amounts:
            pod = fake_pod(f"other-{node.name}", scheduler_name=scheduler, requests=requests_of(amounts))
            pod["spec"]["nodeName"] = node.name
            found.append(pod)
    return found


def _pods(job: Job, scheduler: str) -> list[Manifest]:
    labels = {f"{GROUP}/pod-group": job.name}
    return [
        fake_pod(
            pod,
            scheduler_name=scheduler,
            labels={**labels, f"{GROUP}/role": role.name},
            requests=requests_of(role.requests),
        )
        for pod, role in job.pods()
    ]


def _pod_group(job: Job, *, traffic: bool) -> Manifest:
    spec: Manifest = {
        "minMember": sum(role.count for role in job.roles),
        "roles": [{"name": role.name, "count": role.count} for role in job.roles],
    }
    if traffic:
        spec["traffic"] = [
            {"from": flow.sender, "to": flow.receiver, "weight": flow.megabytes} for flow in job.flows
        ]
    made = _object("PodGroup", job.name, spec)
    made["metadata"]["namespace"] = "default"
    return made


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
