"""Lists of conditions, to which several writers contribute."""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec.structs import replace

from phalanx.model.api.meta import Condition

FIELDS_IGNORED: Final = "FieldsIgnored"
"""While a field of the gang does not count as it is written."""

RUN_TIME_EXCEEDED: Final = "RunTimeExceeded"
"""While the gang may soon be evicted for the start that it delays."""

PREEMPTED: Final = "Preempted"
"""From the eviction of the gang for another one until its next start."""

DEGRADED: Final = "Degraded"
"""While a gang that has started has fewer members than its minimum; also the phase."""

PASSING_CONDITIONS: Final = frozenset({DEGRADED, FIELDS_IGNORED, RUN_TIME_EXCEEDED, PREEMPTED})
"""Conditions of a PodGroup that are True while they exist."""


def merge_conditions(
    current: Iterable[Condition], ours: Iterable[Condition], *, passing: Collection[str] = ()
) -> tuple[Condition, ...]:
    """Return our conditions, then the conditions of other types, which belong to other writers.

    A condition whose status did not change keeps its transition time. Types that are `passing` are ours.
    """
    by_type = {condition.type: condition for condition in current}
    result = [_with_transition_time(condition, by_type.pop(condition.type, None)) for condition in ours]
    return (*result, *[each for name, each in by_type.items() if name not in passing])


def _with_transition_time(condition: Condition, current: Condition | None) -> Condition:
    if current is None or current.status != condition.status:
        return condition
    return replace(condition, last_transition_time=current.last_transition_time)
