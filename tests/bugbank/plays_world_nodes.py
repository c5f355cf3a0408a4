"""Nodes in every state: the good ones are used, the bad ones are not, and news of them is heard."""

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
    Still,
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


def good_nodes_are_used() -> str | None:
    """As many pods as there are good nodes, each of which looks bad to who knows half of the matter."""

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


def bad_nodes_are_not_used() -> str | None:
    """Pods that tolerate what a good guess would forgive, and no node that may take one of them."""

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
    """Silence is a fault, also to pods that tolerate every taint."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"))
        world.controllers.kubelets.lose("n0")
        await asyncio.sleep(60.0)
        world.create([pod("p", requests=FULL, tolerations=[{"operator": "Exists"}])])
        await at_rest(world)
        return None

    return watched(act)


def news_of_nodes_is_heard() -> str | None:
    """Whatever makes capacity for a waiting pod gets it bound, at once and by itself."""
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
            return f"nobody was bound after {what}"
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


def a_node_made_again_is_empty() -> str | None:
    """A node goes with its pods and another of its name comes: empty, and used again."""

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


def devices_vanish_under_pods() -> str | None:
    """8, 7, 0 and again 8 devices under a pod that holds them all; other nodes go on being used."""

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
    """The end of a node is reported after its successor of the same name has come."""
    first, second = written.node("n", uid="first"), written.node("n", uid="second")
    still = Still(first, second, written.pod("p", requests={GPU: 1}))
    still.gone(first)
    return None if assignments(still.cycle()) else "a node that exists is not used"


def a_cordon_without_its_taint() -> str | None:
    """The controller that taints cordoned nodes is behind: the cordon alone counts, and so does its end."""
    still = Still(written.node("n", spec={"unschedulable": True}), written.pod("p", requests={GPU: 1}))
    if assignments(still.cycle()):
        return "a pod is placed on a cordoned node"
    still.put(written.node("n"))
    return None if assignments(still.cycle()) else "a node that is cordoned no more is not used"


def a_node_comes_and_comes_again() -> str | None:
    """A pod waits for any node; one comes, goes, and comes again, the same in all but its UID."""
    waiting = written.pod("p", requests={GPU: 1})
    still = Still(waiting)
    still.cycle()
    first = written.node("n", uid="first")
    still.put(first)
    if not assignments(still.cycle()):
        return "a new node is not used"
    still.gone(first)
    still.cycle()
    still.put(written.node("n", uid="second"))
    return None if assignments(still.cycle()) else "a node that was made again is not used"


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
