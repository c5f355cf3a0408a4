"""Moves for gangs with affinity, spread, ports, volumes or claims; which gangs with these are moved."""

from typing import Any

import pytest
from phalanx.model.supplies.ports import ALL_ADDRESSES

from tests.actions.rule_cases import FIELDS, RuleWorld
from tests.actions.test_consolidate import ON, recreated, rested
from tests.builders import Scenario, term
from tests.plugins.test_topology_spread import spread

KINDS = sorted(FIELDS)
MOVED = [
    "attracted",
    "devices",
    "selected",
    "bound volume",
    "near",
    "plain",
    "provisioned volume",
    "space for a volume",
    "spread",
    "spread anyway",
]
MOVED.append("volume that exists")


def halves(moved: str, waits: str) -> RuleWorld:
    """Three nodes of 8 GPUs, each with half used; a gang needs a whole node."""
    world = RuleWorld("rack")
    world.nodes("a", 3, gpu=8).prepare()
    for index in range(3):
        world.add(f"half-{index}", 1, moved, gpu=4, on=[f"a-{index}"])
    return world.add("large", 1, waits, gpu=8)


@pytest.mark.parametrize("kind", KINDS)
def test_gangs_are_moved_for_a_gang_of_any_kind(kind: str) -> None:
    world = halves("plain", kind)
    decided = rested(world).decide(ON)
    assert len(decided.evicted()) == 1
    world.take(world.terminate(decided).decide(ON))
    last = recreated(world).decide(ON)
    assert "large" in last.placed()
    assert len(last.placed()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_gangs_are_moved_if_what_is_held_for_them_is_enough(kind: str) -> None:
    decided = rested(halves(kind, "plain")).decide(ON)
    assert len(decided.evicted()) == (kind in MOVED)


WEB = ("TCP", 80, ALL_ADDRESSES)
LATE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "port": ({"ports": [WEB]}, {"ports": [WEB]}),
    "own term": ({"apart": [term(app="y")]}, {"labels": {"app": "y"}}),
    "term of others": ({"labels": {"app": "x"}}, {"apart": [term(app="x")]}),
    "both": ({"labels": {"app": "x"}, "apart": [term(app="x")]}, {"labels": {"app": "x"}}),
}


def terminated_for_a_large_one(moved: dict[str, Any]) -> Scenario:
    """A gang with these fields moves to a-1, where two more GPUs are free; its pod has terminated."""
    scenario = Scenario().nodes("a", 2, gpu=8).gang("special", 1, gpu=4, on=["a-0"], **moved)
    scenario.gang("pinned", 1, gpu=2, on=["a-1"], priority=9)
    decided = rested(scenario.gang("large", 1, gpu=8)).decide(ON)
    assert len(decided.evicted()) == 1
    return scenario.terminate(decided)


@pytest.mark.parametrize("kind", sorted(LATE))
def test_nobody_takes_the_place_of_a_moved_gang_in_between(kind: str) -> None:
    """Only the rule keeps the late one away."""
    moved, late = LATE[kind]
    scenario = terminated_for_a_large_one(moved)
    scenario.gang("late", 1, gpu=1, **late)
    middle = scenario.decide(ON)
    assert not middle.placed()
    recreated(scenario.take(middle))
    last = scenario.decide(ON)
    assert (last.nodes("special"), last.nodes("large")) == (["a-1"], ["a-0"])
    assert "late" not in last.placed()


@pytest.mark.parametrize("kind", sorted(LATE))
def test_nobody_takes_the_place_of_a_moved_gang_of_which_no_pod_exists(kind: str) -> None:
    """The old pods are gone, and the controller has created no new one yet."""
    moved, late = LATE[kind]
    scenario = terminated_for_a_large_one(moved)
    special = scenario._gangs.pop("special")
    middle = scenario.gang("late", 1, gpu=1, **late).decide(ON)
    assert [*middle.placed()] == ["large"]
    scenario.take(middle)._gangs["special"] = special
    last = recreated(scenario).decide(ON)
    assert last.nodes("special") == ["a-1"]
    assert "late" not in last.placed()


def test_a_gang_is_not_moved_where_its_pods_would_not_be_spread() -> None:
    """Both of its pods would be on one node afterwards, where they may not start again."""
    scenario = Scenario().nodes("a", 2, gpu=8).nodes("b", gpu=8)
    own = {"labels": {"app": "x"}, "spread": [spread("kubernetes.io/hostname")]}
    scenario.gang("pair", 2, gpu=1, on=["a-0", "a-1"], **own).gang("busy", 1, gpu=2, on=["b-0"], priority=9)
    scenario.gang("large", 2, gpu=8)
    assert not rested(scenario).decide(ON).evicted()


def test_a_gang_that_a_running_pod_requires_near_it_is_not_moved() -> None:
    scenario = Scenario().nodes("a", 3, gpu=8)
    for index in range(3):
        scenario.gang(f"data-{index}", 1, gpu=4, on=[f"a-{index}"], labels={"app": "data"})
    scenario.gang("user", 1, gpu=0, on=["a-0"], near=[term(app="data")]).gang("large", 1, gpu=8)
    assert not rested(scenario).decide(ON).evicted()


def test_nobody_comes_too_near_to_the_gang_that_waits_for_moves() -> None:
    scenario = Scenario().nodes("a", 3, gpu=8)
    for index in range(3):
        scenario.gang(f"half-{index}", 1, gpu=4, on=[f"a-{index}"])
    scenario.gang("large", 1, gpu=7, apart=[term(app="noisy")])
    decided = rested(scenario).decide(ON)
    (nominated,) = decided.result.nominations
    scenario.terminate(decided).gang("late", 1, gpu=1, labels={"app": "noisy"})
    middle = scenario.decide(ON)
    assert nominated.node not in middle.nodes("late")
    recreated(scenario.take(middle))
    assert "large" in scenario.decide(ON).placed()
