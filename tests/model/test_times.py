"""Times as Go writes and reads them: any year, and what Python makes of those that it cannot represent."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.formatting import moment
from phalanx.kube.api_fields import format_micro_time, format_time
from phalanx.model.api.values import parse_time, seconds, since_epoch, time_s

from tests.examples import holds

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00.5Z", datetime(2026, 1, 1, microsecond=500_000, tzinfo=UTC)),
        ("2026-01-01T00:00:00,123456789Z", datetime(2026, 1, 1, microsecond=123_456, tzinfo=UTC)),
        ("2026-01-01T00:00:00+24:00", datetime(2025, 12, 31, tzinfo=UTC)),
        ("2026-01-01T00:00:00+23:60", datetime(2025, 12, 31, tzinfo=UTC)),
        ("2028-02-29T12:00:00-12:00", datetime(2028, 3, 1, tzinfo=UTC)),
        ("0000-02-29T00:00:00Z", FIRST),
        ("0001-01-01T00:00:00+14:00", FIRST),
        ("-0001-12-31T10:00:00Z", FIRST),
        ("9999-12-31T23:59:59.999Z", LAST.replace(microsecond=999_000)),
        ("9999-12-31T23:59:59-14:00", LAST),
        ("10000-01-01T13:59:59Z", LAST),
        ("292277026596-12-04T15:30:07Z", LAST),
    ],
)
def test_times_that_go_reads_or_writes(text: str, at: datetime) -> None:
    """Each text was read or written by Go's time package (RFC3339)."""
    assert parse_time(text) == at


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-1-01T00:00:00Z"),
        *("2026-06-30T23:59:60Z", "2026-01-01T24:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z"),
        *(
            "2026-01-01T00:00:00+25:00",
            "2026-01-01T00:00:00+10:61",
            "1900-02-29T00:00:00Z",
            "999-01-01T00:00:00Z",
        ),
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_texts_that_are_no_times(text: str) -> None:
    assert parse_time(text) is None
    assert time_s(text) is None


@holds(200)
@given(
    at=st.integers(since_epoch(FIRST) + 86_400, since_epoch(LAST) - 86_400),
    minutes=st.integers(-14 * 60, 14 * 60),
)
def test_times_in_any_zone(at: int, minutes: int) -> None:
    """`datetime` agrees on all times that it can represent."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at)
    assert parse_time(moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()) == moment


@holds(200)
@given(ms=st.integers(-(2**80), 2**80))
def test_any_time_can_be_written(ms: int) -> None:
    for text in (moment(ms), format_time(ms)):
        at = parse_time(text)
        assert at is not None
        assert since_epoch(at) == min(max(ms // 1000, since_epoch(FIRST)), since_epoch(LAST))
    assert parse_time(format_micro_time(ms)) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 0),
        ("", 0),
        ("yesterday", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("2026-01-01T00:00:00.9Z", 1_767_225_600),
        ("10000-01-01T13:59:59Z", 253_402_300_799),
    ],
)
def test_seconds_of_a_field(text: str | None, expected: int) -> None:
    assert seconds(text) == expected
