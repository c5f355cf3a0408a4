"""Lists of conditions: what we say replaces what we said, what others say stays."""

from collections.abc import Iterable

from phalanx.model.api.meta import Condition


def merged(seen: Iterable[Condition], ours: Iterable[Condition]) -> tuple[Condition, ...]:
    """`ours`, with the old transition time where the status is the same; then the other types of `seen`."""
    before = {condition.type: condition for condition in seen}
    result = [_with_old_time(condition, before.pop(condition.type, None)) for condition in ours]
    return (*result, *before.values())


def _with_old_time(condition: Condition, before: Condition | None) -> Condition:
    if before is None or before.status != condition.status:
        return condition
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=before.last_transition_time,
        observed_generation=condition.observed_generation,
    )
