"""Runs cycles in the caller's task: for simulations, and as the base class of the thread decider."""

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.cycle import Engine
from phalanx.deciders.port import RecordedCycle
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot


class InlineDecider:
    """Uses the cache of the scheduler, so it needs no events."""

    def __init__(self, *, cache: Cache, config: SchedulerConfig) -> None:
        self._cache = cache
        self._engine = Engine(config)
        self._memory = Memory()
        self._last: RecordedCycle | None = None

    def feed(self, events: tuple[Event, ...]) -> None:
        """Do nothing: the shared cache has applied them already."""

    async def decide(self, *, now_ms: int) -> CycleResult:
        """Run one cycle on the present state of the cache."""
        config = self._engine.config
        snapshot = self._cache.snapshot(now=now_ms, seed=config.seed, memory=self._memory)
        return self._remember(config, snapshot, await self._run(snapshot))

    def configure(self, config: SchedulerConfig) -> None:
        """See Decider. A cycle that runs in a thread ends with the engine that it began with."""
        self._engine = Engine(config)

    async def last(self) -> RecordedCycle | None:
        """The last cycle; None before the first one."""
        return self._last

    async def close(self) -> None:
        """Do nothing: nothing runs between cycles."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return self._engine.decide(snapshot)

    def _remember(self, config: SchedulerConfig, snapshot: Snapshot, result: CycleResult) -> CycleResult:
        self._memory = result.memory
        self._last = (config, snapshot, result)
        return result
