"""`python -m bench.knavigator`: Knavigator's gang benchmark, compared with its ideal makespan.

53 jobs in a fixed order, submitted at once, on 32 nodes of 8 GPUs; each pod takes a whole node for 2 minutes.
In this order they fill all 32 nodes nine times, so the lower bound is 18 minutes at full occupancy. The jobs
are assumed to be submitted at once to a StrictFIFO queue; in another queue, small jobs overtake when the pods
of a large job do not end at the same instant. Runs in virtual time and writes bench/results/knavigator.json.
With --real it runs on etcd, kube-apiserver and KWOK with pods of some seconds instead of 2 minutes, and
writes bench/results/knavigator_real.json.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

import msgspec
from phalanx.observe.logs import configure_logs
from phalanx_simulator.embedded.manifests import job, node, pod_group, queue
from phalanx_simulator.embedded.store import Change, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from bench.knavigator_jobs import GPUS, NODES, RUN_S, Played, Times, lower_bound_s, played, sizes
from bench.record import record

RESULTS: Final = Path(__file__).parent / "results"
REAL_RUN_S: Final = 6.0

_SETTLED_S: Final = 5.0
_STEP_S: Final = 1.0


def play(jobs: list[int], *, nodes: int, ordering: str) -> Played:
    """Submit all jobs at once and wait until all have finished, three times the ideal at most."""
    runs: list[Times] = []
    patience = 3 * lower_bound_s(jobs, nodes, RUN_S)

    async def run(world: World) -> None:
        world.create([queue("bench", ordering=ordering)])
        world.create(node(f"n{index:02}", gpus=GPUS) for index in range(nodes))
        world.start()
        await asyncio.sleep(_SETTLED_S)
        times = Times(world.loop.time())
        runs.append(times)

        def take(change: Change) -> None:
            pod: Object = change.entry.data
            times.saw(pod["metadata"]["name"], pod["status"].get("phase", ""), world.loop.time())

        world.server.store.subscribe("pods", take)
        for index, size in enumerate(jobs):
            name = f"job-{index:02}"
            group = pod_group(name, min_member=size, queue="bench")
            requests = {"nvidia.com/gpu": str(GPUS)}
            world.create([group, job(name, members=size, group=name, requests=requests, run_s=RUN_S)])
        while len(times.ended) < sum(jobs) and world.loop.time() < times.submitted + patience:
            await asyncio.sleep(_STEP_S)

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), run)
    (times,) = runs
    violations = world.violations.count
    return played(times, jobs, nodes=nodes, run_s=RUN_S, ordering=ordering, violations=violations)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a job did not finish or a check was violated."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.knavigator", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="on a real control plane")
    parser.add_argument(
        "--run-seconds",
        type=float,
        default=REAL_RUN_S,
        help=f"with --real: how long a pod runs there ({REAL_RUN_S:g})",
    )
    options = parser.parse_args(arguments)
    configure_logs(level="critical")
    orderings = ("StrictFIFO", "PriorityFIFO")
    if options.real:
        # Only this option needs the control plane.
        from bench.knavigator_real import play_real

        run_s = options.run_seconds
        rows = [
            asyncio.run(play_real(sizes(), nodes=NODES, ordering=each, run_s=run_s)) for each in orderings
        ]
    else:
        rows = [play(sizes(), nodes=NODES, ordering=each) for each in orderings]
    for row in rows:
        print(
            f"{row.ordering:12}: {row.finished} of {row.pods} pods of {row.jobs} jobs finished after "
            f"{row.makespan_s:.1f} s (ideal {row.lower_bound_s:.0f} s), "
            f"occupancy {100 * row.occupancy:.2f} %; "
            f"nodes busy, once in each run of a pod: {', '.join(map(str, row.busy))}; "
            f"{row.violations} violations"
        )
    name = "knavigator_real.json" if options.real else "knavigator.json"
    record(RESULTS / name, msgspec.to_builtins(rows))
    return 0 if all(row.finished == row.pods and not row.violations for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
