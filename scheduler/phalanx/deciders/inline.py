"""Runs cycles in the caller's task: for simulations, and as the base class of the thread decider."""

from typing import Final

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.clock import Clock, SystemClock
from phalanx.cycle import Engine
from phalanx.deciders.port import OnSteps, RecordedCycle
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot

_CLOCK: Final = SystemClock()


class InlineDecider:
    """Uses the cache of the scheduler, so it needs no events."""

    def __init__(
        self, *, cache: Cache, config: SchedulerConfig, on_steps: OnSteps | None = None, clock: Clock = _CLOCK
    ) -> None:
        """`on_steps` gets the durations of the steps of each cycle, by this clock."""
        self._cache = cache
        self._on_steps = on_steps
        self._seconds = clock.monotonic
        self._engine = self._new_engine(config)
        self._memory = Memory()
        self._last: RecordedCycle | None = None

    def feed(self, events: tuple[Event, ...]) -> None:
        """Do nothing: the shared cache has applied them already."""

    async def decide(self, *, now_ms: int) -> CycleResult:
        """Run one cycle on the present state of the cache."""
        engine, began = self._engine, self._seconds()
        config = engine.config
        snapshot = self._cache.snapshot(now=now_ms, seed=config.seed, memory=self._memory)
        took = self._seconds() - began
        result = self._remember(config, snapshot, await self._run(snapshot))
        if self._on_steps is not None:
            self._on_steps({"snapshot": took, **engine.step_seconds})
        return result

    async def advise(self) -> Advised | None:
        """See Decider."""
        advised = await self._search() if self._engine.may_advise else None
        if advised is not None:
            self._memory = advised.memory
        return advised

    def configure(self, config: SchedulerConfig) -> None:
        """See Decider. A cycle that runs in a thread ends with the engine that it began with."""
        self._engine = self._new_engine(config)

    def _new_engine(self, config: SchedulerConfig) -> Engine:
        seconds = self._seconds if self._on_steps is not None else None
        return Engine(config, seconds=seconds, defers_advice=True)

    async def last(self) -> RecordedCycle | None:
        """The last cycle; None before the first one."""
        return self._last

    async def close(self) -> None:
        """Do nothing: nothing runs between cycles."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return self._engine.decide(snapshot)

    async def _search(self) -> Advised | None:
        return self._engine.advise()

    def _remember(self, config: SchedulerConfig, snapshot: Snapshot, result: CycleResult) -> CycleResult:
        self._memory = result.memory
        self._last = (config, snapshot, result)
        return result
