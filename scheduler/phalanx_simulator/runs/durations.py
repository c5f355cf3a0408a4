"""Durations as histograms with fixed bounds, which add up over runs without loss."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

AT_MOST_S: Final = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 75, 90, 120, 150, 180, 240, 300, 360, 420, 480, 600),
    *(900, 1200, 1800, 2700, 3600, 5400, 7200, 14_400, 28_800, 86_400, 604_800, 31_536_000),
)
"""Upper bounds in seconds, dense where repairs lie. The last, a year, takes whatever is longer too."""

Histogram = Mapping[int, int]
"""By upper bound (of AT_MOST_S, rising): how many were at most that and above the bound before. No zeros."""


def histogram(seconds: Iterable[float]) -> Histogram:
    """Count these durations."""
    counts = dict.fromkeys(AT_MOST_S, 0)
    for each in seconds:
        counts[AT_MOST_S[min(bisect_left(AT_MOST_S, each), len(AT_MOST_S) - 1)]] += 1
    return _without_zeros(counts)


def added(histograms: Iterable[Histogram]) -> Histogram:
    """The sum of the histograms."""
    counts = dict.fromkeys(AT_MOST_S, 0)
    for one in histograms:
        for bound, count in one.items():
            counts[bound] += count
    return _without_zeros(counts)


def percentile(counts: Histogram, percent: int) -> int | None:
    """An upper bound of the percentile in seconds; None for an empty histogram."""
    rank = _rank(sum(counts.values()), percent)
    reached = zip(counts, accumulate(counts.values()), strict=True)
    return next((bound for bound, so_far in reached if so_far > rank), None)


def exact_percentile(seconds: Iterable[float], percent: int) -> float | None:
    """The percentile of the durations themselves, to the millisecond."""
    ordered = sorted(seconds)
    return round(ordered[_rank(len(ordered), percent)], 3) if ordered else None


def _rank(count: int, percent: int) -> int:
    return min(count - 1, count * percent // 100)


def _without_zeros(counts: Mapping[int, int]) -> Histogram:
    return {bound: count for bound, count in counts.items() if count}
