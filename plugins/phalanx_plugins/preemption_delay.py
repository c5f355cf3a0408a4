"""Evicts nothing for a gang before its `preemptionDelay` has passed: an autoscaler may add nodes first.

The longest delay of the PodGroup, its queue and the ancestors of the queue counts, since the present pods of
the gang are enough for its minimum. Pods that are created again after an eviction begin a new delay. Starts
of the same cycle are given up without a delay, since nothing of them runs.
"""

from phalanx.framework.plugin import EvictionPolicy, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class PreemptionDelay(Plugin):
    """`preemptionDelay` of PodGroups and Queues."""

    name = "preemption-delay"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        return _Delay(view)


class _Delay(EvictionPolicy):
    def delayed_until(self, beneficiary: Gang) -> int:
        """The end (ms) of the longest delay."""
        queues = self.view.queues.path(beneficiary.queue)
        delay = max([beneficiary.spec.preemption_delay_ms, *(queue.preemption_delay_ms for queue in queues)])
        return beneficiary.complete_since * 1000 + delay if delay else 0
