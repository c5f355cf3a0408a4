"""Runs cycles in the caller's task: for simulations, and as the base class of the thread decider."""

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot


class InlineDecider:
    """Uses the cache of the scheduler, so it needs no events."""

    def __init__(self, *, cache: Cache, config: SchedulerConfig) -> None:
        self._cache = cache
        self._seed = config.seed
        self._engine = Engine(config)
        self._memory = Memory()
        self._last: tuple[Snapshot, CycleResult] | None = None

    def feed(self, events: tuple[Event, ...]) -> None:
        """Do nothing: the shared cache has applied them already."""

    async def decide(self, *, now_ms: int) -> CycleResult:
        """Run one cycle on the present state of the cache."""
        snapshot = self._cache.snapshot(now=now_ms, seed=self._seed, memory=self._memory)
        return self._remember(snapshot, await self._run(snapshot))

    async def last(self) -> tuple[Snapshot, CycleResult] | None:
        """Snapshot and result of the last cycle; None before the first one."""
        return self._last

    async def close(self) -> None:
        """Do nothing: nothing runs between cycles."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return self._engine.decide(snapshot)

    def _remember(self, snapshot: Snapshot, result: CycleResult) -> CycleResult:
        self._memory = result.memory
        self._last = (snapshot, result)
        return result
