"""One cycle: a snapshot in, decisions out. Same snapshot, same configuration: same result, byte for byte."""

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
"""Choose cells; take the gangs that may be tried, in order; place them, and note what finds no capacity."""

ACTIONS: Final[Mapping[ActionName, Step]] = {
    ActionName.RELEASE: release.execute,
    ActionName.RECOVER: recover.execute,
    ActionName.CONSOLIDATE: consolidate.execute,
    ActionName.PREEMPT: preempt.execute,
}
"""The steps that evict. They run in the order of `SchedulerConfig.actions`, which may leave some out."""

LAST_STEPS: Final[tuple[Step, ...]] = (verdicts.execute,)
"""Say of everything that was not placed why."""


class Engine:
    """Decides one cycle after the other, and keeps what makes the next one faster.

    What it keeps changes no decision: every value is compared with what it was computed from.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.session_cache = SessionCache()
        self.class_tables = ClassTableCache()
        self.answers = AnswerCache()
        self._steps = (*FIRST_STEPS, *(ACTIONS[name] for name in config.actions), *LAST_STEPS)

    def decide(self, snapshot: Snapshot) -> CycleResult:
        """Decide one cycle. Raises ConfigError when the configuration names a plugin that does not exist."""
        session = Session(snapshot, self.config, cache=self.session_cache)
        cycle = Cycle(session, self.class_tables, self.answers)
        for step in self._steps:
            step(cycle)
        result = close.result_of(cycle)
        self.session_cache.sums.forget_unused()
        return result


def decide(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    """Decide a single cycle. For several in a row keep one Engine, which is faster."""
    return Engine(config).decide(snapshot)
