"""Lets a gang evict gangs of lower priority of its own queue, unless its preemption policy is Never.

Priorities compare within a queue only: between queues it is shares that count.
"""

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class PriorityPreemption(Plugin):
    """Strictly lower priority, so that nobody is evicted by whom it could evict."""

    name = "priority-preemption"

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
        """Whether the priorities allow it."""
        gang = beneficiary.gang
        return gang.may_preempt and victim.queue == gang.queue and victim.priority < gang.priority

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> str:
        """Both priorities."""
        return f"its priority {beneficiary.gang.priority} is above {victim.priority} of {victim}"
