"""Plans that are played together have the same outcomes as alone, and each failure is reported."""

from functools import cache
from itertools import islice

import pytest
from msgspec.structs import replace
from phalanx_simulator.drills.catalogue import OPERATION_DRILLS
from phalanx_simulator.drills.drill import Fault, Outcome, Plan, Playable, play, play_each, play_together
from phalanx_simulator.drills.operations import OPERATIONS
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World

pytestmark = pytest.mark.usefixtures("quiet")

[LOST] = [act for act in OPERATIONS if act.name == "member-lost"]


@cache
def undisturbed() -> Outcome:
    return play(LOST, seed=1, checks=ALL_CHECKS)


def together(*plans: Plan) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}

    def take(plan: Playable, outcome: Outcome) -> None:
        outcomes[plan.name] = outcome

    play_each(plans, checks=ALL_CHECKS, take=take)
    return outcomes


def nothing(_world: World) -> None:
    """No fault."""


@pytest.mark.parametrize("drill", OPERATION_DRILLS)
def test_plans_played_together_have_the_same_outcomes_as_alone(drill: str) -> None:
    every = 2 if drill == "races" else 50
    plans = list(islice(OPERATION_DRILLS[drill](LOST, 1, undisturbed), 3, None, every))
    assert len(plans) > 1
    alone = {plan.name: plan.outcome(ALL_CHECKS) for plan in plans}
    assert together(*plans) == alone


def test_each_act_is_played_separately() -> None:
    acts = [LOST, replace(LOST, name="again"), LOST]
    outcomes = together(*(Plan(f"{number}", act, 1, Fault(nothing)) for number, act in enumerate(acts)))
    assert list(outcomes) == ["0", "1", "2"]


def test_a_fault_that_misses_is_a_problem() -> None:
    [outcome] = together(Plan("miss", LOST, 1, Fault(lambda _world: lambda: "nobody was there"))).values()
    assert outcome.problem == "nobody was there"


def test_a_plan_that_crashes_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    def crash(_world: World) -> None:
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match=r"^crash: ended without an outcome"):
        together(Plan("crash", LOST, 1, Fault(crash)))
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_step_that_is_never_reached_is_named() -> None:
    last = play(LOST, seed=1, checks=()).steps
    with pytest.raises(RuntimeError, match=r"^late: the operation ended before its step"):
        play_together(
            [Plan("late", LOST, 1, Fault(nothing, step=last + 1000))], checks=(), take=lambda *_: None
        )


def test_an_act_that_fails_by_itself_is_named() -> None:
    never = replace(LOST, begin=lambda _world: lambda: False, within_s=1.0)
    with pytest.raises(RuntimeError, match=r"^member-lost without any fault: not done after"):
        together(Plan("never", never, 1, Fault(nothing)))
