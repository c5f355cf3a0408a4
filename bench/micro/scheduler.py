"""Runs the whole scheduler on a QuickApi."""

import asyncio
import time

from phalanx.cache.cache import Cache
from phalanx.clock import SystemClock
from phalanx.deciders.inline import InlineDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.client import Client
from phalanx.kube.garbage_collection import GarbageCollection
from phalanx.kube.leader_election import Identity
from phalanx.observe.logs import configure_logs
from phalanx.observe.metrics import Metrics
from phalanx.service.scheduler import Scheduler, SchedulerDependencies

from bench.micro.api import QuickApi


class ProcessClock(SystemClock):
    """A clock of process CPU time, so that no Lease expires on a busy machine."""

    def monotonic(self) -> float:
        return time.process_time()


async def all_bound(server: QuickApi) -> None:
    """Run a scheduler until all pods are bound."""
    configure_logs(level="warning")
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    scheduler = Scheduler(
        SchedulerDependencies(
            client=Client(server),
            lease_client=Client(server),
            cache=cache,
            decider=InlineDecider(cache=cache, config=config),
            clock=ProcessClock(),
            metrics=Metrics(),
            identity=Identity(name="micro", lease_namespace="micro"),
            controller=config.scheduler_name,
            config=config,
            on_synced=GarbageCollection().freeze,
        )
    )
    running = asyncio.create_task(scheduler.run(asyncio.Event()))
    done = asyncio.create_task(server.all_bound.wait())
    await asyncio.wait((running, done), return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.wait((running,))
