"""`python -m bench.knavigator`: the gang benchmark of Knavigator in virtual time, beside its ideal makespan.

53 jobs in a fixed order, submitted at once, on 32 nodes of 8 GPUs; each pod takes a whole node for 2 minutes.
In this order they fill all 32 nodes nine times over, so 18 minutes at full occupancy are the least there is.
That all are submitted at once, and wait in a queue that is a strict FIFO, is assumed; in one that is not,
small jobs pass when the pods of a large one do not all end in the same instant. Writes
bench/results/knavigator.json.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.observe.logs import configure_logs
from phalanx.sim.invariants.all import ALL_CHECKS
from phalanx.sim.store import Change, Object
from phalanx.sim.workloads import job, node, pod_group, queue
from phalanx.sim.world import World, WorldSettings, in_world

RESULTS: Final = Path(__file__).parent / "results"

JOBS: Final = (
    *((1, 32), (2, 16), (3, 10), (1, 2), (4, 8), (5, 6), (2, 1), (6, 5), (1, 2), (7, 4), (1, 2), (2, 1)),
    *((8, 4), (9, 3), (1, 5)),
)
"""How many jobs of how many pods, in the order in which they are submitted."""

NODES: Final = 32
GPUS: Final = 8
RUN_S: Final = 120.0

_SETTLED_S: Final = 5.0
_STEP_S: Final = 1.0


class Played(Struct, frozen=True, rename="camel"):
    """One run, in seconds of virtual time. `occupancy`: the part of all node-seconds in which pods ran.

    `busy`: the nodes in use in the middle of each turn of two minutes.
    """

    ordering: str
    jobs: int
    pods: int
    finished: int
    ideal_s: float
    makespan_s: float
    occupancy: float
    busy: tuple[int, ...]
    violations: int


class _Watch:
    """When pods began to run and ended, in the API's truth."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def take(self, change: Change) -> None:
        """A pod was written or is gone."""
        pod: Object = change.entry.data
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if phase == "Running" and name not in self.began:
            self.began[name] = self._world.loop.time()
        if phase == "Succeeded":
            self.ended.setdefault(name, self._world.loop.time())


def sizes() -> list[int]:
    """The size of each job."""
    return [size for count, size in JOBS for _ in range(count)]


def ideal_s(jobs: list[int], nodes: int) -> float:
    """All node-seconds, spread over all nodes."""
    return sum(jobs) * RUN_S / nodes


def play(jobs: list[int], *, nodes: int, ordering: str) -> Played:
    """Submit all jobs at once and wait until all have finished, three times the ideal at most."""
    watches: list[_Watch] = []
    ideal, submitted = ideal_s(jobs, nodes), 0.0

    async def run(world: World) -> None:
        nonlocal submitted
        world.create([queue("bench", ordering=ordering)])
        world.create(node(f"n{index:02}", gpus=GPUS) for index in range(nodes))
        world.start()
        await asyncio.sleep(_SETTLED_S)
        watch = _Watch(world)
        watches.append(watch)
        world.server.store.subscribe("pods", watch.take)
        submitted = world.loop.time()
        for index, size in enumerate(jobs):
            name = f"job-{index:02}"
            group = pod_group(name, min_member=size, queue="bench")
            requests = {"nvidia.com/gpu": str(GPUS)}
            world.create([group, job(name, members=size, group=name, requests=requests, run_s=RUN_S)])
        while len(watch.ended) < sum(jobs) and world.loop.time() < submitted + 3 * ideal:
            await asyncio.sleep(_STEP_S)

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), run)
    (watch,) = watches
    makespan = max(watch.ended.values(), default=submitted) - submitted
    ran = sum(watch.ended[name] - watch.began[name] for name in watch.ended)
    turns = round(makespan / RUN_S)
    moments = [submitted + makespan * (index + 0.5) / turns for index in range(turns)]
    return Played(
        ordering=ordering,
        jobs=len(jobs),
        pods=sum(jobs),
        finished=len(watch.ended),
        ideal_s=ideal,
        makespan_s=round(makespan, 3),
        occupancy=round(ran / (makespan * nodes), 5) if makespan else 0.0,
        busy=tuple(
            sum(watch.began[name] <= at < watch.ended[name] for name in watch.ended) for at in moments
        ),
        violations=world.violations.count,
    )


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a job did not finish or a check was violated."""
    argparse.ArgumentParser(prog="python -m bench.knavigator", description=__doc__).parse_args(arguments)
    configure_logs(level="critical")
    rows = [play(sizes(), nodes=NODES, ordering=ordering) for ordering in ("StrictFIFO", "PriorityFIFO")]
    for each in rows:
        print(
            f"{each.ordering:12}: {each.finished} of {each.pods} pods of {each.jobs} jobs finished after "
            f"{each.makespan_s:.1f} s (ideal {each.ideal_s:.0f} s), occupancy {100 * each.occupancy:.2f} %; "
            f"nodes busy in the middle of each turn: {', '.join(map(str, each.busy))}; "
            f"{each.violations} violations"
        )
    (RESULTS / "knavigator.json").write_text(json.dumps(msgspec.to_builtins(rows), indent=2) + "\n")
    return 0 if all(each.finished == each.pods and not each.violations for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
