"""Compute one cycle: decisions from a snapshot. Equal snapshots and configurations give equal results."""

from collections.abc import Callable, Mapping
from typing import Final

from phalanx.actions import (
    allocate,
    close,
    consolidate,
    enqueue,
    preempt,
    recover,
    release,
    reserve_cells,
    verdicts,
)
from phalanx.actions.advise import Adviser
from phalanx.actions.backlog.backlogs import Backlogs
from phalanx.actions.context import Cycle
from phalanx.actions.nodes.node_classes import ClassTableCache
from phalanx.actions.reservations import overdue
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.solver.answer_cache import AnswerCache

Step = Callable[[Cycle], None]
Seconds = Callable[[], float]
"""Returns seconds that never decrease."""

FIRST_STEPS: Final[tuple[Step, ...]] = (reserve_cells.execute, enqueue.execute, allocate.execute)
"""Choose the reserved cells; order the demands of the gangs that may be tried; place them."""

ACTIONS: Final[Mapping[ActionName, Step]] = {
    ActionName.RELEASE: release.execute,
    ActionName.RECOVER: recover.execute,
    ActionName.CONSOLIDATE: consolidate.execute,
    ActionName.PREEMPT: preempt.execute,
}
"""The steps that evict. `SchedulerConfig.actions` orders them, and may leave some out."""

LAST_STEPS: Final[tuple[Step, ...]] = (consolidate.execute_for_guarantees, verdicts.execute)
"""Move and evict together for gangs inside guarantees; explain each gang that was not placed."""


class Engine:
    """Computes cycle after cycle, with caches between them.

    The caches change no decision: a cached value is used only if its inputs are unchanged. Nor do the times
    of the steps.
    """

    def __init__(
        self, config: SchedulerConfig, *, seconds: Seconds | None = None, defers_advice: bool = False
    ) -> None:
        """`seconds`: the clock by which the steps are timed. `defers_advice`: verdicts have no advice
        until `advise` has found some."""
        self.config = config
        self._defers_advice = defers_advice
        self._adviser: Adviser | None = None
        self.step_seconds: dict[str, float] = {}
        """How long each step of the last cycle took; empty without a clock."""
        self._seconds = seconds
        self._reset_caches()
        steps = (*FIRST_STEPS, *(ACTIONS[name] for name in config.actions), *LAST_STEPS)
        self._steps = tuple([(step.__module__.rpartition(".")[2], step) for step in steps])

    def decide(self, snapshot: Snapshot) -> CycleResult:
        """Compute one cycle. Raises ConfigError if the configuration names a plugin that does not exist."""
        laps, self._adviser = _Laps(self._seconds), None
        snapshot = overdue.restored(snapshot)
        backlog = self.backlogs.begin(snapshot)
        gangs = self.backlogs.visible_gangs(backlog)
        behind = backlog.equal_gangs_behind()
        session = Session(
            snapshot,
            self.config,
            cache=self.session_cache,
            gangs=gangs,
            behind=behind,
            unseen=backlog.unseen_demand(),
        )
        cycle = Cycle(
            session,
            backlog,
            self.class_tables,
            self.answers,
            defers_advice=self._defers_advice,
        )
        laps.end("open")
        for name, step in self._steps:
            step(cycle)
            laps.end(name)
        result = close.result_of(cycle)
        self.session_cache.forget_unused(snapshot.gangs)
        laps.end("close")
        self.step_seconds = laps.seconds
        if session.hooks.errors.messages:
            self._reset_caches()
        elif self._defers_advice:
            self._adviser = Adviser(cycle, result.memory)
        return result

    @property
    def may_advise(self) -> bool:
        """Whether the last cycle refused gangs, so that some may lack advice. It costs next to nothing."""
        return self._adviser is not None and self._adviser.has_refusals

    def advise(self) -> Advised | None:
        """Search advice on one refusal of the last cycle that lacks it; None if there is none.

        The next snapshot is to have the memory that this returns.
        """
        advised = self._adviser.search() if self._adviser is not None else None
        if advised is None or advised.errors:
            self._adviser = None
        if advised is not None and advised.errors:
            self._reset_caches()
        return advised

    def _reset_caches(self) -> None:
        """Start without cached values; those of a cycle in which a plugin failed must not be used again."""
        self.session_cache = SessionCache()
        self.class_tables = ClassTableCache()
        self.answers = AnswerCache()
        self.backlogs = Backlogs(self.config)


class _Laps:
    """The durations of the steps; nothing without a clock."""

    def __init__(self, clock: Seconds | None) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._began = clock() if clock is not None else 0.0

    def end(self, name: str) -> None:
        """A step ends, and the next one begins. Steps of one name count together."""
        if self._clock is not None:
            now = self._clock()
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._began
            self._began = now


def decide(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    """Compute a single cycle. For several cycles keep one Engine, which is faster."""
    return Engine(config).decide(snapshot)
