"""Members of gangs have shares of devices: as many as the capacity of each device allows, and no more."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.decisions import Bind
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.claims import AllocatedDevice
from phalanx.model.supplies.devices.uses import consumed_together, device_of

from tests.actions.test_device_claims import World
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import DRIVER, claim_of, device, request, slice_of
from tests.model.shares import UNIT, amounts, asks, shared


def two_nodes(memory: int = 10) -> World:
    world = World()
    world.nodes("a", 2)
    for name in ("a-0", "a-1"):
        world.device_slice(name, shared("x", memory=memory), shared("y", memory=memory))
    return world


def shares(decided: Decided, *gangs: str) -> list[tuple[Bind, AllocatedDevice]]:
    binds = [bind for gang in gangs for each in decided.placements(gang) for bind in each.binds]
    return [
        (bind, each)
        for bind in binds
        for grant in bind.grants
        if grant.allocation is not None
        for each in grant.allocation.devices
    ]


def used(found: Iterable[tuple[Bind, AllocatedDevice]]) -> Counter[tuple[str, str]]:
    """How many shares of each device there are, by pool and name."""
    return Counter((each.device[1], each.device[2]) for _, each in found)


def test_members_share_devices() -> None:
    world = two_nodes()
    world.gang("g", 8)
    world.claiming("g", request(**asks(memory=4)))
    found = shares(world.decide(), "g")
    assert used(found) == {(node, name): 2 for node in ("a-0", "a-1") for name in "xy"}
    assert all(bind.node == each.device[1] for bind, each in found)
    assert all(each.consumed == amounts(memory=4) for _, each in found)
    assert len({each.share_id for _, each in found}) == 8


def test_a_gang_with_too_little_capacity_waits_as_a_whole() -> None:
    world = two_nodes()
    world.gang("g", 9)
    world.claiming("g", request(**asks(memory=4)))
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert verdict.message.startswith("8 of 9 pods fit the empty cluster")


def test_gangs_of_one_cycle_share_what_is_left() -> None:
    world = two_nodes()
    for name, size, memory in (("f", 4, 7), ("g", 4, 3), ("h", 1, 1)):
        world.gang(name, size)
        world.claiming(name, request(**asks(memory=memory)))
    decided = world.decide()
    assert len(shares(decided, "f", "g")) == 8
    assert "devices are free for the claims of 0 of 1 pods" in decided.verdict("h").message


def test_a_gang_of_the_next_cycle_gets_what_is_left() -> None:
    world = two_nodes()
    world.gang("f", 4)
    world.claiming("f", request(**asks(memory=7)))
    decided = world.decide()
    for bind in decided.placements("f")[0].binds:
        for each in bind.grants:
            claim = world.device_claims[each.name]
            world.device_claims[each.name] = replace(
                claim, allocation=each.allocation, reserved_for=("other",), owner="other"
            )
    world.change("f", members=())
    world.gang("g", 5)
    world.claiming("g", request(**asks(memory=3)))
    assert "devices are free for the claims of 4 of 5 pods" in world.decide().verdict("g").message


def test_a_share_of_another_scheduler_is_in_use() -> None:
    world = two_nodes()
    world.gang("g", 8)
    world.claiming("g", request(**asks(memory=4)))
    world.gang("other", 1)
    result = {"request": "r", "driver": DRIVER, "pool": "a-0", "device": "x"}
    share = {"shareID": "1", "consumedCapacity": {"memory": "3"}}
    status = {"allocation": {"devices": {"results": [result | share]}}}
    world.claiming("other", request(), status=status)
    assert not world.decide().placements("g")
    world.gang("h", 7)
    world.claiming("h", request(**asks(memory=4)))
    assert used(shares(world.decide(), "h"))["a-0", "x"] == 1


def test_no_device_consumes_more_than_it_has_with_claims_of_several_kinds() -> None:
    world = World()
    world.nodes("a", 4)
    for index in range(4):
        world.device_slice(f"a-{index}", shared("x", memory=10), device("whole"))
    for name, size, memory in (("f", 4, 6), ("g", 4, 3), ("h", 4, 1)):
        world.gang(name, size)
        world.claiming(name, request(**asks(memory=memory)))
    decided = world.decide()
    found = shares(decided, "f", "g", "h")
    uses = [each.use for _, each in found if each.use is not None]
    for name in {device_of(each) for each in uses if len(each) > 3}:
        together = consumed_together(each for each in uses if device_of(each) == name)
        assert together["memory"] <= 10 * UNIT
    assert len(found) == 12


def test_members_share_a_claim_to_a_share_beside_their_own() -> None:
    world = two_nodes()
    world.gang("g", 4)
    world.claiming("g", request(**asks(memory=3)))
    world.sharing("g", "common")
    claim = world.device_claims["common"]
    spec = world.device_claims["g-0-gpu"].spec
    world.device_claims["common"] = replace(claim, spec=spec)
    found = shares(world.decide(), "g")
    common = {each for _, each in found if sum(other == each for _, other in found) == 4}
    assert len(common) == 1
    (one,) = common
    uses = {each.use for _, each in found}
    together = consumed_together(use for use in uses if use is not None and device_of(use) == one.device)
    assert together["memory"] <= 10 * UNIT
    assert len({bind.node for bind, _ in found}) == 1


@pytest.mark.parametrize(("size", "starts"), [(5, True), (6, False)])
def test_shares_of_a_device_that_several_nodes_can_use(size: int, starts: bool) -> None:
    """Two of the network and three on the nodes."""
    world = World()
    world.nodes("a", 3, cpu=2)
    network = slice_of(shared("n", memory=8), name="net", pool={"name": "net"}, allNodes=True)
    world.slices.append(network)
    for index in range(3):
        world.device_slice(f"a-{index}", shared("x", memory=4))
    world.gang("g", size)
    world.claiming("g", request(**asks(memory=4)))
    found = shares(world.decide(), "g")
    assert used(found)["net", "n"] == (2 if starts else 0)
    assert len(found) == (size if starts else 0)


def test_two_gangs_share_a_device_of_the_network() -> None:
    world = World()
    world.nodes("a", 2)
    world.slices.append(slice_of(shared("n", memory=9), name="net", pool={"name": "net"}, allNodes=True))
    for name, size, memory in (("f", 2, 3), ("g", 1, 3), ("h", 1, 1)):
        world.gang(name, size)
        world.claiming(name, request(**asks(memory=memory)))
    decided = world.decide()
    assert used(shares(decided, "f", "g")) == {("net", "n"): 3}
    assert not decided.placements("h")


def test_whole_devices_and_shares_are_never_of_one_device() -> None:
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", shared("x", memory=4))
    world.gang("f", 1)
    world.claiming("f", request())
    world.gang("g", 1)
    world.claiming("g", request(**asks(memory=1)))
    found = shares(world.decide(), "f", "g")
    assert len(found) == 1


def asking(world: World, *memory: int) -> World:
    """A gang `g` whose members ask for these amounts, each its own."""
    world.gang("g", len(memory))
    world.claiming("g")
    for number, each in enumerate(memory):
        name = f"g-{number}-gpu"
        spec = claim_of(request(**asks(memory=each))).spec
        world.device_claims[name] = replace(world.device_claims[name], spec=spec)
    return world


def one_node(*memory: int) -> World:
    world = World()
    world.nodes("a", 1, cpu=64)
    world.device_slice("a-0", *[shared(f"d{index}", memory=each) for index, each in enumerate(memory)])
    return world


def test_members_with_shares_of_different_sizes_run_on_one_node() -> None:
    found = shares(asking(one_node(80, 80), 5, *[20] * 7).decide(), "g")
    assert sum(used(found).values()) == 8
    assert not shares(asking(one_node(80, 80), 5, *[20] * 8).decide(), "g")


def test_shares_of_different_sizes_and_a_whole_device() -> None:
    """The largest share must not be of the device that two others can share."""
    world = World()
    world.nodes("a", 1, cpu=64)
    whole = {**device("d0"), "capacity": {"memory": {"value": "5"}}}
    world.device_slice("a-0", whole, shared("d1", memory=6))
    assert used(shares(asking(world, 3, 3, 4).decide(), "g")) == {("a-0", "d0"): 1, ("a-0", "d1"): 2}


def test_many_shares_of_two_sizes_fill_the_devices() -> None:
    """In their order, two small shares would be on a device, which leaves too little for the large ones."""
    found = shares(asking(one_node(*[80] * 8), *[30] * 12, *[50] * 4).decide(), "g")
    assert len(found) == 16
    full = asking(one_node(*[80] * 8), *[30] * 13, *[50] * 4).decide()
    assert full.verdict("g").reason is Reason.ABOVE_CLUSTER_CAPACITY


@holds(20)
@given(
    devices=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    memory=st.lists(st.integers(1, 4), min_size=1, max_size=6),
)
def test_members_are_placed_exactly_if_they_fit_the_devices(devices: list[int], memory: list[int]) -> None:
    decided = asking(one_node(*devices), *memory).decide()
    found = shares(decided, "g")
    consumed: Counter[str] = Counter()
    for _, each in found:
        ((_, amount),) = each.consumed
        consumed[each.device[2]] += int(amount)
    assert all(consumed[f"d{index}"] <= each * UNIT for index, each in enumerate(devices))
    fits = any(
        all(
            sum(size for size, at in zip(memory, where, strict=True) if at == index) <= each
            for index, each in enumerate(devices)
        )
        for where in product(range(len(devices)), repeat=len(memory))
    )
    assert len(found) == (len(memory) if fits else 0)


def test_gangs_with_shared_claims_do_not_choose_one_share_too_many() -> None:
    """Each claim fits each device, and two fit none of them."""
    world = World()
    world.nodes("a", 2, cpu=4)
    for name in ("a-0", "a-1"):
        world.device_slice(name, shared("x", memory=10))
    for name in "fgh":
        world.gang(name, 2)
        world.sharing(name, f"of-{name}")
        claim = world.device_claims[f"of-{name}"]
        spec = claim_of(request(**asks(memory=6))).spec
        world.device_claims[claim.name] = replace(claim, spec=spec)
    found = shares(world.decide(), "f", "g", "h")
    assert len(found) == 4
    assert len({each.device for _, each in found}) == len({each.share_id for _, each in found}) == 2


WHOLE = {"capacity": {"memory": {"value": "4"}}}


@pytest.mark.parametrize(
    ("devices", "common", "members"),
    [
        ([shared("d0", memory=4), shared("d1", memory=7)], 3, 2),
        ([{**device("d0"), **WHOLE}, {**device("d1"), "capacity": {"memory": {"value": "3"}}}], 3, 1),
    ],
)
def test_a_shared_claim_leaves_enough_capacity_to_others(
    devices: list[dict[str, Any]], common: int, members: int
) -> None:
    """Its first choice would be the first device. Devices differ in nothing but capacity."""
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", *devices)
    asking(world, *[4] * members)
    world.sharing("g", "c")
    spec = claim_of(request(**asks(memory=common))).spec
    world.device_claims["c"] = replace(world.device_claims["c"], spec=spec)
    found = shares(world.decide(), "g")
    assert {(each.request, each.device[2]) for _, each in found} == {("r", "d0"), ("r", "d1")}
