"""Binds per second and delay of Lease renewals while cycles run in a thread or in a process.

    python -m bench.deciders [--pods 3000] [--nodes 1000] [--waiting 10000]

One event loop binds pods on a real control plane with 64 connections, and a task beside it ticks every 50 ms
like a renewal. Meanwhile the decider computes cycles back to back, each over the same waiting pods in gangs
of one, which is the most expensive case. The first row is without cycles.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from phalanx.cache.cache import Cache
from phalanx.cache.events import Event, Relisted
from phalanx.deciders.port import Decider
from phalanx.deciders.process import ProcessDecider
from phalanx.deciders.thread import SWITCH_INTERVAL_S, ThreadDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.connect import connect
from phalanx.model.api.core import Node, Pod
from phalanx_controlplane.controlplane import ControlPlane

from bench.bind_rate import pending_pods, through_the_client
from tests.fake_objects import Manifest, create_many, fake_node, fake_pod

TICK_S = 0.05
CONFIG = SchedulerConfig()


class Row(Struct, frozen=True):
    """The result of one run; lateness in milliseconds."""

    decider: str
    binds_per_s: float
    late_p50_ms: float
    late_max_ms: float
    cycles: int


def _with_uid(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": manifest["metadata"]["name"]}}


def cluster(*, nodes: int, waiting: int) -> tuple[Event, ...]:
    """The cluster of the cycles, which exists on no API server."""

    def manifests(kind: type[Node | Pod], objects: Iterable[Manifest]) -> tuple[Node | Pod, ...]:
        return tuple(msgspec.convert(_with_uid(each), kind) for each in objects)

    pods = (fake_pod(f"w{number}", requests={"cpu": "1"}) for number in range(waiting))
    return (
        Relisted("Node", manifests(Node, (fake_node(f"n{number}") for number in range(nodes)))),
        Relisted("Pod", manifests(Pod, pods)),
    )


def deciders(events: tuple[Event, ...]) -> dict[str, Decider | None]:
    """Each decider with the cluster in its cache."""
    cache = Cache(scheduler_name=CONFIG.scheduler_name)
    cache.apply_all(events)
    process = ProcessDecider(config=CONFIG)
    process.feed(events)
    return {
        "no cycles": None,
        "thread": ThreadDecider(cache=cache, config=CONFIG),
        "process": process,
    }


class Ticks:
    """Measures the delays of a task that runs every TICK_S."""

    def __init__(self) -> None:
        self.late: list[float] = []

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self.late.append(1000 * (time.perf_counter() - due))


async def cycles(decider: Decider | None, done: list[int]) -> None:
    """Decide back to back until cancelled."""
    while decider is not None:
        done.append((await decider.decide(now_ms=0)).cycle)
        await asyncio.sleep(0)


async def run(plane: ControlPlane, name: str, decider: Decider | None, *, pods: int) -> Row:
    """Bind `pods` pods while the decider computes."""
    binds = await pending_pods(plane, space=name.replace(" ", "-"), count=pods)
    ticks = Ticks()
    done: list[int] = []
    if isinstance(decider, ThreadDecider):
        sys.setswitchinterval(SWITCH_INTERVAL_S)
    if decider is not None:
        await decider.decide(now_ms=0)
    async with connect(kubeconfig=str(plane.kubeconfig_path)) as target:
        transport = target.transport()
        beside = [asyncio.create_task(ticks.run()), asyncio.create_task(cycles(decider, done))]
        began = time.perf_counter()
        await through_the_client(transport, binds)
        seconds = time.perf_counter() - began
        for task in beside:
            task.cancel()
        await transport.close()
    late = sorted(ticks.late)
    return Row(name, pods / seconds, late[len(late) // 2], late[-1], len(done))


async def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=10_000)
    args = parser.parse_args()
    print(
        "| decider | binds/s | lateness p50 ms | lateness max ms | cycles |\n| --- | --- | --- | --- | --- |"
    )
    async with ControlPlane.start(controller_manager=False, kwok=False) as plane:
        async with plane.session() as session:
            await create_many(session, (fake_node(f"n{number}") for number in range(100)))
        for name, decider in deciders(cluster(nodes=args.nodes, waiting=args.waiting)).items():
            row = await run(plane, name, decider, pods=args.pods)
            print(
                f"| {row.decider} | {row.binds_per_s:.0f} | {row.late_p50_ms:.1f} | {row.late_max_ms:.0f} "
                f"| {row.cycles} |",
                flush=True,
            )
            if decider is not None:
                await decider.close()


if __name__ == "__main__":
    asyncio.run(main())
