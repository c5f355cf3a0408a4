"""`python -m bench.campaigns`: goodput and restarts at realistic failure rates, and 10 and 100 times those.

Clusters of 64, 256 and 1,024 nodes, realistic jobs, all invariants checked. The jobs of a cluster are the
same under all rates, and many fail by themselves, so the cost of faults is reported relative to a run without
faults. Writes campaigns.json and campaigns.md to bench/results.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
from phalanx.observe.logs import configure_logs
from phalanx_simulator.commands.workers import workers
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.outcomes import Outcomes, cost_of
from phalanx_simulator.runs.scenarios import CAMPAIGNS, Request, scenario_of
from phalanx_simulator.runs.simulation import Summary, simulate, with_twin

from bench.record import record

RESULTS = Path(__file__).parent / "results"

NODES: Final = (1024, 256, 64)
"""The longest runs first, so that two processes end together."""

_BESIDE_TWIN: Final = "life"
"""The rate whose runs have a twin without faults; the other rates use the same twin."""

_COLUMNS: Final[dict[str, Callable[[Outcomes], object]]] = {
    "jobs finished": lambda out: f"{out.jobs_finished} of {out.jobs_submitted}",
    "faults that met a gang": lambda out: out.faults_met,
    "restarts": lambda out: out.restarts,
    "per fault": lambda out: out.restarts_per_fault,
    "gangs broken": lambda out: out.gangs_broken,
    "whole again": lambda out: out.gangs_whole_again,
    "s from fault to whole: median": lambda out: out.whole_after_fault_p50_s,
    "p99": lambda out: out.whole_after_fault_p99_s,
    "pods lost": lambda out: out.pods_lost,
    "by faults": lambda out: out.pods_lost_by_faults,
    "GPU hours held": lambda out: out.gpu_hours_held,
    "lost": lambda out: out.gpu_hours_lost,
}


def main(arguments: list[str] | None = None) -> int:
    """Print and write one row for each cluster and rate of faults; 1 when a check was violated."""
    options = _parsed(arguments)
    runs = [
        Request(
            seed=options.seed,
            nodes=nodes,
            hours=hours_of(options.hours, nodes),
            faults=faults,
            load=options.load,
        )
        for nodes, faults in product(NODES, reversed(CAMPAIGNS))
    ]
    with workers(options.jobs) as pool:
        played = list(zip(runs, pool.map(_played, runs), strict=True))
    rows = sorted(played, key=lambda row: (row[0].nodes, CAMPAIGNS[row[0].faults]))
    twins = {request.nodes: summary.twin for request, summary in rows if summary.twin is not None}
    table = _table(rows, twins)
    print(table)
    document = [_written(request, summary) for request, summary in rows]
    record(options.out / "campaigns.json", document)
    (options.out / "campaigns.md").write_text(table + "\n")
    return 1 if any(summary.violation_count for _, summary in rows) else 0


def hours_of(hours: float, nodes: int) -> float:
    """The simulated hours that give each cluster the node-hours of the largest one."""
    return hours * max(NODES) / nodes


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.campaigns", description=__doc__)
    parser.add_argument(
        "--hours",
        type=float,
        default=1.5,
        help="simulated hours of 1,024 nodes; smaller clusters run as many node-hours",
    )
    parser.add_argument(
        "--load", type=float, default=0.1, help="requested GPU time of the jobs as a share of all GPU time"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder")
    return parser.parse_args(arguments)


def _played(request: Request) -> Summary:
    configure_logs(level="critical")
    scenario = scenario_of(request, checks=ALL_CHECKS)
    summary = simulate(scenario)
    if request.faults == _BESIDE_TWIN:
        summary = with_twin(summary, scenario)
    print(f"{request.faults}, {request.nodes} nodes: {summary.violation_count} violations", file=sys.stderr)
    return summary


def _table(rows: list[tuple[Request, Summary]], twins: Mapping[int, Outcomes]) -> str:
    heads = ["faults", "nodes", "hours", "all faults", *_COLUMNS, "to faults", "goodput", "without faults"]
    lines = [[*heads, "violations"]]
    lines.append(["---"] * len(lines[0]))
    for request, summary in rows:
        cells = [column(summary.outcomes) for column in _COLUMNS.values()]
        settings = [request.faults, request.nodes, f"{request.hours:g}", sum(summary.faults.values())]
        twin = twins[request.nodes]
        cost = cost_of(summary.outcomes, twin)
        beside = [cost.gpu_hours_lost, summary.outcomes.goodput, twin.goodput]
        row = [*settings, *cells, *beside, summary.violation_count]
        lines.append(["–" if cell is None else str(cell) for cell in row])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _written(request: Request, summary: Summary) -> dict[str, Any]:
    settings = {name: getattr(request, name) for name in ("seed", "faults", "nodes", "hours", "load")}
    return {**settings, "summary": msgspec.to_builtins(summary, str_keys=True)}


if __name__ == "__main__":
    sys.exit(main())
