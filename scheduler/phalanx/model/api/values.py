"""Durations, times and numbers that API objects write as text.

An API server stores times of any year and sends them in UTC, such as 10000-01-01T13:59:59Z for the last day
of 9999 in America. Python represents the years 1 to 9999. Times beyond count as the first or the last second
of these years.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_DURATION: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)
_SECONDS: Final = (3600, 60, 1)

_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
"""The first second of the year 1 and the last of the year 9999, since the epoch."""

_TIME: Final = re.compile(
    r"(-?[0-9]{4,18})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,40}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS: Final = 400
"""Years after which the calendar repeats itself."""

_CYCLE_S: Final = 146_097 * 86_400
_OFFSET_MAX_S: Final = 86_400

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
    """Seconds since the epoch of an RFC 3339 time from 1970 on; None for any other text."""
    at = parse_time(text)
    return since_epoch(at) if at is not None and at >= _EPOCH else None


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time of any year as Go reads it, in UTC; None for any other text."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    cycles, year = divmod(year, _CYCLE_YEARS)
    try:
        moment = datetime(year + _CYCLE_YEARS, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    fraction, sign, hours, minutes = found.groups()[6:]
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    if offset > _OFFSET_MAX_S or int(minutes or 0) > 60:
        return None
    at = since_epoch(moment) + (cycles - 1) * _CYCLE_S - (-offset if sign == "-" else offset)
    microseconds = int(f"{fraction or 0:0<6}"[:6]) if _FIRST_SECOND <= at <= _LAST_SECOND else 0
    return utc(at).replace(microsecond=microseconds)


def utc(at: int) -> datetime:
    """The time of these seconds since the epoch."""
    return _EPOCH + timedelta(seconds=min(max(at, _FIRST_SECOND), _LAST_SECOND))


@lru_cache(maxsize=4096)
def seconds(text: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 without one, and for any other text."""
    at = parse_time(text) if text else None
    return since_epoch(at) if at is not None else 0


def since_epoch(at: datetime) -> int:
    """Whole seconds since the epoch."""
    return int(at.timestamp())


def count(text: str | None) -> int | None:
    """A number of at most nine plain digits, as label values have it; else None."""
    if text is None or len(text) > _COUNT_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
