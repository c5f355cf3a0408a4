"""Weather forecasts whose steps are plain Jobs that a workflow tool creates."""

from bench.published.places import OURS, POD_BY_POD, simulated
from bench.published.workflow import Forecasts, Step

PAIR = (
    Step(name="prepare", pods=2, works_s=10),
    Step(name="compute", pods=9, works_s=30, after=("prepare",)),
    Step(name="draw", pods=1, works_s=10, after=("compute",)),
)


def test_all_steps_run_in_order_and_none_waits_with_a_part_of_its_pods() -> None:
    played = simulated(Forecasts(2, PAIR), OURS)
    assert played.wrong == ()
    assert played.figures["steps finished"] == "6 of 6"
    assert played.figures["pod-seconds of waiting inside a step"] == 0
    assert played.figures["least possible"] == 80


def test_pod_by_pod_a_part_of_a_step_waits_for_the_rest() -> None:
    played = simulated(Forecasts(2, PAIR), POD_BY_POD)
    assert played.figures["pod-seconds of waiting inside a step"] != 0


def test_a_step_that_cannot_start_is_reported() -> None:
    played = simulated(Forecasts(1, (Step(name="huge", pods=13, works_s=1),)), OURS)
    assert played.wrong == ("only 0 of 1 steps finished",)
