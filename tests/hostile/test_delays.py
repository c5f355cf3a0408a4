"""When `bench.hostile` counts a cycle as delayed."""

import pytest

from bench.hostile import Tally, longest


@pytest.mark.parametrize(
    ("hostile_ms", "sound_ms", "times"),
    [
        ([10.0, 10.0, 10.0], [10.0, 10.0, 10.0], 1.0),
        ([10.0, 80.0, 10.0], [10.0, 20.0, 20.0], 4.0),
        ([60.0, 10.0, 10.0], [1.0, 20.0, 30.0], 3.0),
    ],
)
def test_a_cycle_is_compared_with_its_own_reference_or_the_median(
    hostile_ms: list[float], sound_ms: list[float], times: float
) -> None:
    assert longest(hostile_ms, sound_ms) == times


def test_the_report_has_the_delay_limit() -> None:
    tally = Tally()
    tally.cycle_ms, tally.sound_ms = [50.0], [10.0]
    report = tally.report(1.0)
    assert report["longest beside sound ones (times)"] > report["longest that is no delay (times)"]
