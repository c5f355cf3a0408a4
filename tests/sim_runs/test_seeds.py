"""Two hundred seeds and a hundred simulated hours under every kind of fault: no check is violated."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.coverage_points import COVERAGE_POINTS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import Summary, simulate

SEEDS: Final = 200
HOURS: Final = 0.5
TOGETHER: Final = 5
"""Seeds of one test: enough that starting it costs little, few enough to share the work among processes."""

PROFILES: Final = (
    *("all",) * 8,
    *("network", "leaders", "nodes", "pods", "objects") * 2,
    *("correlated", "rivals"),
)
"""The heavier `storm`, and clusters in which more is checked by size, are for `make soak`."""


def run(seed: int) -> Summary:
    nodes = 16 if seed % 8 == 0 else 8
    faults = PROFILES[seed % len(PROFILES)]
    request = Request(seed=seed, nodes=nodes, hours=HOURS, faults=faults, load=0.7)
    return simulate(scenario_of(request, checks=ALL_CHECKS))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_no_check_is_violated(first: int, record_property: Callable[[str, object], None]) -> None:
    summaries = [run(seed) for seed in range(first, first + TOGETHER)]
    assert [(one.seed, one.violations[0]) for one in summaries if one.violations] == []
    faults: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    for each in summaries:
        faults.update(each.faults)
        paths.update({mark: count for mark, count in each.coverage.items() if mark in COVERAGE_POINTS})
    record_property("rare paths", dict(paths))
    record_property("faults by family", dict(faults))
    record_property("runs", {"seeds": len(summaries), "hours under faults": len(summaries) * HOURS})
