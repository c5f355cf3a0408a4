"""Gangs that do not change are the same objects in later sessions."""

from msgspec.structs import replace
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.settled_gangs import SettledGangs

from tests.builders import Scenario


def gang(name: str) -> Gang:
    (made,) = Scenario().gang(name, 1).snapshot().gangs.values()
    return made


def test_what_was_made_of_a_gang_is_kept_until_the_gang_changes() -> None:
    kept, one = SettledGangs(), gang("g")
    assert kept.get(one) is None
    made = replace(one, priority=7)
    kept.keep(one, made)
    assert kept.get(one) is made
    assert kept.get(replace(one, priority=1)) is None


def test_gangs_that_no_session_asks_for_are_dropped() -> None:
    kept, one = SettledGangs(), gang("g")
    gone = replace(one, id=GangId("gone"))
    for each in (one, gone):
        kept.keep(each, each)
    for number in range(10_000):
        other = replace(one, id=GangId(f"other-{number}"))
        kept.keep(other, other)
        assert kept.get(one) is one
    assert kept.get(gone) is None
