"""The whole scheduler on a QuickApi."""

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
    """Only the time that this process works passes: no Lease runs out because others do."""

    def monotonic(self) -> float:
        return time.process_time()


async def all_bound(server: QuickApi) -> None:
    """Start a scheduler, and end it when all pods are bound."""
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
