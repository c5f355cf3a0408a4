"""Lets a gang evict gangs of lower priority of its own queue, unless its preemption policy is Never.

Priorities compare within a queue only; between queues guarantees and shares decide. Surplus members may evict
only surplus members.
"""

from phalanx.framework.evictions import Beneficiary, surplus_members
from phalanx.framework.plugin import EvictionPolicy, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import PodUid


class PriorityPreemption(Plugin):
    """The priority must be strictly lower, so that two gangs cannot evict each other."""

    name = "priority-preemption"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        """The rights of higher priorities."""
        return _HigherPriority(view)


class _HigherPriority(EvictionPolicy):
    def reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        """A reason with both priorities."""
        gang = beneficiary.gang
        if not (gang.may_preempt and victim.queue == gang.queue and victim.priority < gang.priority):
            return None
        return f"its priority {gang.priority} is above {victim.priority} of {victim}"

    def protected_pods(self, victim: Gang, beneficiary: Beneficiary) -> frozenset[PodUid]:
        """For surplus members, the minimum of a gang of the same queue."""
        if not beneficiary.is_surplus or victim.queue != beneficiary.gang.queue:
            return frozenset()
        holders = [pod for pod in victim.members if pod.holds_node and not pod.deleting]
        return frozenset(pod.uid for pod in holders) - {pod.uid for pod in surplus_members(victim, holders)}
