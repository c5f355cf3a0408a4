"""The work of one cycle is bounded; the next cycle first tries the gangs that were not tried."""

from itertools import chain
from typing import Final

import pytest
from msgspec.structs import replace
from phalanx.actions import outcome
from phalanx.actions.allocation import demand_solver
from phalanx.actions.outcome import EXACT_BACKEND
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.reasons import Reason
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Answer, Placed, Unplaceable
from phalanx.solver.counting.exact import BY
from phalanx.solver.engine import place

from tests.builders import Decided, Scenario

SIZES: Final = {"large": 5, "one": 2, "two": 3}


def until_quiet(scenario: Scenario) -> list[Decided]:
    """Run cycles until one places nothing."""
    cycles = [scenario.decide()]
    while cycles[-1].placed():
        cycles.append(scenario.take(cycles[-1]).decide())
    return cycles


def test_the_next_cycle_continues_where_this_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "CYCLE_SOLVES_MAX", 4)
    scenario = Scenario().nodes("n", 10, gpu=8)
    for index in range(10):
        scenario.gang(f"g{index}", 1 + index, gpu=1)
    scenario.gang("a", 81, gpu=1, priority=1)
    first, second, third, last = until_quiet(scenario)
    assert first.placed() == ["g0", "g1", "g2"]
    assert first.reasons()["g3"] is Reason.NOT_TRIED_YET
    assert first.reasons()["a"] is Reason.ABOVE_CLUSTER_CAPACITY
    assert first.result.wake_at == scenario.now
    assert second.placed() == ["g3", "g4", "g5", "g6"]
    assert third.placed() == ["g7", "g8", "g9"]
    assert last.result.wake_at is None, "no victims help a gang that does not fit the empty cluster"


def test_exact_searches_have_their_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(problem: PlacementProblem) -> Answer:
        answer = place(problem)
        assert isinstance(answer, Placed)
        proof = Certificate(terms=(), objective=(), bound=(), proven=True, by=EXACT_BACKEND)
        return Placed(assignments=answer.assignments, certificate=proof)

    monkeypatch.setattr(demand_solver, "place", slow)
    monkeypatch.setattr(outcome, "CYCLE_SEARCHES_MAX", 2)
    scenario = Scenario().nodes("n", 10, gpu=8)
    for index in range(5):
        scenario.gang(f"g{index}", 1 + index, gpu=1)
    assert [len(cycle.placed()) for cycle in until_quiet(scenario)] == [2, 2, 1, 0]


def _three_subgroups(scenario: Scenario) -> None:
    """A gang that needs two of three subgroups: a large one that fits no rack, and two that fit one each."""
    parts = tuple(SubgroupSpec(name, size, required="rack") for name, size in SIZES.items())
    scenario.gang("g", sum(SIZES.values()), min=5, gpu=1, subgroups=parts, min_subgroups=2)
    named = zip(scenario.members("g"), chain(*([name] * size for name, size in SIZES.items())), strict=True)
    scenario.change("g", members=tuple(replace(pod, subgroup=name) for pod, name in named))


@pytest.mark.parametrize("most", [3, 2])
def test_other_subgroups_that_were_not_tried_are_tried_in_the_next_cycle(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The first choice, which is too large, or the gang before it exhausts the bound of the cycle."""
    monkeypatch.setattr(outcome, "CYCLE_SOLVES_MAX", most)
    scenario = Scenario("rack")
    for rack in ("one", "two", "three"):
        scenario.nodes(rack, gpu=4, within=rack)
    for index in range(2):
        scenario.gang(f"too-large-{index}", 13 + index, gpu=1, priority=1)
    _three_subgroups(scenario)
    first = scenario.decide()
    assert first.reasons()["g"] is Reason.NOT_TRIED_YET
    assert first.result.wake_at == scenario.now
    assert len(scenario.take(first).decide().nodes("g")) == 5


def test_all_other_subgroups_are_tried_in_one_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that is cut short in every cycle would never start, and would block all gangs behind it."""
    monkeypatch.setattr(outcome, "CYCLE_SOLVES_MAX", 2)
    scenario = Scenario("rack")
    for rack in ("one", "two", "three"):
        scenario.nodes(rack, gpu=4, within=rack)
    _three_subgroups(scenario)
    assert len(scenario.decide().nodes("g")) == 5


def test_the_name_of_the_exact_backend_is_the_one_that_is_counted() -> None:
    assert EXACT_BACKEND == BY


def test_a_dropped_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Unplaceable(proven=False, by="test", errors=("test: two pods in one slot",))
    monkeypatch.setattr(demand_solver, "place", lambda _: broken)
    result = Scenario().nodes("n", 1, gpu=8).gang("g", 1, gpu=1).decide().result
    assert result.stats.errors == broken.errors
    assert result.stats.solves == {"test": 1}
