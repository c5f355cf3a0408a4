"""Gangs with a subgroup in another Topology take part in decisions about several gangs."""

from msgspec.structs import replace
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.snapshot import Level, Topology

from tests.actions.test_consolidate import ON, recreated, rested
from tests.builders import Scenario

RING = "test/ring"


def world(rings: dict[str, str]) -> Scenario:
    """Nodes of 8 GPUs, named by rack and number, in these rings; those of rack a are fuller."""
    scenario = Scenario("rack")
    for node, ring in rings.items():
        group, rack = node.removesuffix("-0"), node[0]
        scenario.nodes(group, gpu=8, cpu=32 if rack == "a" else 64, within=rack, labels={RING: ring})
    scenario.topologies["cable"] = Topology("cable", (Level("ring", RING),))
    return scenario


def pair(scenario: Scenario, name: str, gpu: int, *on: str, **fields: object) -> None:
    """A gang of two pods that must share a ring."""
    part = SubgroupSpec("pair", 2, required="ring", topology="cable")
    scenario.gang(name, 2, gpu=gpu, subgroups=(part,), on=list(on), **fields)
    members = tuple(replace(pod, subgroup="pair") for pod in scenario.members(name))
    scenario.change(name, members=members)


def test_joint_admission_places_it_elsewhere_in_one_ring() -> None:
    """It starts on the fuller nodes of rack a at first, which another gang needs whole."""
    scenario = world({"a0-0": "x", "a1-0": "x", "b0-0": "y", "c0-0": "z", "d0-0": "y"})
    pair(scenario, "first", 8)
    assert scenario.decide().nodes("first") == ["a0-0", "a1-0"]
    decided = scenario.gang("left", 2, gpu=8, required="rack").decide()
    assert sorted(decided.placed()) == ["first", "left"]
    assert decided.nodes("first") == ["b0-0", "d0-0"]


def test_moves_keep_it_in_one_ring() -> None:
    """Three nodes hold one more pod each, and two of them are in one ring."""
    rings = {"a0-0": "x", "a1-0": "x", "b0-0": "x", "b1-0": "y", "c0-0": "y"}
    scenario = world(rings)
    pair(scenario, "moved", 4, "a0-0", "a1-0")
    scenario.gang("pinned", 2, gpu=4, on=["b1-0", "c0-0"], priority=9)
    scenario.gang("busy", 1, gpu=4, on=["b0-0"], priority=9)
    decided = rested(scenario.gang("large", 2, gpu=8, required="rack")).decide(ON)
    assert len(decided.evicted()) == 2
    scenario.terminate(decided).take(scenario.decide(ON))
    last = recreated(scenario).decide(ON)
    assert last.nodes("large") == ["a0-0", "a1-0"]
    assert {rings[node] for node in last.nodes("moved")} == {"y"}


def test_nothing_is_moved_for_it_where_no_ring_would_hold_it() -> None:
    rings = {"a0-0": "x", "b0-0": "y", "c0-0": "z"}
    scenario = world(rings)
    scenario.gang("half", 1, gpu=4, on=["a0-0"]).gang("other", 1, gpu=4, on=["b0-0"])
    pair(scenario, "waits", 8)
    assert not rested(scenario).decide(ON).evicted()


def test_victims_are_evicted_for_it_in_one_ring() -> None:
    rings = {"a0-0": "x", "b0-0": "y", "c0-0": "y"}
    scenario = world(rings)
    for index, node in enumerate(rings):
        scenario.gang(f"low{index}", 1, gpu=8, on=[node])
    pair(scenario, "waits", 8, priority=9)
    decided = rested(scenario).decide()
    assert sorted({name.rsplit("-", 1)[0] for name in decided.evicted()}) == ["low1", "low2"]
