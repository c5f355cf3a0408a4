"""Error isolation: an exception for one gang is reported, and the other gangs are placed and explained."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.model.reasons import Reason
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Answer, SolveLimits
from phalanx.solver.engine import place

from tests.builders import Scenario


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


def test_a_failed_explanation_is_reported_in_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.actions.explanations.explainer.explain", broken)
    scenario = Scenario().nodes("n", 1, gpu=8).gang("large", 2, gpu=8).gang("small", 1, gpu=8)
    decided = scenario.decide()
    assert decided.placed() == ["small"]
    assert decided.verdict("large").reason is Reason.NOT_TRIED_YET
    assert "a scheduler error" in decided.verdict("large").message
    assert decided.result.stats.errors == ("why team/large waits: ZeroDivisionError('a bug')",)
    scenario.take(decided)
    assert scenario.decide().result.stats.errors == (), "nothing has changed: it is not explained again"


def test_solver_errors_of_an_explanation_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(problem: PlacementProblem, *, limits: SolveLimits) -> Answer:
        return replace(place(problem, limits=limits), errors=("closed: one pod too many",))

    monkeypatch.setattr("phalanx.solver.answer_cache.place", faulty)
    scenario = Scenario().nodes("odd", 3, gpu=7).gang("large", 5, gpu=5)
    for _ in range(2):
        decided = scenario.decide()
        assert decided.verdict("large").reason is Reason.ABOVE_CLUSTER_CAPACITY
        assert decided.result.stats.errors == ("closed: one pod too many",)


def test_a_failed_choice_of_victims_evicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = (
        Scenario().nodes("n", 1, gpu=8).gang("low", 1, gpu=8, on=("n-0",)).gang("high", 1, gpu=8, priority=5)
    )
    assert scenario.decide().evicted() != []
    monkeypatch.setattr("phalanx.actions.preemption.victim_search.choose_victims", broken)
    decided = scenario.decide()
    assert decided.evicted() == []
    assert decided.verdict("high").reason is Reason.INSUFFICIENT_CAPACITY
    assert decided.result.stats.errors == ("victims for team/high: ZeroDivisionError('a bug')",)


def test_a_failed_joint_admission_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario("rack").nodes("a", 4, gpu=8, within="a").nodes("c", 2, gpu=8, within="c")
    scenario.gang("first", 2, gpu=8).gang("left", 4, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "left"]
    monkeypatch.setattr("phalanx.actions.joint_admission.assign_pods", broken)
    decided = scenario.decide()
    assert decided.placed() == ["first"]
    assert decided.verdict("left").reason is Reason.NO_DOMAIN_FITS
    assert decided.result.stats.errors == ("joint: ZeroDivisionError('a bug')",)
