"""Times as the API writes them, from milliseconds since the epoch."""

from datetime import UTC, datetime


def format_micro_time(now_ms: int) -> str:
    """Kubernetes' MicroTime: always six digits of a second, in UTC."""
    return _utc(now_ms).isoformat(timespec="microseconds").replace("+00:00", "Z")


def format_time(now_ms: int) -> str:
    """Kubernetes' Time: whole seconds, in UTC."""
    return _utc(now_ms).isoformat(timespec="seconds").replace("+00:00", "Z")


def _utc(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, tz=UTC)
