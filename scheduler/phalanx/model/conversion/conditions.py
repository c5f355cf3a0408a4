"""Lists of conditions, to which several writers contribute."""

from collections.abc import Iterable

from msgspec.structs import replace

from phalanx.model.api.meta import Condition


def merge_conditions(current: Iterable[Condition], ours: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return our conditions, then the conditions of other types, which belong to other writers.

    A condition whose status did not change keeps its transition time.
    """
    by_type = {condition.type: condition for condition in current}
    result = [_with_transition_time(condition, by_type.pop(condition.type, None)) for condition in ours]
    return (*result, *by_type.values())


def _with_transition_time(condition: Condition, current: Condition | None) -> Condition:
    if current is None or current.status != condition.status:
        return condition
    return replace(condition, last_transition_time=current.last_transition_time)
