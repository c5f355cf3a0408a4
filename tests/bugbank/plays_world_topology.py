"""Plays about racks, blocks and hosts: constraints are met, and no two domains are confused."""

import asyncio
from collections.abc import Mapping

from phalanx.model.names import LABEL_SUBGROUP
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import delete, put_condition
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, CycleRunner, assignments, at_rest, node_of, opened, watched
from tests.model import written

BLOCK = "network.topology.nvidia.com/block"
RACK = "cloud.provider.com/topology-rack"


def racks_of_the_same_name_are_distinct() -> str | None:
    """Each block has a rack r0 with one node: a gang of two in one rack waits until a larger rack is free."""

    async def act(world: World) -> str | None:
        nodes = {"a": "b0/r0", "b": "b1/r0", "c": "b0/r1", "d": "b0/r1"}
        await _opened(world, nodes)
        world.create([pod("holder", requests=FULL, scheduler="default-scheduler", nodeName="c")])
        _create(world, "g", 2)
        await asyncio.sleep(20.0)
        delete(world.client, Key("pods", "default", "holder"), grace_s=0)
        await at_rest(world)
        return None

    return watched(act)


def _says_no_domain(world: World) -> str | None:
    """Check that no placement was decided that the check before the binds had to refuse."""
    group = world.client.get(Key("podgroups.scheduling.phalanx.dev", "default", "g")) or {}
    reason = (group.get("status") or {}).get("reason")
    return None if reason in ("NoDomainFits", "AboveDomainCapacity") else f"it waits for {reason}"


def racks_with_a_common_prefix_are_distinct() -> str | None:
    """r1 and r10 have one free node each."""

    async def act(world: World) -> str | None:
        await _opened(world, {"a": "b0/r1", "b": "b0/r10", "c": "b0/r100"})
        _create(world, "g", 2)
        await at_rest(world, 20.0)
        return _says_no_domain(world)

    return watched(act)


def a_host_has_the_name_of_its_rack() -> str | None:
    """Labels of two levels have the same value; the gang fits exactly."""

    async def act(world: World) -> str | None:
        await _opened(world, {"b0": "b0/b0", "other": "b0/b0"})
        _create(world, "g", 2)
        await at_rest(world)
        return None

    return watched(act)


def nodes_without_a_rack_label_are_in_no_rack() -> str | None:
    """Two nodes lack the label, and one is in a rack: no rack fits two pods."""

    async def act(world: World) -> str | None:
        await _opened(world, {"a": "b0", "b": "b0", "c": "b0/r0"})
        _create(world, "g", 2)
        await at_rest(world, 20.0)
        nodes = [node_of(world, f"g-w-{n}") for n in range(2)]
        bound = f"bound to {nodes}, which are in no rack" if any(nodes) else None
        return bound or _says_no_domain(world)

    return watched(act)


def a_lost_member_is_replaced_in_its_rack() -> str | None:
    """A gang runs in one rack; its replaced member would fit better in the other rack."""

    async def act(world: World) -> str | None:
        await _opened(world, {"a": "b0/r1", "b": "b0/r1", "c": "b0/r0"})
        world.create([pod("x", requests={GPU: "1"}, scheduler="default-scheduler", nodeName="a")])
        world.create([pod("y", requests={GPU: "5"}, scheduler="default-scheduler", nodeName="c")])
        _create(world, "g", 4, gpus="3")
        await asyncio.sleep(8.0)
        delete(world.client, Key("pods", "default", "g-w-0"), grace_s=0)
        await asyncio.sleep(1.0)
        world.create([_member("g", "g-w-9", "3")])
        await at_rest(world)
        return None

    return watched(act)


def a_node_with_unknown_topology_is_in_no_rack() -> str | None:
    """A node of the tighter rack has an unknown network topology: the gang uses the other rack."""

    async def act(world: World) -> str | None:
        await _opened(world, {"a": "b0/r0", "b": "b0/r0", "c": "b0/r1", "d": "b0/r1"})
        world.create([pod("x", requests={GPU: "2"}, scheduler="default-scheduler", nodeName="a")])
        kind = "NodeNotInNWTopologyCM"
        put_condition(world.client, "b", type_=kind, status="True", reason="Play", message="")
        await asyncio.sleep(2.0)
        _create(world, "g", 2, gpus="6")
        await at_rest(world)
        return None

    return watched(act)


def a_minimum_of_subgroups_starts() -> str | None:
    """Two of three subgroups must start; the first, which is too large, gets capacity that is added later."""

    async def act(world: World) -> str | None:
        sizes = {"a": 5, "b": 2, "c": 2}
        await opened(world, *(node(f"n{n}") for n in range(6)))
        parts = [{"name": name, "minMember": size} for name, size in sizes.items()]
        world.create([pod_group("g", min_member=4, minSubGroups=2, subGroups=parts)])
        for name, size in sizes.items():
            for index in range(size):
                made = pod(f"{name}-{index}", group="g", requests=FULL)
                made["metadata"]["labels"][LABEL_SUBGROUP] = name
                world.create([made])
        await asyncio.sleep(16.0)
        bound = {name: sum(bool(node_of(world, f"{name}-{n}")) for n in range(sizes[name])) for name in sizes}
        if bound != {"a": 0, "b": 2, "c": 2}:
            return f"bound are {bound}"
        world.create([node(f"n{n}") for n in range(6, 9)])
        await at_rest(world)
        waits = [f"a-{n}" for n in range(5) if not node_of(world, f"a-{n}")]
        return f"{waits} wait, although they fit" if waits else None

    return watched(act)


def leaders_and_workers_share_the_capacity() -> str | None:
    """Two roles of different size on nodes that fit both exactly: each GPU is assigned once."""
    key = written.label("pod-group")
    nodes = [written.node(f"n{n}", labels={RACK: "r0"}) for n in range(2)]
    leader = written.pod("leader", labels={key: "g"}, requests={GPU: 4, "cpu": 1})
    workers = [written.pod(f"w{n}", labels={key: "g"}, requests={GPU: 6}) for n in range(2)]
    runner = CycleRunner(*nodes, written.pod_group("g", minMember=3), leader, *workers)
    result = runner.cycle()
    if result.stats.errors:
        return f"a solver's answer broke the rules: {result.stats.errors[0]}"
    return f"placed are {assignments(result)}" if result.placements else None


def racks_are_added_later() -> str | None:
    """The first nodes have no rack label; nodes that are added later do, and add the level."""
    first = written.node("n0")
    key = written.label("pod-group")
    runner = CycleRunner(first, written.pod_group("g", topology={"required": "rack"}))
    runner.put(written.pod("p", labels={key: "g"}, requests={GPU: 1}))
    runner.cycle()
    runner.put(written.node("n1", labels={RACK: "r0"}))
    return None if assignments(runner.cycle()) else "racks that were added later are not used"


async def _opened(world: World, places: Mapping[str, str]) -> None:
    await opened(world, *(_node(name, place) for name, place in places.items()))


def _node(name: str, place: str) -> Object:
    labels = dict(zip((BLOCK, RACK), place.split("/"), strict=False))
    return node(name, labels=labels)


def _create(world: World, name: str, members: int, *, gpus: str = "8") -> None:
    world.create([pod_group(name, min_member=members, topology={"required": "rack"})])
    world.create(gang(name, {"w": members}, requests={GPU: gpus}))


def _member(group: str, name: str, gpus: str) -> Object:
    return pod(name, group=group, role="w", requests={GPU: gpus})
