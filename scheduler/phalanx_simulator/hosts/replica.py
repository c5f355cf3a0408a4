"""A replica of the production scheduler on a simulated host, restarted when its process ends."""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from phalanx.cache.cache import Cache
from phalanx.clock import Random
from phalanx.deciders.inline import InlineDecider
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.client import Client
from phalanx.kube.leader_election import Identity
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.observe.metrics import Metrics
from phalanx.service.config_reload import ConfigFile
from phalanx.service.scheduler import Scheduler, SchedulerDependencies

from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import Host, HostClock, State, WorldClock
from phalanx_simulator.hosts.network import Network, Observer
from phalanx_simulator.hosts.transport import SimTransport

RESTART_FIRST_S = 1.0
RESTART_LONGEST_S = 10.0

CycleObserver = Callable[[str, Snapshot, CycleResult], None]
"""Called with the process name, the snapshot and the result of each cycle."""


class ReplicaEnvironment(Struct, frozen=True):
    """Shared environment of all replicas of a world."""

    server: ApiServer
    loop: VirtualLoop
    clock: WorldClock
    config: SchedulerConfig
    on_exchange: Observer
    on_cycle: CycleObserver
    metrics: Callable[[str], Metrics]
    config_file: ConfigFile | None = None


class Process(Struct):
    """One process of a replica; each has a new host and a new network connection."""

    host: Host
    network: Network
    cache: Cache
    scheduler: Scheduler
    task: asyncio.Task[object]


class Replica:
    """A scheduler that is restarted.

    `process` is the current one, or the last one before a restart.
    """

    def __init__(self, name: str, environment: ReplicaEnvironment, random: Random) -> None:
        self.name = name
        self.clock = HostClock(environment.clock)
        self.starts = 0
        self.process: Process | None = None
        self._environment = environment
        self._random = random
        self._stop = asyncio.Event()
        self._past: list[Process] = []
        self._ended = asyncio.Event()
        self._prepare: Callable[[Process], None] = lambda _process: None

    def prepare(self, act: Callable[[Process], None]) -> None:
        """Call `act` on every new process before its first step."""
        self._prepare = act

    async def keep_running(self) -> None:
        """Start a process, and another whenever one has ended, until `stop`."""
        while not self._stop.is_set():
            self._start()
            assert self.process is not None
            ended = asyncio.create_task(self._ended.wait())
            await asyncio.wait((self.process.task, ended), return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            self._retire(self.process)
            if not self._stop.is_set():
                pause = RESTART_FIRST_S + self._random.random() * (RESTART_LONGEST_S - RESTART_FIRST_S)
                await asyncio.sleep(pause)

    def kill(self) -> None:
        """kill -9: no further step runs.

        `keep_running` starts the next process.
        """
        if self.process is not None and self.process.host.state is not State.DEAD:
            self.process.host.die()
            self.process.network.sever()
            self._ended.set()

    async def stop(self) -> None:
        """SIGTERM; returns when the process has ended, or kills it after a minute."""
        self._stop.set()
        process = self.process
        if process is None:
            return
        process.host.thaw()
        await asyncio.wait((process.task,), timeout=60.0)
        self.kill()

    async def bury(self) -> None:
        """Let killed processes run to their end, without any connection."""
        for process in self._past:
            process.host.bury()
            process.task.cancel()
        if self._past:
            await asyncio.wait([process.task for process in self._past], timeout=600.0)

    def _start(self) -> None:
        self.starts += 1
        self._ended.clear()
        environment = self._environment
        process_name = f"{self.name}-{self.starts}"
        network = Network(
            host=process_name,
            server=environment.server,
            loop=environment.loop,
            random=Random(self._random.getrandbits(64)),
        )
        network.observer = environment.on_exchange
        cache = new_cache(environment.config)
        scheduler = Scheduler(self._parts(process_name, network, cache))
        host = Host(process_name)
        task = host.spawn(scheduler.run(self._stop))
        self.process = Process(host, network, cache, scheduler, task)
        self._prepare(self.process)

    def _parts(self, process_name: str, network: Network, cache: Cache) -> SchedulerDependencies:
        environment = self._environment
        decider = SimDecider(
            cache=cache,
            config=environment.config,
            random=Random(self._random.getrandbits(64)),
            on_cycle=lambda snapshot, result: environment.on_cycle(process_name, snapshot, result),
        )
        return SchedulerDependencies(
            client=Client(SimTransport(network=network, server=environment.server, loop=environment.loop)),
            lease_client=Client(
                SimTransport(network=network, server=environment.server, loop=environment.loop)
            ),
            cache=cache,
            decider=decider,
            clock=self.clock,
            metrics=environment.metrics(process_name),
            identity=Identity(name=process_name, lease_namespace="kube-system"),
            controller=environment.config.scheduler_name,
            seed=self._random.getrandbits(32),
            config=environment.config,
            config_file=environment.config_file,
        )

    def _retire(self, process: Process) -> None:
        if process.task.done():
            _ = process.task.cancelled() or process.task.exception()
        else:
            self._past.append(process)


_SEARCH_S: Final = 0.05
"""Simulated seconds of a search for advice: it takes about as long on 1,000 nodes."""


class SimDecider(InlineDecider):
    """A decider that takes some simulated time for each cycle and each search for advice."""

    def __init__(
        self,
        *,
        cache: Cache,
        config: SchedulerConfig,
        random: Random,
        on_cycle: Callable[[Snapshot, CycleResult], None],
    ) -> None:
        super().__init__(cache=cache, config=config)
        self._random = random
        self._on_cycle = on_cycle

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        result = await super()._run(snapshot)
        await asyncio.sleep(0.002 + self._random.random() ** 4)
        self._on_cycle(snapshot, result)
        return result

    async def _search(self) -> Advised | None:
        advised = await super()._search()
        if advised is not None:
            await asyncio.sleep(_SEARCH_S)
        return advised
