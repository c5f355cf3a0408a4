"""A queue whose fair share is less than what gets a unit, beside one with demand: weights 9 and 1, 4 GPUs."""

from typing import Any

import pytest
from phalanx.framework.config import FairnessConfig, SchedulerConfig
from phalanx.model.resources import GPU

from tests.actions.timeline import Timeline, Work

PAST_USAGE = SchedulerConfig(fairness=FairnessConfig(usage_half_life_minutes=10))


@pytest.mark.parametrize(
    ("config", "light", "demand", "starts"),
    [
        (SchedulerConfig(), {}, 20, False),
        (PAST_USAGE, {}, 20, False),
        (SchedulerConfig(), {"guarantee": {GPU: 1}}, 20, True),
        (SchedulerConfig(), {"weight": 2}, 20, True),
        (SchedulerConfig(), {}, 3, True),
    ],
)
def test_it_starts_by_a_guarantee_or_a_larger_weight_or_what_others_leave(
    config: SchedulerConfig, light: dict[str, Any], demand: int, starts: bool
) -> None:
    """Past usage decides which queue is tried first, but its start would be given up for a share."""
    timeline = Timeline(1, 4, None, config)
    timeline.scenario.queue("heavy", weight=9).queue("light", **{"weight": 1, **light})
    timeline.add(*(Work(f"h{index}", 1, 1, runs=7 + index % 4, queue="heavy") for index in range(demand)))
    timeline.add(Work("light", 1, 1, arrives=3, queue="light"))
    for minute in range(20):
        timeline.minute = minute
        decided = timeline.step()
        timeline.scenario.terminate(decided)
        for pod in decided.evicted():
            del timeline.started[pod.removesuffix("-0")]
    assert ("light" in timeline.started) is starts
