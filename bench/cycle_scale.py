"""Measures the time of one cycle for 10,000 pods on 1,000 nodes, in gangs of 1, 10, 100 and 1,000.

    python -m bench.cycle_scale [--nodes N] [--pods N] [--shapes N] [--levels] [--full]

Nodes differ in memory and load of daemons, as in real clusters. `--shapes` sets the number of pod shapes of
the gangs. `--full` requests more than fits, so that most gangs are refused and explained. With `--levels`
each gang of more than one pod requires a rack, and nodes are in racks of 16 and spines of 8 racks.
"""

import argparse
import time
from typing import Any

from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.snapshot import Snapshot

from tests.builders import GI, Scenario


def scenario(arguments: argparse.Namespace, size: int) -> Snapshot:
    """Nodes of 16 devices, and pods in gangs of `size` that request 62 % or 187 % of them."""
    levels = ("spine", "rack") if arguments.levels else ()
    made = Scenario(*levels)
    for index in range(arguments.nodes):
        rack = index // 16
        made.nodes(
            f"n{index:05}",
            gpu=16,
            cpu=128,
            within=f"s{rack // 8}/r{rack}" if levels else "",
            used={"cpu": 100 + index % 7 * 50, "memory": 2 * GI + index * 4097, "pods": 3 + index % 3},
        )
    factor = 3 if arguments.full else 1
    fields: dict[str, Any] = {"required": "rack"} if levels and size > 1 else {}
    for index in range(arguments.pods * factor // size):
        shape = index % arguments.shapes
        made.gang(f"g{index:05}", size, gpu=1, cpu=2 + shape / 1000, memory=4, **fields)
    return made.snapshot()


def main() -> None:
    """Print one line per gang size: the first cycle, and the following one without any work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--shapes", type=int, default=1)
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    print(f"{'gangs x pods':>14} {'cycle ms':>9} {'placed':>7} {'refused':>7} {'us/pod':>7}  solved by")
    for size in (1, 10, 100, 1000):
        snapshot = scenario(arguments, size)
        start = time.perf_counter()
        result = decide(snapshot, SchedulerConfig())
        took = time.perf_counter() - start
        stats = result.stats
        pods = len(snapshot.gangs) * size
        print(
            f"{len(snapshot.gangs):>8} x {size:<4}{took * 1000:>9.0f} {stats.pods_placed:>7} "
            f"{len(result.verdicts):>7} {took * 1e6 / pods:>7.0f}  {dict(stats.solves)}"
        )


if __name__ == "__main__":
    main()
