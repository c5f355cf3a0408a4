"""`python -m bench.sim_speed`: simulated hours per second of one core, for 64, 256 and 1,024 nodes.

Ten times realistic failure rates, jobs that request half of the GPUs, all invariants checked. Writes
bench/results/sim_speed.json.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from phalanx.observe.logs import configure_logs
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

from bench.record import record

RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a check was violated."""
    parser = argparse.ArgumentParser(prog="python -m bench.sim_speed", description=__doc__)
    parser.add_argument("--hours", type=float, default=4.0, help="simulated hours of each cluster")
    options = parser.parse_args(arguments)
    configure_logs(level="critical")
    heads = ("nodes", "simulated h", "jobs", "cycles", "CPU s", "h/s", "violations")
    print("{:>6} {:>12} {:>6} {:>7} {:>7} {:>7} {:>11}".format(*heads))
    rows = [_row(nodes, options.hours) for nodes in (64, 256, 1024)]
    record(RESULTS / "sim_speed.json", rows)
    return 1 if any(row["violations"] for row in rows) else 0


def _row(nodes: int, hours: float) -> dict[str, Any]:
    request = Request(seed=1, nodes=nodes, hours=hours, faults="life-x10", load=0.5)
    began = time.process_time()
    summary = simulate(scenario_of(request, checks=ALL_CHECKS))
    seconds = time.process_time() - began
    jobs = summary.outcomes.jobs_submitted
    row = {
        "nodes": nodes,
        "simulatedHours": summary.simulated_hours,
        "jobs": jobs,
        "cycles": summary.cycles,
        "cpuSeconds": round(seconds, 2),
        "hoursPerSecond": round(summary.simulated_hours / seconds, 3),
        "violations": summary.violation_count,
    }
    print(
        f"{nodes:6} {summary.simulated_hours:12.2f} {jobs:6} {summary.cycles:7} {seconds:7.1f} "
        f"{row['hoursPerSecond']:7.3f} {summary.violation_count:11}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    sys.exit(main())
