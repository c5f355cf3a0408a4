"""A part of all drills of faults, spread over every act. The whole is `make soak`; load: test_load.py."""

from itertools import islice
from typing import Final

import pytest
from phalanx_simulator.drills.catalogue import OPERATION_DRILLS, plans_of
from phalanx_simulator.drills.drill import Outcome, Playable, play_each
from phalanx_simulator.invariants.catalogue import ALL_CHECKS

EVERY: Final = {"crashes": 200, "replies": 200, "views": 100, "races": 10}
"""One plan of so many is run, by drill. Every second one of the plans of crashes and replies that ran before
reaches the same coverage points; of the other drills it would not."""
PARTS: Final = 2


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("drill", OPERATION_DRILLS)
def test_every_act_comes_to_its_end(drill: str, part: int) -> None:
    every = EVERY[drill]
    plans = islice(plans_of(drill, seed=1, checks=ALL_CHECKS), part * every, None, every * PARTS)
    played: dict[str, str | None] = {}

    def take(plan: Playable, outcome: Outcome) -> None:
        played[plan.name] = outcome.problem

    play_each(plans, checks=ALL_CHECKS, take=take)
    assert len(played) > 10
    assert {name: problem for name, problem in played.items() if problem is not None} == {}
