"""Values of API fields: timestamps, messages of limited length, lists of conditions."""

from collections.abc import Iterable
from datetime import UTC, datetime

from phalanx.model.api.meta import Condition


def format_micro_time(now_ms: int) -> str:
    """Format milliseconds since the epoch as a Kubernetes MicroTime: UTC, six digits of a second."""
    return _utc(now_ms).isoformat(timespec="microseconds").replace("+00:00", "Z")


def format_time(now_ms: int) -> str:
    """Format milliseconds since the epoch as a Kubernetes Time: UTC, whole seconds."""
    return _utc(now_ms).isoformat(timespec="seconds").replace("+00:00", "Z")


def _utc(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, tz=UTC)


def truncate(text: str, limit: int) -> str:
    """Cut a text to at most `limit` bytes of UTF-8; three dots mark the cut."""
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - 3].decode(errors="ignore") + "..."


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
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=current.last_transition_time,
        observed_generation=condition.observed_generation,
    )
