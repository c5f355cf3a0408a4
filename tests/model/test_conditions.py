"""Conditions of several writers in one list."""

from phalanx.model.api.meta import Condition
from phalanx.model.conversion.conditions import FIELDS_IGNORED, PASSING_CONDITIONS, merge_conditions


def condition(name: str, at: str = "2026-01-01T00:00:00Z", status: str = "True") -> Condition:
    return Condition(type=name, status=status, reason=name, message="", last_transition_time=at)


def test_what_others_write_stays_and_what_is_over_goes() -> None:
    """Conditions of ours that exist only while they are true are removed."""
    current = (condition("Theirs"), condition(FIELDS_IGNORED), condition("Scheduled"))
    merged = merge_conditions(current, (condition("Scheduled", "later"),), passing=PASSING_CONDITIONS)
    assert merged == (condition("Scheduled"), condition("Theirs"))


def test_a_status_that_changes_has_a_new_time() -> None:
    changed = condition("Scheduled", "later", "False")
    assert merge_conditions((condition("Scheduled"),), (changed,)) == (changed,)
