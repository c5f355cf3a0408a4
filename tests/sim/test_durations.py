"""Histograms of durations with fixed bounds: adding them loses no information."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx_simulator.runs.outcomes import AT_MOST_S, added, exact_percentile, histogram, percentile

from tests.examples import holds

SECONDS = st.lists(st.floats(0, 700_000), max_size=20)


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [
        ([], {}),
        ([0.0, 1.0], {1: 2}),
        ([1.001, 2.0, 2.001], {2: 2, 3: 1}),
        ([600.5, 3], {3: 1, 900: 1}),
        ([1e12], {31_536_000: 1}),
    ],
)
def test_a_duration_counts_at_the_first_bound_that_is_not_smaller(
    seconds: list[float], counts: dict[int, int]
) -> None:
    assert histogram(seconds) == counts


def test_bounds_rise() -> None:
    assert list(AT_MOST_S) == sorted(set(AT_MOST_S))


@given(st.lists(SECONDS, max_size=5))
@holds(50)
def test_added_histograms_equal_the_histogram_of_all_durations(runs: list[list[float]]) -> None:
    assert added(map(histogram, runs)) == histogram([each for run in runs for each in run])


@given(SECONDS, st.sampled_from([0, 50, 99, 100]))
@holds(50)
def test_a_percentile_is_the_bound_of_the_exact_one(seconds: list[float], percent: int) -> None:
    exact = exact_percentile(seconds, percent)
    if exact is None:
        assert percentile(histogram(seconds), percent) is None
    else:
        [bound] = histogram([sorted(seconds)[min(len(seconds) - 1, len(seconds) * percent // 100)]])
        assert percentile(histogram(seconds), percent) == bound
