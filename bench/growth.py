"""How time and memory of one cycle grow with nodes and with pods.

    python -m bench.growth

Nodes as in bench/cycle_scale.py (16 devices, racks of 16, spines of 8 racks, uneven memory and load), gangs
of ten that require a rack. First 1,000 pods on 100 to 50,000 nodes, then 1,000 to 100,000 pods on 10,000
nodes. Each size runs in a separate process: CPU seconds of the first cycle, and the memory growth of the
process by the cluster and the cycle. The exponent is the slope of the regression line of the logarithms: 1 is
linear. Writes bench/results/growth.json.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.record import record

RESULTS = Path(__file__).parent / "results"
BY_NODES = [(nodes, 1_000, 10) for nodes in (100, 1_000, 10_000, 50_000)]
BY_PODS = [(10_000, pods, 10) for pods in (1_000, 10_000, 100_000)]

Row = dict[str, float]


def one(nodes: int, pods: int, size: int) -> Row:
    """One cycle in this process."""
    from phalanx.cycle import decide
    from phalanx.framework.config import SchedulerConfig

    from bench.cycle_scale import scenario

    options = argparse.Namespace(nodes=nodes, pods=pods, shapes=1, levels=True, full=False)
    before = _peak_mib()
    snapshot = scenario(options, size)
    began = time.process_time()
    result = decide(snapshot, SchedulerConfig())
    return {
        "nodes": nodes,
        "pods": pods,
        "placed": result.stats.pods_placed,
        "cpuSeconds": round(time.process_time() - began, 3),
        "grownMiB": round(_peak_mib() - before, 1),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponent(rows: Sequence[Row], by: str, of: str) -> float:
    """The slope of log(of) over log(by), by least squares."""
    points = [(math.log(row[by]), math.log(max(row[of], 1e-3))) for row in rows]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _table(sizes: Sequence[tuple[int, int, int]], by: str) -> dict[str, object]:
    rows: list[Row] = []
    for size in sizes:
        words = [sys.executable, "-m", "bench.growth", "--one", *map(str, size)]
        row: Row = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        rows.append(row)
        print(" ".join(f"{value:>8}" for value in row.values()), flush=True)
    exponents = {of: round(exponent(rows, by, of), 3) for of in ("cpuSeconds", "grownMiB")}
    print(f"exponent over {by}: time {exponents['cpuSeconds']:.2f}, memory {exponents['grownMiB']:.2f}")
    return {"rows": rows, "exponents": exponents}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, type=int, metavar=("NODES", "PODS", "SIZE"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    print(f"{'nodes':>8} {'pods':>8} {'placed':>8} {'CPU s':>8} {'MiB':>8}")
    result = {"byNodes": _table(BY_NODES, "nodes"), "byPods": _table(BY_PODS, "pods")}
    record(RESULTS / "growth.json", result)


if __name__ == "__main__":
    main()
