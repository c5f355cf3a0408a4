"""Each race of the drill happens while the bind is in flight; otherwise the drill fails."""

import pytest
from msgspec.structs import replace
from phalanx_simulator.drills.drill import play
from phalanx_simulator.drills.operations import OPERATIONS
from phalanx_simulator.drills.races import RACES, Race, race_at
from phalanx_simulator.invariants.catalogue import ALL_CHECKS

pytestmark = pytest.mark.usefixtures("quiet")

[LOST] = [act for act in OPERATIONS if act.name == "member-lost"]


def problem(race: Race, *, occurrence: int = 0) -> str | None:
    return play(LOST, seed=1, fault=race_at(race, occurrence), checks=ALL_CHECKS).problem


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_every_race_happens(race: Race) -> None:
    assert problem(race) is None


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_a_race_in_which_nothing_happens_fails(race: Race) -> None:
    idle = replace(race, act=lambda _world, _bound: None)
    assert problem(idle) == "the race had no effect: the bind was applied without the change"


def test_a_race_at_a_bind_that_is_never_sent_fails() -> None:
    assert problem(RACES[0], occurrence=1000) == "the race had no effect: the bind was never sent"
