"""Durations, times and numbers that API objects write as text."""

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

_DURATION: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)
_SECONDS: Final = (3600, 60, 1)

_LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999; datetime cannot represent later times."""

_COUNT_DIGITS: Final = 9


@lru_cache(maxsize=1024)
def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration such as "1h30m"; None for any other text, an empty one included."""
    found = _DURATION.fullmatch(text) if text else None
    if found is None:
        return None
    parts = zip(found.groups(), _SECONDS, strict=True)
    return sum(int(part or 0) * seconds for part, seconds in parts) * 1000


def duration_text(milliseconds: int) -> str:
    """A duration in the format of Phalanx objects, such as 1h30m, in whole seconds."""
    hours, rest = divmod(milliseconds // 1000, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


@lru_cache(maxsize=1024)
def time_s(text: str) -> int | None:
    """Seconds since the epoch of an RFC 3339 time with a time zone; None for any other text."""
    try:
        at = seconds(msgspec.convert(text, Annotated[datetime, Meta(tz=True)]))
    except msgspec.ValidationError:
        return None
    return at if 0 <= at <= _LAST_SECOND else None


def seconds(timestamp: datetime | None) -> int:
    """Seconds since the epoch, 0 without a timestamp. A timestamp without a time zone is in UTC."""
    if timestamp is None:
        return 0
    return int((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=timezone.utc)).timestamp())  # noqa: UP017 mypy checks for 3.11, where both exist


def count(text: str | None) -> int | None:
    """A number of at most nine plain digits, as label values have it; else None."""
    if text is None or len(text) > _COUNT_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
