"""Plays with nodes in every state: healthy nodes are used, others are not, changes trigger cycles."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import delete, node_key, put_condition
from phalanx_simulator.faults.node_conditions import KWOK, NPD, NVSENTINEL, TALK, healthy
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import (
    FULL,
    GPU,
    CycleRunner,
    assignments,
    at_rest,
    change_labels,
    change_spec,
    node_of,
    opened,
    watched,
)
from tests.model import written

STATE = "dgxc.nvidia.com/nvsentinel-state"
DEDICATED = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "train", "effect": "NoSchedule"}


def healthy_nodes_are_used() -> str | None:
    """As many pods as healthy nodes, each of which has a state that is easily mistaken for a fault."""

    async def act(world: World) -> str | None:
        names = [one["metadata"]["name"] for one in _good()]
        await opened(world, *_good())
        _set_conditions(world, "conditions", {kind: healthy(kind) for kind in _ALL})
        _set_conditions(world, "strange", {"SomethingNew": "True", "SomethingOld": "False"})
        _set_conditions(world, "unclear", {"GpuHWSlowDown": "Unknown", "AggregatedNodeHealth": "Unknown"})
        _set_conditions(world, "lost-place", {"NodeNotInNWTopologyCM": "True"})
        world.create(pod(f"p{n}", requests=FULL, tolerations=[TOLERATION]) for n in range(len(names)))
        await at_rest(world)
        return None

    return watched(act)


def unhealthy_nodes_are_not_used() -> str | None:
    """Pods that tolerate similar taints, and no node that may run one of them."""

    async def act(world: World) -> str | None:
        await opened(world, *_bad())
        _set_conditions(world, "sum", {"AggregatedNodeHealth": "False"})
        _set_conditions(world, "xid", {"GpuXidError": "True"})
        _set_conditions(world, "links", {"IBLinksProblem": "True"})
        world.create(pod(f"p{n}", requests=FULL, tolerations=[TOLERATION]) for n in range(len(_bad())))
        await at_rest(world)
        return None

    return watched(act)


def lost_nodes_are_not_used() -> str | None:
    """A node without heartbeats is unusable, even for pods that tolerate every taint."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"))
        world.controllers.kubelets.lose("n0")
        await asyncio.sleep(60.0)
        world.create([pod("p", requests=FULL, tolerations=[{"operator": "Exists"}])])
        await at_rest(world)
        return None

    return watched(act)


def node_events_trigger_cycles() -> str | None:
    """Each change that makes capacity usable for a waiting pod triggers its bind at once."""
    return watched(_news)


async def _news(world: World) -> str | None:
    nodes = [
        *(node(name, labels={"pool": "a"}) for name in ("cordoned", "shrunk", "faulty", "tainted", "full")),
        node("elsewhere", labels={"pool": "b"}),
    ]
    await opened(world, *nodes)
    change_spec(world, node_key("cordoned"), unschedulable=True)
    change_spec(world, node_key("tainted"), taints=[DEDICATED])
    world.client.update_status(node_key("shrunk"), allocatable={"cpu": "64", "pods": "110", GPU: "0"})
    _set_conditions(world, "faulty", {"GpuXidError": "True"})
    world.create([pod("foreign", scheduler="default-scheduler", requests=FULL, nodeName="full")])
    world.create(pod(f"p{n}", requests=FULL, nodeSelector={"pool": "a"}) for n in range(len(_NEWS)))
    await asyncio.sleep(8.0)
    for what, happens in _NEWS.items():
        before = _bound(world)
        happens(world)
        await asyncio.sleep(4.0)
        if _bound(world) == before:
            return f"no pod was bound after {what}"
    return None


def _bound(world: World) -> int:
    return sum(bool(node_of(world, f"p{n}")) for n in range(len(_NEWS)))


_NEWS: Mapping[str, Callable[[World], None]] = {
    "a cordon's end": lambda world: change_spec(world, node_key("cordoned"), unschedulable=None),
    "a taint's end": lambda world: change_spec(world, node_key("tainted"), taints=None),
    "a condition's end": lambda world: _set_conditions(world, "faulty", {"GpuXidError": "False"}),
    "the return of devices": lambda world: world.client.update_status(
        node_key("shrunk"), allocatable={"cpu": "64", "pods": "110", "memory": "512Gi", GPU: "8"}
    ),
    "a foreign pod's end": lambda world: delete(world.client, Key("pods", "default", "foreign"), grace_s=0),
    "another label": lambda world: change_labels(world, node_key("elsewhere"), pool="a"),
    "a new node": lambda world: world.create([node("new", labels={"pool": "a"})]),
}


