"""`python -m bench.spark_drivers`: Spark drivers that create their executors when they run, in virtual time.

Volcano's case (Spark SQL, TPC-DS): 104 drivers at once on 4 nodes of 8 cores, each creates 5 executors when
it runs and needs 2 of them; all pods request 1 core and 4 GiB. A query takes 60 s, and a driver creates its
executors 2 s after it runs; both are assumptions. With capacity reserved for 2 executors all queries finish;
without it the drivers use all cores, and no executor ever starts. Writes
bench/results/spark_drivers.json.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx.observe.logs import configure_logs
from phalanx_simulator.embedded.manifests import node
from phalanx_simulator.embedded.store import Change, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from bench.record import record
from bench.spark_driver_pods import DRIVER, EXECUTOR, Drivers, Plan, query

RESULTS: Final = Path(__file__).parent / "results"
PLAN: Final = Plan(executors=5, least=2, requests={"cpu": "1", "memory": "4Gi"})
CORES: Final = 8

_SETTLED_S: Final = 5.0
_STEP_S: Final = 1.0


class Played(Struct, frozen=True, rename="camel"):
    """The figures of a run. `seconds`: until the last query finished, or the time without progress.

    `least_spare`: the fewest free cores at any bind beyond the needs of running drivers.
    """

    reserves: bool
    drivers: int
    finished: int
    seconds: float
    drivers_at_once: int
    executors_at_once: int
    least_spare: int
    violations: int


class _Watch:
    """Counts in the API state which pods hold cores, and the missing executors of running drivers."""

    def __init__(self, cores: int, least: int) -> None:
        self._cores = cores
        self._least = least
        self._holders: dict[str, tuple[str, str]] = {}
        self.finished = 0
        self.at_once = {DRIVER: 0, EXECUTOR: 0}
        self.least_spare = cores

    def take(self, change: Change) -> None:
        """Record a changed or deleted pod."""
        pod = change.entry.data
        role, group = (pod["metadata"]["labels"][name] for name in (LABEL_ROLE, LABEL_POD_GROUP))
        before = self._holders.pop(pod["metadata"]["name"], None)
        if _holds(pod) and change.type.value != "DELETED":
            self._holders[pod["metadata"]["name"]] = (role, group)
        elif before is not None and pod["status"].get("phase") == "Succeeded":
            self.finished += role == DRIVER
        held = [role for role, _ in self._holders.values()]
        for name in self.at_once:
            self.at_once[name] = max(self.at_once[name], held.count(name))
        if before is None and (role, group) in self._holders.values():
            self.least_spare = min(self.least_spare, self._cores - len(held) - self._lacking())

    def _lacking(self) -> int:
        """The number of missing executors that running drivers need."""
        have: dict[str, int] = {}
        for role, group in self._holders.values():
            have[group] = have.get(group, 0) + (role == EXECUTOR)
        drivers = [group for role, group in self._holders.values() if role == DRIVER]
        return sum(max(0, self._least - have[group]) for group in drivers)


def _holds(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def play(
    *,
    drivers: int,
    nodes: int,
    reserves: bool,
    patience_s: float,
    plan: Plan = PLAN,
    killed_every_s: float | None = None,
) -> Played:
    """Submit all drivers at once and wait until all have finished, or none has for `patience_s`.

    `killed_every_s`: the interval at which the scheduler is killed and restarted without its memory.
    """
    watch = _Watch(nodes * CORES, plan.least)
    took = 0.0

    async def run(world: World) -> None:
        nonlocal took
        world.create(node(f"n{index}", gpus=0, cpu=str(CORES), memory="64Gi") for index in range(nodes))
        world.start()
        await asyncio.sleep(_SETTLED_S)
        world.server.store.subscribe("pods", watch.take)
        if killed_every_s is not None:
            world.go(_kill(world, killed_every_s))
        acting = Drivers(world.client, world.controllers.kubelets, plan)
        began = last = world.loop.time()
        for index in range(drivers):
            world.create(query(f"q{index:03}", plan, reserves=reserves))
        while watch.finished < drivers and world.loop.time() < last + patience_s:
            before = watch.finished
            await asyncio.sleep(_STEP_S)
            if watch.finished > before:
                last = world.loop.time()
        took = last - began if watch.finished == drivers else world.loop.time() - last
        acting.close()

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), run)
    return Played(
        reserves=reserves,
        drivers=drivers,
        finished=watch.finished,
        seconds=round(took, 1),
        drivers_at_once=watch.at_once[DRIVER],
        executors_at_once=watch.at_once[EXECUTOR],
        least_spare=watch.least_spare,
        violations=world.violations.count,
    )


async def _kill(world: World, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        world.replicas[0].kill()


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a driver started without capacity for its executors, or not all finished."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_drivers", description=__doc__)
    parser.add_argument("--drivers", type=int, default=104)
    parser.add_argument("--nodes", type=int, default=4)
    options = parser.parse_args(arguments)
    configure_logs(level="critical")
    sizes: dict[str, Any] = {"drivers": options.drivers, "nodes": options.nodes, "patience_s": 3600.0}
    reserved, without = play(**sizes, reserves=True), play(**sizes, reserves=False)
    for each in (reserved, without):
        print(
            f"{'reserved' if each.reserves else 'not reserved':12}: {each.finished} of {each.drivers} "
            f"finished in {each.seconds:.0f} s; at most {each.drivers_at_once} drivers and "
            f"{each.executors_at_once} executors at once; never fewer than {each.least_spare} cores "
            f"beyond what running drivers need; {each.violations} violations"
        )
    rows = msgspec.to_builtins([reserved, without])
    record(RESULTS / "spark_drivers.json", rows)
    is_well = reserved.finished == options.drivers and reserved.least_spare >= 0
    return 0 if is_well and not reserved.violations else 1


if __name__ == "__main__":
    sys.exit(main())
