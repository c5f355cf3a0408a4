"""Some plans of each fault drill and each act. `make soak` plays all; test_load.py covers load."""

from itertools import islice
from typing import Final

import pytest
from phalanx_simulator.drills.catalogue import OPERATION_DRILLS, plans_of
from phalanx_simulator.drills.drill import Outcome, Playable, play_each
from phalanx_simulator.invariants.catalogue import ALL_CHECKS

EVERY: Final = {"crashes": 200, "replies": 200, "views": 100, "races": 10}
"""By drill: one of this many plans is played. The plans of crashes and replies reach the same coverage points
as twice as many; those of the other drills would not."""
PARTS: Final = 2


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("drill", OPERATION_DRILLS)
def test_every_plan_of_the_drills_completes(drill: str, part: int) -> None:
    every = EVERY[drill]
    plans = islice(plans_of(drill, seed=1, checks=ALL_CHECKS), part * every, None, every * PARTS)
    played: dict[str, str | None] = {}

    def take(plan: Playable, outcome: Outcome) -> None:
        played[plan.name] = outcome.problem

    play_each(plans, checks=ALL_CHECKS, take=take)
    assert len(played) > 10
    assert {name: problem for name, problem in played.items() if problem is not None} == {}
