"""Values of API fields: timestamps, messages of limited length."""

from phalanx.model.api.values import utc
from phalanx.model.texts import printable


def format_micro_time(now_ms: int) -> str:
    """Format milliseconds since the epoch as a Kubernetes MicroTime: UTC, six digits of a second."""
    at = utc(now_ms // 1000).replace(microsecond=now_ms % 1000 * 1000)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def format_time(now_ms: int) -> str:
    """Format milliseconds since the epoch as a Kubernetes Time: UTC, whole seconds.

    A time after the year 9999, such as the start after a gang that runs until then, is its last second.
    """
    return utc(now_ms // 1000).isoformat().replace("+00:00", "Z")


def message_text(text: str, limit: int) -> str:
    """The text with control characters escaped, of at most `limit` bytes of UTF-8; three dots mark a cut."""
    shown = printable(text)
    data = shown.encode()
    if len(data) <= limit:
        return shown
    return data[: limit - 3].decode(errors="ignore") + "..."
