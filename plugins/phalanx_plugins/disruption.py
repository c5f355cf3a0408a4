"""Keeps gangs from eviction as their `spec.disruption` asks: never, or not before they ran for a while.

Against gangs of other queues the longest `reclaim.minRuntime` of its queue and those above it holds too.
The time counts from when the first member began to run; a gang that does not run yet has all of it before it.
What a gang asks for here holds against others that want its room, not against its own recovery.
"""

from phalanx.framework.plugin import NEVER, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class DisruptionWishes(Plugin):
    """`disruption.preemptible`, `disruption.minRuntime`, and `reclaim.minRuntime` of queues."""

    name = "disruption"

    def protected_until(self, victim: Gang, beneficiary: Gang, view: SessionView) -> int:
        """When the gang may be evicted at the earliest."""
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
    """What its queue and those above it ask for where others take back what they lent."""
    return max((queue.reclaim_min_runtime_ms for queue in view.queues.path(gang.queue)), default=0)
