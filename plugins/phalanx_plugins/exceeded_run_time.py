"""Lets a gang evict, for its reserved start, gangs that were placed before it and did not end in time.

Backfill places a gang before a reserved start if the gang ends in time by its `runtime.max`. If it runs
longer, its status says so, and a minute later the gang with the reserved start may evict it. A gang of
another queue is not evicted while a guarantee covers it, and `disruption.minRuntime` protects as from other
gangs. Gangs that were placed because of another forecast of their run time are never evicted for that.
"""

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.plugin import EvictionPolicy, Plugin
from phalanx.framework.queues.guarantees import Coverage
from phalanx.framework.view import SessionView
from phalanx.limits import RUN_TIME_NOTICE_MS
from phalanx.model.gangs import Gang


class ExceededRunTime(Plugin):
    """Memory says which gangs were placed in this way; a new leader reads it from their records."""

    name = "exceeded-run-time"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        """The rights of reserved starts."""
        return _ReservedStarts(view)


class _ReservedStarts(EvictionPolicy):
    def reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        """That the gang did not keep the run time that it declared, if it is late and was told so."""
        if not self._is_over(victim, beneficiary):
            return None
        return "it runs longer than its runtime.max, because of which it was placed before a reserved start"

    def _is_over(self, victim: Gang, beneficiary: Beneficiary) -> bool:
        view, gang = self.view, beneficiary.gang
        entry = view.memory.let_in.get(victim.id)
        if entry is None or gang.id not in entry.before or not gang.may_preempt or beneficiary.is_surplus:
            return False
        if not entry.noticed or view.now < entry.noticed + RUN_TIME_NOTICE_MS:
            return False
        reserved = view.memory.reserved_starts.get(gang.id)
        if reserved is None and gang.id not in view.memory.nominations:
            return False
        is_early = reserved is not None and view.now < reserved.held_from
        return not is_early and not _is_covered(victim, beneficiary, view)


def _is_covered(victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
    """Whether a guarantee covers pods of a gang of another queue."""
    sides = view.guarantees.sides(beneficiary, victim.queue)
    if sides is None:
        return False
    return bool(view.guarantees.covered_pods(victim, sides.theirs, sides.short, Coverage.PARTIAL))
