"""`python -m bench.soak`: a thousand seeds of simulated faults, and all drills; `make soak`.

Writes bench/results/soak.json. Takes about 45 minutes on two cores. Half of the seeds have all faults, the
others a storm or single families of faults: more invariants can be checked when no other client binds or
deletes pods. With `--workload queues` the seeds are clusters with all features of queues under all faults,
without drills; with `--workload claims` their pods have volumes and devices. With `--workload prepared` their
drivers prepare devices too, and with `--workload shares` several claims have each device. The results are in
bench/results/soak_queues.json, and in soak_claims.json and so on.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phalanx_simulator.invariants.coverage_points import missing
from phalanx_simulator.invariants.writes import unused_access
from phalanx_simulator.runs.totals import added

from bench.record import record

RESULTS = Path(__file__).parent / "results"

HOURS = "0.41"
"""Hours of faults in each run; with warm-up and recovery a run takes one simulated hour."""

NODES = "12"

FAULTS = {
    "all": 510,
    "storm": 35,
    **dict.fromkeys(("network", "leaders", "nodes", "correlated", "pods", "objects", "rivals"), 65),
}
"""Seeds of each profile per thousand."""

ACTS = ("bind", "member-lost", "node-lost-replace", "node-lost-restart", "preemption")
"""The acts of F1 to F3 in the fault matrix, of which every plan is played."""

MORE_ACTS = (
    *("reclaim", "nomination", "move"),
    *("member-failed-restart", "failed-member-removed", "partial-release"),
)
MORE_EVERY = 20

ONLY_PREPARED = (
    *("devices-prepared", "device-not-preparable"),
    *("devices-prepared-too-late", "devices-prepared-at-failover"),
)
"""Coverage points that only seeds of `--workload prepared` reach."""

PLAIN = ("--hours", HOURS, "--nodes", NODES)
WORKLOAD = ("--hours", "0.25", "--nodes", "12", "--load", "0.9", "--workload")


def main(arguments: list[str] | None = None) -> int:
    """Exit with code 1 when a check was violated, an act failed, or no run reached a coverage point."""
    parsed = _parsed(arguments)
    is_plain = parsed.workload == "plain"
    settings, shares = (PLAIN, FAULTS) if is_plain else ((*WORKLOAD, parsed.workload), {"all": 1})
    minutes: dict[str, float] = {}
    with _timed("seeds", minutes):
        seeds = _seeds(parsed.seeds, settings, shares, parsed.jobs)
    with _timed("plans of F1 to F3", minutes):
        drills = _drills(parsed.every, parsed.jobs) if is_plain else []
    with _timed("more plans", minutes):
        drills += _sampled_drills(parsed.every, parsed.jobs) if is_plain else []
    coverage = added(each["coverage"] for each in (*seeds, *drills))
    unreached = [point for point in missing(coverage) if point not in ONLY_PREPARED]
    _print_report(seeds, drills, unreached, minutes)
    result = {
        "processes": parsed.jobs,
        "minutes": minutes,
        "seeds": seeds,
        "drills": drills,
        "marksNotReached": unreached,
        "accessNotUsed": [f"{verb} {resource}" for verb, _, resource in unused_access(coverage)],
    }
    name = "soak" if is_plain else f"soak_{parsed.workload}"
    record(RESULTS / f"{name}.json", result)
    violations = sum(each["violationCount"] for each in seeds)
    failed = violations or any(drill["failed"] for drill in drills) or (is_plain and unreached)
    return 1 if failed else 0


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="runs of one simulated hour")
    workloads = ("plain", "queues", "claims", "prepared", "shares")
    parser.add_argument("--workload", choices=workloads, default="plain", help="of the seeds")
    parser.add_argument("--every", type=int, default=1, help="play only every n-th plan of the drills")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser.parse_args(arguments)


def _seeds(count: int, settings: tuple[str, ...], shares: dict[str, int], jobs: int) -> list[Any]:
    """Totals of each profile, from at least two seeds; no seed is played twice."""
    parts, first = [], 1
    for faults, share in shares.items():
        last = first + max(2, count * share // sum(shares.values())) - 1
        words = ("--seeds", f"{first}..{last}", "--faults", faults, *settings)
        parts.append({"profile": faults, **_json("simulate", *words, jobs=jobs)})
        first = last + 1
    return parts


@contextmanager
def _timed(part: str, minutes: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    yield
    minutes[part] = round((time.monotonic() - began) / 60, 1)


def _drills(every: int, jobs: int) -> list[Any]:
    played: list[Any] = _json("drill", *_named(ACTS), "--every", str(every), jobs=jobs)
    return played


def _sampled_drills(every: int, jobs: int) -> list[Any]:
    """Drills of the other acts, and load."""
    more = _json("drill", *_named(MORE_ACTS), "--every", str(MORE_EVERY * every), jobs=jobs)
    for drill in more:
        drill["drill"] += f", one in {MORE_EVERY * every} of {', '.join(MORE_ACTS)}"
    return [*more, *_json("drill", "load", "--every", str(every), jobs=jobs)]


def _named(acts: tuple[str, ...]) -> list[str]:
    return [word for act in acts for word in ("--operation", act)]


def _json(command: str, *options: str, jobs: int) -> Any:
    words = [sys.executable, "-m", "phalanx.cli", command, *options, "--jobs", str(jobs), "-o", "json"]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout)


def _print_report(
    seeds: list[Any], drills: list[Any], unreached: list[str], minutes: dict[str, float]
) -> None:
    runs, hours = (sum(each[key] for each in seeds) for key in ("seeds", "simulatedHours"))
    print(f"{runs} seeds, {hours:.0f} simulated hours")
    print("minutes: " + ", ".join(f"{part} {taken:.0f}" for part, taken in minutes.items()))
    faults = added(each["faults"] for each in seeds)
    print("faults: " + ", ".join(f"{family} {count}" for family, count in faults.items()))
    for each in seeds:
        print(f"violations under {each['profile']}: {each['violationCount']} in {each['seeds']} seeds")
    for drill in drills:
        print(f"{drill['drill']}: {drill['played']} plans, {len(drill['failed'])} failed")
    print(f"coverage points not reached: {', '.join(unreached) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
