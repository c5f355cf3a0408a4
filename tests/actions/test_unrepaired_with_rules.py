"""Restarts of gangs with affinity, spread or claims that cannot be repaired in their domain."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.names import PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.records import GangRecord, PlacedMembers

from tests.actions.test_moves_with_claims import ClaimWorld
from tests.actions.test_unrepaired import RESTARTS, evicted_after
from tests.builders import Scenario, term
from tests.examples import holds
from tests.model.devices import device
from tests.plugins.test_topology_spread import spread

HOST, RACK = "kubernetes.io/hostname", "test/rack"


def racks(**sizes: int) -> Scenario:
    """Racks with so many nodes of 8 GPUs."""
    scenario = Scenario("rack")
    for rack, count in sizes.items():
        scenario.nodes(rack, count, gpu=8, within=rack)
    return scenario


def lost(scenario: Scenario, name: str, on: Sequence[str]) -> Scenario:
    """The last of the pods on these nodes was deleted and created again."""
    last = scenario.members(name)[len(on) - 1]
    again = replace(last, uid=PodUid(f"{last.uid}-again"), node=None, phase=PodPhase.PENDING)
    members = [again if pod.uid == last.uid else pod for pod in scenario.members(name)]
    return scenario.change(name, members=tuple(members))


def gang(scenario: Scenario, on: Sequence[str], **fields: Any) -> Scenario:
    """The gang g on these nodes of rack a; the last pod is lost, and another gang fills its node."""
    scenario.gang(
        "g", len(on), on=list(on), required="rack", recovery=RESTARTS, labels={"app": "g"}, **fields
    )
    lost(scenario, "g", on)
    return scenario.gang("other", 1, gpu=8, on=on[-1:], priority=9)


def test_a_gang_whose_pods_require_each_other_restarts_elsewhere() -> None:
    scenario = gang(racks(a=2, b=2), ["a-0", "a-1"], gpu=8, near=[term(RACK, app="g")])
    assert evicted_after(scenario) == ["g-0"]


def test_a_gang_near_data_that_has_no_capacity_elsewhere_stays() -> None:
    """The data is in rack a alone; a restart would end there too, where the gang does not fit."""
    scenario = racks(a=2, b=2).gang("data", 1, gpu=0, on=["a-0"], labels={"app": "data"})
    gang(scenario, ["a-0", "a-1"], gpu=8, near=[term(RACK, app="data")])
    assert evicted_after(scenario) == []
    scenario.gang("more-data", 1, gpu=0, on=["b-0"], labels={"app": "data"})
    assert evicted_after(scenario) == ["g-0"]


@pytest.mark.parametrize(("nodes", "evicted"), [(2, ["g-0"]), (1, [])])
def test_spread_constraints_hold_where_the_gang_restarts(nodes: int, evicted: list[str]) -> None:
    """One pod for each node: a rack of a single node has capacity for both, but may not have both."""
    scenario = gang(racks(a=2, b=nodes), ["a-0", "a-1"], gpu=4, spread=[spread(HOST, app="g")])
    assert evicted_after(scenario) == evicted


# --- claims -------------------------------------------------------------------------------------------------


def claiming(on: Sequence[str], devices: dict[str, int], wanted: int, **fields: Any) -> ClaimWorld:
    """Nodes with devices in racks by the first letter; the gang g has lost the last of its pods."""
    world = ClaimWorld("rack")
    for rack in dict.fromkeys(name[0] for name in devices):
        world.nodes(rack, sum(name[0] == rack for name in devices), within=rack)
    for name, count in devices.items():
        world.device_slice(name, *(device(f"{name}-x{index}", kind="gpu") for index in range(count)))
    world.gang("g", len(on), on=list(on), required="rack", recovery=RESTARTS, **fields)
    devices = {"deviceclass.resource.kubernetes.io/gpu": wanted}
    requests = {**world.members("g")[0].shape.requests, **devices}
    record = GangRecord(1, (PlacedMembers("", "", requests, len(on)),))
    lost(world, "g", on)
    world.claim_again("g", wanted).allocate("g", wanted)
    world.change("g", record=record)
    return world


def fill(world: ClaimWorld, name: str, node: str, devices: int) -> ClaimWorld:
    world.gang(name, 1, on=[node], priority=9)
    world.claim_again(name, devices).allocate(name, devices)
    return world


def test_a_gang_with_claims_restarts_where_its_devices_are_free() -> None:
    world = claiming(["a-0", "a-1"], {"a-0": 2, "a-1": 2, "b-0": 2, "b-1": 2}, 2)
    fill(world, "other", "a-1", 1)
    assert evicted_after(world) == ["g-0"]


def test_a_gang_with_claims_stays_where_no_other_domain_has_devices() -> None:
    world = claiming(["a-0", "a-1"], {"a-0": 2, "a-1": 2, "b-0": 2, "b-1": 1}, 2)
    fill(world, "other", "a-1", 1)
    assert evicted_after(world) == []


def fits(free: dict[str, int], count: int, size: int, nodes: Sequence[str]) -> bool:
    """Whether so many claims of this size fit these nodes together."""
    return any(
        all(size * some.count(node) <= free[node] for node in nodes)
        for some in combinations_with_replacement(nodes, count)
    )


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.lists(st.sampled_from(["a-0", "a-1"]), min_size=1, max_size=2),
    st.integers(1, 3),
)
@holds(30)
def test_claims_restart_exactly_if_that_helps(used: list[int], on: list[str], size: int) -> None:
    """Each node has 4 devices, of which others use some. One more pod of the gang has been lost."""
    names = ("a-0", "a-1", "b-0", "b-1")
    taken = dict(zip(names, used, strict=True))
    free = {node: 4 - taken[node] - size * on.count(node) for node in names}
    if min(free.values()) < 0:
        return
    world = claiming([*on, "a-0"], dict.fromkeys(names, 4), size)
    for node, amount in taken.items():
        if amount:
            fill(world, f"on-{node}", node, amount)
    is_repaired = fits(free, 1, size, names[:2])
    without = {node: 4 - taken[node] for node in names}
    fits_whole = any(fits(without, len(on) + 1, size, rack) for rack in (names[:2], names[2:]))
    assert bool(evicted_after(world)) == (not is_repaired and fits_whole)


# --- spread, by all placements ------------------------------------------------------------------------------


def is_spread(counts: Counter[str], nodes: Sequence[str]) -> bool:
    return max(counts[node] for node in nodes) - min(counts[node] for node in nodes) <= 1


@given(
    st.lists(st.integers(0, 1), min_size=2, max_size=2),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.sampled_from(["a1-0", "a2-0"]), min_size=1, max_size=2),
    st.integers(1, 2),
)
@holds(30)
def test_gangs_with_spread_restart_exactly_if_that_helps(
    left: list[int], used: list[int], on: list[str], gpu: int
) -> None:
    """The pods of the gang are spread over two zones, which both racks have. Rack a is nearly full."""
    names = ("a1-0", "a2-0", "b1-0", "b2-0", "b3-0")
    zone = {"a1-0": "1", "a2-0": "2", "b1-0": "1", "b2-0": "1", "b3-0": "2"}
    taken = dict(zip(names[2:], used, strict=True))
    for node, amount in zip(names, left, strict=False):
        taken[node] = 4 - amount - gpu * on.count(node)
    free = {node: 4 - taken[node] - gpu * on.count(node) for node in names}
    if min(taken.values()) < 0 or not is_spread(Counter(zone[node] for node in on), "12"):
        return
    scenario = Scenario("rack")
    for node in names:
        scenario.nodes(node[:2], 1, gpu=4, within=node[0], labels={"zone": zone[node]})
    for node, amount in taken.items():
        scenario.gang(f"on-{node}", 1, gpu=amount, on=[node], priority=9)
    fields: dict[str, Any] = {"labels": {"app": "g"}, "spread": [spread("zone", app="g")]}
    scenario.gang(
        "g", len(on) + 1, gpu=gpu, on=on, required="rack", recovery=RESTARTS, started=True, **fields
    )

    def can_be(places: Sequence[str], before: Sequence[str], capacity: dict[str, int]) -> bool:
        here = Counter(places)
        counts = Counter(zone[node] for node in (*before, *places))
        return all(gpu * here[node] <= capacity[node] for node in here) and is_spread(counts, "12")

    is_repaired = any(can_be([node], on, free) for node in names[:2])
    without = {node: 4 - taken[node] for node in names}
    fits_whole = any(
        can_be(places, (), without)
        for rack in (names[:2], names[2:])
        for places in product(rack, repeat=len(on) + 1)
    )
    assert bool(evicted_after(scenario)) == (not is_repaired and fits_whole)
