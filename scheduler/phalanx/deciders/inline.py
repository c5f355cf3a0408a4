"""Decides in the caller's own task, on the caller's cache: for simulations, and what the thread builds on."""

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot


class InlineDecider:
    """Shares the scheduler's cache, so there is nothing to feed."""

    def __init__(self, *, cache: Cache, config: SchedulerConfig) -> None:
        self._cache = cache
        self._config = config
        self._memory = Memory()
        self._last: tuple[Snapshot, CycleResult] | None = None

    def feed(self, events: tuple[Event, ...]) -> None:
        """The shared cache has them already."""

    async def decide(self, *, now_ms: int) -> CycleResult:
        """A cycle over the cache as it is now."""
        snapshot = self._cache.snapshot(now=now_ms, seed=self._config.seed, memory=self._memory)
        return self._remember(snapshot, await self._run(snapshot))

    async def last(self) -> tuple[Snapshot, CycleResult] | None:
        """What the last cycle saw and decided."""
        return self._last

    async def close(self) -> None:
        """Nothing runs between two cycles."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return decide(snapshot, self._config)

    def _remember(self, snapshot: Snapshot, result: CycleResult) -> CycleResult:
        self._memory = result.memory
        self._last = (snapshot, result)
        return result
