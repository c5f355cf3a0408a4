"""Victims for gangs with constraints that the victim model lacks: found by trial, and none is unnecessary."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.gangs import SubgroupSpec

from tests.builders import Scenario
from tests.examples import holds


def racks(count: int, *, low: int, keeps: int) -> Scenario:
    """Racks of two nodes of 8 GPUs; on each node `low` gangs of one GPU and one gang that is protected."""
    scenario = Scenario("rack")
    for rack in range(count):
        scenario.nodes(f"r{rack}", 2, gpu=8, within=f"rack{rack}")
        for node in (f"r{rack}-0", f"r{rack}-1"):
            if keeps:
                scenario.gang(f"keep-{node}", 1, gpu=keeps, on=[node], priority=99)
            for index in range(low):
                scenario.gang(f"low-{node}-{index}", 1, gpu=1, on=[node])
    return scenario


def with_high(scenario: Scenario, parts: int, **fields: Any) -> Scenario:
    """Add a gang of high priority with subgroups of two pods that each require one rack."""
    names = [f"s{part}" for part in range(parts)]
    specs = tuple(SubgroupSpec(name, 2, required="rack") for name in names)
    scenario.gang("high", 2 * parts, priority=5, subgroups=specs, **fields)
    members = tuple(
        replace(pod, subgroup=names[index // 2]) for index, pod in enumerate(scenario.members("high"))
    )
    return scenario.change("high", members=members)


def test_two_victims_are_chosen_in_one_rack_though_the_cheapest_are_in_two() -> None:
    scenario = racks(14, low=1, keeps=7)
    scenario.now = 60_000_000_000
    for rack in range(14):
        (pod,) = scenario.members(f"low-r{rack}-1-0")
        began = scenario.now // 1000 - 3600 * (rack + 1)
        scenario.change(f"low-r{rack}-1-0", members=(replace(pod, running_since=began),))
    decided = with_high(scenario, 1, gpu=1).decide()
    assert sorted(decided.evicted()) == ["low-r0-0-0-0", "low-r0-1-0-0"]


def test_victims_are_chosen_only_in_the_racks_of_the_placement() -> None:
    decided = with_high(racks(6, low=4, keeps=0), 2, gpu=8).decide()
    nodes = {name.rsplit("-", 2)[0] for name in decided.evicted()}
    assert len(decided.evicted()) == 16
    assert len(nodes) == 4


@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 3), st.data())
@holds(10)
def test_no_victim_is_unnecessary(racked: int, low: int, asked: int, data: st.DataObject) -> None:
    """On each of two nodes as many gangs of one GPU must be evicted as one pod requests GPUs, and no more."""
    scenario = racks(racked, low=low, keeps=8 - low)
    scenario.now = 60_000_000_000
    for name in [name for name in scenario._gangs if name.startswith("low")]:
        (pod,) = scenario.members(name)
        began = scenario.now // 1000 - 60 * data.draw(st.integers(1, 300))
        scenario.change(name, members=(replace(pod, running_since=began),))
    evicted = with_high(scenario, 1, gpu=asked).decide().evicted()
    assert bool(evicted) == (asked <= low)
    assert len(evicted) == (2 * asked if evicted else 0)
