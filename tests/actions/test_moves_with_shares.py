"""Moves and evictions of gangs that have shares of devices: what they free, and what is held meanwhile."""

import pytest
from msgspec.structs import replace
from phalanx.actions.problems.held_devices import still_held
from phalanx.framework.session import Session
from phalanx.model.gangs import GangKind
from phalanx.model.names import NodeName
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.model.supplies.devices.uses import consumed_together, device_of, is_share, share_of

from tests.actions.test_consolidate import config, recreated, rested
from tests.actions.test_device_claims import World
from tests.builders import Decided
from tests.model.devices import DRIVER, claim_of, request
from tests.model.shares import UNIT, amounts, asks, shared

ON = config()


def sharing(
    world: World, name: str, memory: int, count: int = 1, *, on: tuple[str, ...] = (), **more: int
) -> None:
    """A gang whose members ask for so much of a device; those on nodes have it of the device there."""
    world.gang(name, count, on=list(on), kind=GangKind.POD_GROUP, **more)
    claim_again(world, name, memory)
    allocate(world, name, memory)


def claim_again(world: World, name: str, memory: int) -> None:
    world.claiming(name, request(**asks(memory=memory)))


def allocate(world: World, name: str, memory: int) -> None:
    """The claims of members that run, as the API shows them."""
    for pod in world.members(name):
        if pod.node is None:
            continue
        result = {"request": "r", "driver": DRIVER, "pool": pod.node, "device": "x"}
        share = {"shareID": f"{pod.uid}", "consumedCapacity": {"memory": str(memory)}}
        where = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pod.node]}]}
        status = {
            "allocation": {
                "devices": {"results": [result | share]},
                "nodeSelector": {"nodeSelectorTerms": [where]},
            },
            "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
        }
        known = world.device_claims[f"{pod.name}-gpu"]
        made = claim_of(request(), status=status)
        world.device_claims[known.name] = replace(
            known, allocation=made.allocation, reserved_for=made.reserved_for
        )


def nodes(*memory: int) -> World:
    world = World()
    world.nodes("a", len(memory))
    for index, each in enumerate(memory):
        world.device_slice(f"a-{index}", shared("x", memory=each))
    return world


def held_of_moves(decided: Decided) -> dict[str, dict[str, int]]:
    """For each gang for which shares are held, how much on each node."""
    memory = decided.result.memory
    held = [(gang, move.devices) for gang, move in memory.moves.items()]
    held += [(gang, nomination.devices) for gang, nomination in memory.nominations.items()]
    found: dict[str, dict[str, int]] = {}
    for gang, devices in held:
        for uses in devices.values():
            assert all(is_share(each) for each in uses)
            for node in {device_of(each)[1] for each in uses}:
                together = consumed_together(each for each in uses if device_of(each)[1] == node)
                found.setdefault(str(gang).removeprefix("gang-"), {})[node] = together["memory"] // UNIT
    return found


def two_halves(*, second: int) -> World:
    """Two nodes with a device each, of which gangs have 3; another one needs all of the first one."""
    world = nodes(9, second)
    for index in range(2):
        sharing(world, f"half-{index}", 3, on=(f"a-{index}",))
    sharing(world, "large", 9)
    return world


def test_a_gang_is_moved_so_that_a_whole_device_is_free() -> None:
    decided = rested(two_halves(second=6)).decide(ON)
    assert not decided.result.stats.errors
    assert decided.evicted() == ["half-0-0"]
    assert held_of_moves(decided) == {"half-0": {"a-1": 3}, "large": {"a-0": 9}}


def test_no_gang_is_moved_where_too_little_is_free() -> None:
    assert not rested(two_halves(second=5)).decide(ON).evicted()


@pytest.mark.parametrize(("late", "fits"), [(2, True), (3, False)])
def test_what_is_held_is_given_to_the_moved_gang_once(late: int, fits: bool) -> None:
    """Of the 8 on the other node it has 3, as before the gang there: 2 are left for another one."""
    world = two_halves(second=8)
    world.take(world.terminate(rested(world).decide(ON)).decide(ON))
    old = world.device_claims.pop("half-0-0-gpu")
    (name,) = (each for each in recreated(world)._gangs if each.startswith("half-0"))
    claim_again(world, name, 3)
    world.device_claims["old"] = replace(old, name="old", uid="uid-old")
    sharing(world, "late", late)
    middle = world.decide(ON)
    assert name in middle.placed()
    assert ("late" in middle.placed()) is fits
    world.take(middle)
    allocate(world, name, 3)
    allocate(world, "late", late)
    middle = world.decide(ON)
    assert not middle.placed()
    del world.take(middle).device_claims["old"]
    world.capacity_version += 1
    last = world.decide(ON)
    assert "large" in last.placed()
    assert "late" not in last.placed()


def test_a_gang_is_evicted_for_its_shares() -> None:
    world = nodes(8, 8)
    sharing(world, "low", 4, 2, on=("a-0", "a-0"), priority=1)
    sharing(world, "other", 4, 2, on=("a-1", "a-1"), priority=7)
    sharing(world, "high", 3, 2, priority=5)
    decided = world.decide()
    assert set(decided.evicted()) == {"low-0", "low-1"}


def test_one_of_two_gangs_on_a_device_is_enough() -> None:
    world = nodes(8)
    sharing(world, "small", 3, on=("a-0",), priority=1)
    sharing(world, "large", 5, on=("a-0",), priority=2)
    sharing(world, "high", 3, priority=5)
    assert world.decide().evicted() == ["small-0"]


def test_a_share_is_held_no_more_once_a_new_claim_has_one_like_it() -> None:
    """Two of 3 are held for the claims of pods that end. The new claim of one of them has other IDs."""
    session = Session(nodes(8).snapshot(), config())
    held = {NodeName("a-0"): tuple(share_of((DRIVER, "a-0", "x"), each, amounts(memory=3)) for each in "pq")}
    device = (DRIVER, "a-0", "x")
    for renewed, left in (
        ((), "pq"),
        ((share_of(device, "new", amounts(memory=3)),), "q"),
        ((share_of(device, "new", amounts(memory=2)), share_of((DRIVER, "a-0", "y"), "z", ())), "pq"),
        ([share_of(device, each, amounts(memory=3)) for each in "abc"], ""),
    ):
        assert still_held(held, session, renewed) == {
            NodeName("a-0"): {share_of(device, each, amounts(memory=3)) for each in left}
        }


def test_devices_count_in_use_while_victims_have_too_much_of_them() -> None:
    world = nodes(8)
    sharing(world, "low", 4, 1, on=("a-0",), priority=1)
    session = Session(world.snapshot(), config())
    for memory, is_used in ((4, False), (5, True)):
        wanted = share_of((DRIVER, "a-0", "x"), "s", amounts(memory=memory))
        assert claimed_devices(session).are_any_in_use([[wanted]]) is is_used
    assert claimed_devices(session).are_any_in_use([[(DRIVER, "a-0", "x")]])
