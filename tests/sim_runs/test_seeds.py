"""No check is violated in the selected seeds, and together they reach every coverage point."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from tests.sim_runs.seeds import hours_of, points_of, run, selection
from tests.sim_runs.seeds_report import REACHED

SEEDS: Final = selection().seeds
BATCH: Final = 3
"""Seeds of one test: enough to amortize its start, few enough to distribute the work among processes."""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("first", range(0, len(SEEDS), BATCH))
def test_no_check_is_violated(first: int, record_property: Callable[[str, object], None]) -> None:
    """`seeds_report.py` fails the run when all of these pass and a coverage point was not reached."""
    summaries = {seed: run(seed) for seed in SEEDS[first : first + BATCH]}
    assert [(seed, each.violations[0]) for seed, each in summaries.items() if each.violations] == []
    faults: Counter[str] = Counter()
    for seed, summary in summaries.items():
        faults.update(summary.faults)
        record_property(REACHED, [seed, *sorted(points_of(seed, summary))])
    record_property("faults by family", dict(faults))
    record_property("runs", {"seeds": len(summaries), "hours under faults": sum(map(hours_of, summaries))})


def test_the_selected_seeds_reach_every_point_of_all_candidates() -> None:
    """`select_seeds.py` measured it; each point is reached often enough to survive small changes."""
    chosen = selection()
    assert chosen.candidates >= 100
    for point, (before, after) in chosen.points.items():
        assert after >= min(before, chosen.repeats) > 0, point