def a_recreated_node_is_empty() -> str | None:
    """A node is deleted with its pods and recreated: it is empty, and used again."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        world.create([pod("old", requests=FULL, nodeSelector={"kubernetes.io/hostname": "n0"})])
        await asyncio.sleep(6.0)
        delete(world.client, node_key("n0"))
        await asyncio.sleep(1.0)
        delete(world.client, Key("pods", "default", "old"), grace_s=0)
        await asyncio.sleep(20.0)
        world.create([node("n0")])
        await asyncio.sleep(10.0)
        world.create(pod(f"new{n}", requests=FULL) for n in range(2))
        await at_rest(world)
        return None

    return watched(act)


def devices_of_running_pods_are_lost() -> str | None:
    """8, 7, 0 and again 8 devices under a pod that holds them all; other nodes are still used."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        world.create([pod("holder", requests=FULL, nodeSelector={"kubernetes.io/hostname": "n0"})])
        await asyncio.sleep(6.0)
        for devices in ("7", "0", "8"):
            amounts = {"cpu": "64", "pods": "110", "memory": "512Gi", GPU: devices}
            world.client.update_status(node_key("n0"), allocatable=amounts)
            await asyncio.sleep(5.0)
            world.create([pod(f"small-{devices}", requests={GPU: "1"})])
            await asyncio.sleep(5.0)
        await at_rest(world)
        return None

    return watched(act)


def a_late_deletion_of_a_node() -> str | None:
    """The deletion of a node is reported after it was recreated."""
    first, second = written.node("n", uid="first"), written.node("n", uid="second")
    runner = CycleRunner(first, second, written.pod("p", requests={GPU: 1}))
    runner.gone(first)
    return None if assignments(runner.cycle()) else "a node that exists is not used"


def a_cordon_without_its_taint() -> str | None:
    """The controller that taints cordoned nodes lags behind: the cordon alone counts, and so does its end."""
    runner = CycleRunner(written.node("n", spec={"unschedulable": True}), written.pod("p", requests={GPU: 1}))
    if assignments(runner.cycle()):
        return "a pod is placed on a cordoned node"
    runner.put(written.node("n"))
    return None if assignments(runner.cycle()) else "an uncordoned node is not used"


def a_node_is_added_and_recreated() -> str | None:
    """A pod waits for a node; one is added, deleted, and recreated, identical but for its UID."""
    waiting = written.pod("p", requests={GPU: 1})
    runner = CycleRunner(waiting)
    runner.cycle()
    first = written.node("n", uid="first")
    runner.put(first)
    if not assignments(runner.cycle()):
        return "a new node is not used"
    runner.gone(first)
    runner.cycle()
    runner.put(written.node("n", uid="second"))
    return None if assignments(runner.cycle()) else "a recreated node is not used"


_ALL = (*TALK, *KWOK, *NPD, *NVSENTINEL)


def _good() -> list[Object]:
    soft = {"key": "soft", "value": "", "effect": "PreferNoSchedule"}
    return [
        node("conditions"),
        node("strange"),
        node("unclear"),
        node("lost-place"),
        node("repaired", labels={STATE: "remediation-succeeded"}),
        _tainted("soft", soft),
        _tainted("dedicated", DEDICATED),
    ]


def _bad() -> list[Object]:
    return [
        node("sum"),
        node("xid"),
        node("links"),
        node("quarantined", labels={STATE: "quarantined"}),
        node("draining", labels={STATE: "draining"}),
        {**node("cordoned"), "spec": {"unschedulable": True}},
        _tainted("other-value", {**DEDICATED, "value": "serve"}),
        _tainted("evicting", {**DEDICATED, "effect": "NoExecute"}),
    ]


def _tainted(name: str, taint: Mapping[str, Any]) -> Object:
    return {**node(name), "spec": {"taints": [dict(taint)]}}


def _set_conditions(world: World, name: str, wanted: Mapping[str, str]) -> None:
    for kind, status in wanted.items():
        put_condition(world.client, name, type_=kind, status=status, reason="Play", message="")
