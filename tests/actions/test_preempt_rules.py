"""Victims for gangs with affinity, spread, ports, volumes or claims: none is useless, none is missed."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.actions.rule_cases import FIELDS, RuleWorld
from tests.builders import Scenario
from tests.examples import holds
from tests.model.devices import device
from tests.plugins.test_topology_spread import spread

KINDS = sorted(FIELDS)


@pytest.mark.parametrize("kind", KINDS)
def test_gangs_of_each_kind_evict_and_are_evicted(kind: str) -> None:
    for low, high in ((kind, "plain"), ("plain", kind), (kind, kind)):
        world = RuleWorld()
        world.nodes("a", 2, gpu=8).prepare()
        for index in range(2):
            world.add(f"low-{index}", 1, low, gpu=8, on=[f"a-{index}"])
        assert len(world.add("high", 1, high, gpu=8, priority=5).decide().evicted()) == 1


def test_pods_that_the_spread_constraint_counts_stay_where_their_end_makes_the_skew_larger() -> None:
    """The pod in c costs least, but c would then be the domain with the fewest pods."""
    scenario = Scenario()
    for zone, gpu in (("a", 4), ("b", 8), ("c", 0)):
        scenario.nodes(zone, gpu=gpu, labels={"zone": zone})
        priority = 0 if zone == "c" else 9
        scenario.gang(f"x-{zone}", 1, on=[f"{zone}-0"], labels={"app": "x"}, priority=priority)
    scenario.gang("low-a", 1, gpu=4, on=["a-0"]).gang("low-b", 1, gpu=8, on=["b-0"])
    scenario.gang("high", 2, gpu=4, priority=5, labels={"app": "x"}, spread=[spread()])
    assert sorted(scenario.decide().evicted()) == ["low-a-0", "low-b-0"]


def with_devices(counts: dict[str, int], holders: list[tuple[str, bool]]) -> RuleWorld:
    """Nodes with so many devices; gangs of one pod on them, of which some have a device."""
    world, used = RuleWorld(), dict.fromkeys(counts, 0)
    for node, count in counts.items():
        world.nodes(node.removesuffix("-0"))
        if count:
            world.device_slice(node, *(device(f"{node}-x{index}") for index in range(count)))
    for index, (node, has_device) in enumerate(holders):
        has_device = has_device and used[node] < counts[node]
        name = f"low-{index}"
        if has_device:
            world.gang(name, 1, on=[node])
            members = tuple(replace(pod, index=used[node]) for pod in world.members(name))
            world.change(name, members=members)
            world.give_devices(name)
            used[node] += 1
        else:
            world.gang(name, 1, on=[node])
    return world


def fewest(counts: dict[str, int], world: RuleWorld, wanted: int) -> int | None:
    """The fewest gangs whose end leaves enough devices, by brute force."""
    names = [name for name in world.gang_names if name.startswith("low")]
    has = {name: bool(world.members(name)[0].device_claims) for name in names}
    where = {name: str(world.members(name)[0].node) for name in names}
    for count in range(len(names) + 1):
        for gone in combinations(names, count):
            left = dict(counts)
            for name in names:
                left[where[name]] -= has[name] and name not in gone
            if sum(left.values()) >= wanted:
                return count
    return None


@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from(["a-0", "b-0"]), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 3),
)
@holds(15)
def test_as_few_gangs_are_evicted_for_devices_as_brute_force_finds(
    sizes: list[int], holders: list[tuple[str, bool]], wanted: int
) -> None:
    counts = dict(zip(("a-0", "b-0"), sizes, strict=True))
    world = with_devices(counts, holders)
    least = fewest(counts, world, wanted)
    world.gang("high", wanted, priority=5)
    world.claiming("high")
    decided = world.decide()
    assert ("high" in decided.placed()) == (least == 0)
    assert len(decided.evicted()) == (least or 0)
