"""What one cycle may solve is bounded; whoever was not tried comes next, before anyone who was."""

import pytest

from phalanx.actions import allocate, outcome
from phalanx.actions.outcome import THOROUGH
from phalanx.model.certificates import Certificate
from phalanx.model.reasons import Reason
from phalanx.solver.cpsat import BY
from phalanx.solver.engine import place
from phalanx.solver.problem import Answer, Placed, Problem, Unplaceable
from tests.builders import Decided, Scenario


def until_quiet(scenario: Scenario) -> list[Decided]:
    """All cycles until one places nothing."""
    cycles = [scenario.decide()]
    while cycles[-1].placed():
        cycles.append(scenario.take(cycles[-1]).decide())
    return cycles


def test_the_next_cycle_goes_on_where_this_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert last.result.wake_at is None


def test_searches_are_counted_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(problem: Problem) -> Answer:
        answer = place(problem)
        assert isinstance(answer, Placed)
        proof = Certificate(terms=(), objective=(), bound=(), proven=True, by=THOROUGH)
        return Placed(assignments=answer.assignments, certificate=proof)

    monkeypatch.setattr(allocate, "place", slow)
    monkeypatch.setattr(outcome, "CYCLE_SEARCHES_MAX", 2)
    scenario = Scenario().nodes("n", 10, gpu=8)
    for index in range(5):
        scenario.gang(f"g{index}", 1 + index, gpu=1)
    assert [len(cycle.placed()) for cycle in until_quiet(scenario)] == [2, 2, 1, 0]


def test_the_slow_backend_has_the_name_that_is_counted() -> None:
    assert THOROUGH == BY


def test_a_dropped_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Unplaceable(proven=False, by="test", defects=("test: two pods on one seat",))
    monkeypatch.setattr(allocate, "place", lambda _: broken)
    result = Scenario().nodes("n", 1, gpu=8).gang("g", 1, gpu=1).decide().result
    assert result.stats.defects == broken.defects
    assert result.stats.solves == {"test": 1}
