"""The seeds that `make test` runs, and the coverage points that each of them reaches.

`python -m tests.sim_runs.select_seeds` chose them among many candidates and wrote `seeds.json`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import Summary, simulate

PATH: Final = Path(__file__).with_name("seeds.json")
HOURS: Final = 0.5
STORM: Final = "storm"
STORM_HOURS: Final = 0.1
STORMS: Final = 1000
"""Seeds from this one on are storms: five times as many faults in a fifth of the time, on jobs with claims to
volumes and devices. They reach most for their CPU time."""

PROFILES: Final = (
    *("all",) * 8,
    *("network", "leaders", "nodes", "pods", "objects") * 2,
    *("correlated", "rivals"),
)
"""Of the seeds below STORMS. Larger clusters and longer storms are part of `make soak`."""

OF_DRILLS: Final = frozenset(
    {
        *("bind-applied-but-refused", "bind-throttled", "bind-landed-after-failover"),
        *("leader-lost-mid-gang", "failed-node-was-the-only-one"),
    }
)
"""Coverage points that the plans of `test_drills.py` reach. Seeds need not: about one of 200 does."""


class Selection(Struct, frozen=True, rename="camel"):
    """What `seeds.json` holds."""

    candidates: int
    """How many seeds were played."""
    repeats: int
    """Each point is reached by this many selected seeds, or by all candidates that reach it."""
    candidate_cpu_s: float
    """CPU seconds of all candidates."""
    selected_cpu_s: float
    """CPU seconds of the selected seeds."""
    seeds: tuple[int, ...]
    points: Mapping[str, tuple[int, int]]
    """By coverage point: how many candidates reach it, and how many of the selected seeds."""


class DecisionCoverage(Check):
    """Adds decisions to the coverage points: reasons of verdicts and evictions, causes of starts."""

    name = "coverage of decisions"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        reached = self.context.coverage.reached
        for verdict in result.verdicts:
            reached(f"verdict {verdict.reason}")
        for eviction in result.evictions:
            reached(f"eviction {eviction.reason}")
        for placement in result.placements:
            reached(f"placement {placement.cause}")


def selection() -> Selection:
    """Read `seeds.json`."""
    return msgspec.json.decode(PATH.read_bytes(), type=Selection)


def profile_of(seed: int) -> str:
    """Return the fault profile of a seed."""
    return STORM if seed >= STORMS else PROFILES[seed % len(PROFILES)]


def hours_of(seed: int) -> float:
    """Return the simulated hours under faults of a seed."""
    return STORM_HOURS if seed >= STORMS else HOURS


def run(seed: int) -> Summary:
    """Play one seed with all checks."""
    return simulate(scenario_of(request_of(seed), checks=(*ALL_CHECKS, DecisionCoverage)))


def request_of(seed: int) -> Request:
    """Return the options of a seed."""
    faults, hours = profile_of(seed), hours_of(seed)
    if seed >= STORMS:
        return Request(seed=seed - STORMS, nodes=8, hours=hours, faults=faults, load=0.8, workload="claims")
    nodes = 16 if seed % 8 == 0 else 8
    return Request(seed=seed, nodes=nodes, hours=hours, faults=faults, load=0.7)


def points_of(seed: int, summary: Summary) -> frozenset[str]:
    """Return the coverage points of a run: rare paths, API access, faults, decisions, the profile."""
    return frozenset((*summary.coverage, f"profile {profile_of(seed)}")) - OF_DRILLS
