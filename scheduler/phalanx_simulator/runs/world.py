"""One simulated world: cluster, scheduler replicas, and checks."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct
from phalanx.clock import Random
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.observe.metrics import Metrics
from phalanx.service.config_reload import ConfigFile

from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.cluster import Controllers
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import WorldClock
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.hosts.replica import Replica, ReplicaEnvironment
from phalanx_simulator.invariants.check import Check, CheckContext, Checks, Coverage, Violations

_TICK_S: Final = 1.0

_encode = msgspec.json.Encoder(order="deterministic").encode


class WorldSettings(Struct, frozen=True, kw_only=True):
    """Settings of a world.

    `single_writer`: no other scheduler binds pods.
    """

    seed: int
    checks: tuple[type[Check], ...] = ()
    replicas: int = 2
    config: SchedulerConfig = SchedulerConfig()
    single_writer: bool = True
    config_file: ConfigFile | None = None
    """A file that the schedulers follow."""


class DecisionLog:
    """A hash over all decisions, their times and hosts."""

    def __init__(self) -> None:
        self.cycles = 0
        self._hash = hashlib.sha256()

    def take(self, at_s: float, host: str, result: CycleResult) -> None:
        """Add a cycle."""
        self.cycles += 1
        decided = (result.placements, result.evictions, result.nominations, result.verdicts)
        self._hash.update(_encode((round(at_s, 6), host, decided)))

    @property
    def digest(self) -> str:
        """The hash in hexadecimal."""
        return self._hash.hexdigest()


class World:
    """A world on a running VirtualLoop; use `in_world`.

    `client` acts for users and faults. `start_error`: the error of a scheduler replica that could not start.
    """

    def __init__(self, loop: VirtualLoop, settings: WorldSettings) -> None:
        self.loop = loop
        self.clock = WorldClock(loop)
        self.server = ApiServer(clock=self.clock, seed=settings.seed)
        self.client = Client(self.server)
        self.controllers = Controllers(self.server)
        self.log = DecisionLog()
        self.coverage = Coverage()
        self.violations = Violations()
        self._seed = settings.seed
        environment = ReplicaEnvironment(
            server=self.server,
            loop=loop,
            clock=self.clock,
            config=settings.config,
            on_exchange=self._on_exchange,
            on_cycle=self._on_cycle,
            metrics=lambda _life: Metrics(self.clock),
            config_file=settings.config_file,
        )
        names = [f"phalanx-{number}" for number in range(settings.replicas)]
        self.replicas = tuple(Replica(name, environment, self.random(name)) for name in names)
        self._checks = Checks(
            CheckContext(
                store=self.server.store,
                clock=self.clock,
                replicas=self.replicas,
                coverage=self.coverage,
                report=self.violations.take,
                single_writer=settings.single_writer,
                hard_budgets=any(
                    plugin.arguments.get("enforcement") == "hard" for plugin in settings.config.plugins
                ),
            ),
            settings.checks,
        )
        self._observers: list[Callable[[Exchange], None]] = [self._checks.on_exchange]
        self._listeners: list[Callable[[str, CycleResult], None]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._main = asyncio.current_task()
        self.start_error: Exception | None = None

    def random(self, purpose: str) -> Random:
        """A random generator for one purpose, so that its use does not affect others."""
        return Random(f"{self._seed}/{purpose}")

    def start(self) -> None:
        """Start the schedulers and the ticks of the checks."""
        for replica in self.replicas:
            self.go(self._keep_running(replica))
        self.go(self._tick())

    def go(self, program: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a task until the world ends."""
        task = self.loop.create_task(program)
        self._tasks.append(task)
        return task

    def listen(self, listener: Callable[[str, CycleResult], None]) -> None:
        """Call `listener` with the host and result of every cycle."""
        self._listeners.append(listener)

    def observe(self, observer: Callable[[Exchange], None]) -> None:
        """Call `observer` at each step of a scheduler's request."""
        self._observers.append(observer)

    def create(self, manifests: Iterable[Object]) -> None:
        """Create objects in the order given."""
        for manifest in manifests:
            self.client.create(
                self._resource_of(manifest), manifest["metadata"].get("namespace", ""), manifest
            )

    def leader(self) -> Replica | None:
        """The replica whose process considers itself the leader."""
        for replica in self.replicas:
            process = replica.process
            if process is not None and process.scheduler.is_leading:
                return replica
        return None

    def at_rest(self) -> None:
        """Run the checks at rest."""
        self._checks.at_rest()

    def at_end(self) -> None:
        """Run the checks at the end."""
        self._checks.at_end()

    async def end(self) -> None:
        """Stop the schedulers gracefully, then everything else."""
        await asyncio.gather(*(replica.stop() for replica in self.replicas))
        for replica in self.replicas:
            await replica.bury()
        self.controllers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _resource_of(self, manifest: Object) -> str:
        wanted = (manifest["apiVersion"], manifest["kind"])
        served = self.server.types.all()
        return next(kind.resource for kind in served if (kind.api_version, kind.kind) == wanted)

    async def _keep_running(self, replica: Replica) -> None:
        """Run a replica until the world ends; an error when it starts cancels `play`."""
        try:
            await replica.keep_running()
        except Exception as error:
            self.start_error = self.start_error or error
            if self._main is not None:
                self._main.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._checks.on_tick()

    def _on_exchange(self, exchange: Exchange) -> None:
        for observer in self._observers:
            observer(exchange)

    def _on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self.log.take(self.loop.time(), host, result)
        for listener in self._listeners:
            listener(host, result)
        self._checks.on_cycle(host, snapshot, result)


def in_world(settings: WorldSettings, play: Callable[[World], Coroutine[Any, Any, Any]]) -> World:
    """Create a world, run `play` in it, end it.

    Raises what `play` raises, and the error of a scheduler replica that cannot start.
    """
    loop = VirtualLoop(Random(f"{settings.seed}/order"))

    async def whole() -> World:
        world = World(loop, settings)
        try:
            await play(world)
        except asyncio.CancelledError:
            if world.start_error is None:
                raise
            raise world.start_error from None
        finally:
            await world.end()
        return world

    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(whole())
    finally:
        loop.run_until_complete(loop.close_abandoned())
        asyncio.set_event_loop(None)
        loop.close()
