"""A week of Microsoft's Philly trace in virtual time: Phalanx compared with simpler schedulers.

    python -m bench.philly --trace PATH [--days N] [--jobs N]

PATH is the CSV of jobs (timestamp, duration, num_gpus, cluster). The days are those with the most submitted
jobs; earlier jobs that would still run are included. The cluster has nodes of 8 GPUs, so many that the demand
is 80 %, 95 % and 110 % of all GPUs. Each tenant has a queue whose guarantee and weight are proportional to
the GPU time of all its jobs in the whole trace. There is no API server, and a bind takes no time. Phalanx
runs whole cycles over its own cache with the default configuration. Writes bench/results/philly.json and
philly.md; `python -m bench.plots` draws the JSON. With --resume DIRECTORY each finished run is stored there,
and a later command with the same trace and options plays only the others.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from phalanx_simulator.campaigns.jobs import TraceError, TraceJob, read_trace
from phalanx_simulator.lab.engine.jobs import DAY_MS, Window, busiest
from phalanx_simulator.lab.engine.play import Scheduler

from bench.philly.replay import Outcome, phalanx, play
from bench.philly.simple import PodByPod, StrictFifo
from bench.philly.week import Cluster, cluster_for, week_of
from bench.record import record

RESULTS: Final = Path(__file__).parent.parent / "results"
LOADS: Final = (80, 95, 110)
OURS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Phalanx, backfill Easy": {"backfill": "Easy"},
    "Phalanx, backfill None": {"backfill": "None"},
}
"""The spec of all queues by the name of the policy."""

STRICT_FIFO: Final = "gangs, strict FIFO"
POLICIES: Final = (*OURS, STRICT_FIFO, "pod by pod, FIFO")
GPUS_PER_POD: Final = 8
PERIOD_S: Final = 60


class Run(Struct, frozen=True, rename="camel"):
    """One policy at one load."""

    policy: str
    load_percent: int
    nodes: int
    guarantees: dict[str, int]
    outcome: Outcome


class Report(Struct, frozen=True, rename="camel"):
    """All runs. `first_day`: in days after the first job of the trace. `gpus_wanted`: average demand."""

    first_day: int
    days: int
    jobs: int
    jobs_before: int
    gpus_wanted: float
    period_s: int
    gpus_per_pod: int
    runs: tuple[Run, ...]


def scheduler_of(policy: str, cluster: Cluster) -> Scheduler:
    """Create the scheduler of a policy."""
    if policy in OURS:
        return phalanx(cluster, OURS[policy])
    return StrictFifo(cluster) if policy == STRICT_FIFO else PodByPod(cluster)


def run(week: Window, period_s: int, case: tuple[int, str]) -> Run:
    """Play one case and print its progress on standard error."""
    load, policy = case
    cluster = cluster_for(week, load)
    day = 0

    def report_progress(now: int) -> None:
        nonlocal day
        if now >= (day + 1) * DAY_MS:
            day = now // DAY_MS
            print(f"{policy}, load {load} %: {day} of {week.days} days", file=sys.stderr, flush=True)

    scheduler = scheduler_of(policy, cluster)
    outcome = play(week, cluster, scheduler, period_ms=period_s * 1000, report_progress=report_progress)
    return Run(policy, load, cluster.nodes, cluster.guarantees, outcome)


def table(runs: tuple[Run, ...]) -> str:
    """The results as a Markdown table; waits in minutes, mean and 95th percentile."""
    sizes = list(dict.fromkeys(size for each in runs for size in each.outcome.waits))
    heads = [f"{size} GPUs, min" for size in sizes]
    columns = (
        *("load", "policy", *heads, "used %", "Jain", "evictions per 1,000", "lost GPU h", "never started"),
    )
    rows = [columns, ("---",) * len(columns), *map(partial(_cells, sizes), runs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(sizes: list[str], each: Run) -> tuple[str, ...]:
    out = each.outcome
    waits = [
        f"{out.waits[size].mean_s / 60:.1f} / {out.waits[size].p95_s / 60:.1f}" if size in out.waits else "-"
        for size in sizes
    ]
    return (
        f"{each.load_percent} %",
        each.policy,
        *waits,
        f"{100 * out.utilisation:.1f}",
        f"{out.jain:.3f}",
        f"{out.evictions_per_thousand:.1f}",
        f"{out.lost_gpu_hours:.0f}",
        str(out.never_started),
    )


def played(week: Window, *, period_s: int, jobs: int, finished: Path | None = None) -> Iterator[Run]:
    """Play every policy at every load in `jobs` processes, the longest runs first.

    Runs found in `finished` are not played again, and the others are stored there.
    """
    cases = [(load, policy) for policy in POLICIES for load in sorted(LOADS, reverse=True)]
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(partial(_run_once, finished, week, period_s), cases)


def _run_once(finished: Path | None, week: Window, period_s: int, case: tuple[int, str]) -> Run:
    if finished is None:
        return run(week, period_s, case)
    inputs = hashlib.sha256(repr((week, period_s, case)).encode()).hexdigest()
    path = finished / f"{inputs[:16]}.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Run)
    outcome = run(week, period_s, case)
    finished.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(outcome))
    return outcome


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a gang never started under Phalanx, 2 when the trace cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.philly", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--days", type=int, default=7, help="how many days (7)")
    parser.add_argument("--first-day", type=int, help="after the trace's first job; else the busiest days")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--period", type=int, default=PERIOD_S, help=f"s between decisions ({PERIOD_S})")
    parser.add_argument("--gpus-per-pod", type=int, default=GPUS_PER_POD, choices=range(1, 9))
    parser.add_argument("--output", type=Path, default=RESULTS / "philly.json")
    parser.add_argument("--resume", type=Path, metavar="DIRECTORY", help="of runs that have finished")
    options = parser.parse_args(arguments)
    try:
        trace = read_trace(options.trace, gpus_per_pod=options.gpus_per_pod)
    except (TraceError, OSError) as error:
        print(f"--trace: {error}", file=sys.stderr)
        return 2
    first = options.first_day
    if first is None:
        first = busiest(map(_submitted_ms, trace), options.days)
    week = week_of(trace, first_day=first, days=options.days)
    playing = played(week, period_s=options.period, jobs=options.jobs, finished=options.resume)
    runs = tuple(sorted(playing, key=_place))
    new = sum(job.is_new for job in week.jobs)
    report = Report(
        *(first, options.days, new, len(week.jobs) - new, round(week.wanted, 1), options.period),
        *(options.gpus_per_pod, runs),
    )
    record(options.output, msgspec.to_builtins(report))
    options.output.with_suffix(".md").write_text(table(runs) + "\n")
    print(table(runs))
    return int(any(each.policy in OURS and each.outcome.never_started for each in runs))


def _submitted_ms(job: TraceJob) -> int:
    return int(job.submit_s * 1000)


def _place(each: Run) -> tuple[int, int]:
    return each.load_percent, POLICIES.index(each.policy)


if __name__ == "__main__":
    sys.exit(main())
