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
from phalanx.actions.backlog.backlogs import Backlogs
from phalanx.actions.context import Cycle
from phalanx.actions.nodes.node_classes import ClassTableCache
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.solver.answer_cache import AnswerCache

Step = Callable[[Cycle], None]

FIRST_STEPS: Final[tuple[Step, ...]] = (reserve_cells.execute, enqueue.execute, allocate.execute)
"""Choose the reserved cells; order the demands of the gangs that may be tried; place them."""

ACTIONS: Final[Mapping[ActionName, Step]] = {
    ActionName.RELEASE: release.execute,
    ActionName.RECOVER: recover.execute,
    ActionName.CONSOLIDATE: consolidate.execute,
    ActionName.PREEMPT: preempt.execute,
}
"""The steps that evict. `SchedulerConfig.actions` orders them, and may leave some out."""

LAST_STEPS: Final[tuple[Step, ...]] = (verdicts.execute,)
"""Explain each gang that was not placed."""


class Engine:
    """Computes cycle after cycle, with caches between them.

    The caches change no decision: a cached value is used only if its inputs are unchanged.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self._reset_caches()
        self._steps = (*FIRST_STEPS, *(ACTIONS[name] for name in config.actions), *LAST_STEPS)

    def decide(self, snapshot: Snapshot) -> CycleResult:
        """Compute one cycle. Raises ConfigError if the configuration names a plugin that does not exist."""
        backlog = self.backlogs.begin(snapshot)
        gangs = self.backlogs.visible_gangs(backlog)
        session = Session(snapshot, self.config, cache=self.session_cache, gangs=gangs)
        cycle = Cycle(session, backlog, self.class_tables, self.answers)
        for step in self._steps:
            step(cycle)
        result = close.result_of(cycle)
        self.session_cache.sums.forget_unused()
        if session.hooks.errors.messages:
            self._reset_caches()
        return result

    def _reset_caches(self) -> None:
        """Start without cached values; those of a cycle in which a plugin failed must not be used again."""
        self.session_cache = SessionCache()
        self.class_tables = ClassTableCache()
        self.answers = AnswerCache()
        self.backlogs = Backlogs(self.config)


def decide(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    """Compute a single cycle. For several cycles keep one Engine, which is faster."""
    return Engine(config).decide(snapshot)
