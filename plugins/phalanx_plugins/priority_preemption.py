"""Lets a gang evict gangs of lower priority of its own queue, unless its preemption policy is Never.

Priorities compare within a queue only; between queues shares decide.
"""

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class PriorityPreemption(Plugin):
    """The priority must be strictly lower, so that two gangs cannot evict each other."""

    name = "priority-preemption"

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
        """Whether the priorities allow it."""
        gang = beneficiary.gang
        return gang.may_preempt and victim.queue == gang.queue and victim.priority < gang.priority

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> str:
        """A reason with both priorities."""
        return f"its priority {beneficiary.gang.priority} is above {victim.priority} of {victim}"
