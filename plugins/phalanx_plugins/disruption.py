"""Protects gangs from eviction as their `spec.disruption` says: always, or for a minimum run time.

The longest `reclaim.minRuntime` of the queue and its ancestors protects the gang from gangs of other queues.
The time starts when the first member runs; a gang that does not run yet is protected for all of it. The
protection applies to evictions for other gangs, not to the recovery of the gang itself.
"""

from phalanx.framework.plugin import NEVER, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class DisruptionProtection(Plugin):
    """`disruption.preemptible`, `disruption.minRuntime`, and `reclaim.minRuntime` of queues."""

    name = "disruption"

    def protected_until(self, victim: Gang, beneficiary: Gang, view: SessionView) -> int:
        """The earliest time (ms) of an eviction."""
        if not victim.disruption.is_preemptible:
            return NEVER
        runtime = victim.disruption.min_runtime_ms
        if victim.queue != beneficiary.queue:
            runtime = max(runtime, _least_runtime(victim, view))
        return _began(victim, view) + runtime if runtime else 0


def _began(gang: Gang, view: SessionView) -> int:
    began = [pod.running_since for pod in gang.members if pod.running_since and pod.holds_node]
    return min(began) * 1000 if began else view.now


def _least_runtime(gang: Gang, view: SessionView) -> int:
    """The longest minimum run time of the queue and its ancestors against reclaim."""
    return max((queue.reclaim_min_runtime_ms for queue in view.queues.path(gang.queue)), default=0)
