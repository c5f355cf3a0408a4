"""A preemption that a cycle decides, and the nomination that the next cycle remembers."""

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.preemption.victim_search import EvictionPlan
from phalanx.model.memory import Nomination
from phalanx.model.names import GangId


class Decision(Struct, frozen=True):
    """The victims for one demand, and its capacity after their eviction."""

    demand: Demand
    plan: EvictionPlan
    causes: dict[GangId, str]
    """Why each victim may be evicted."""
    passed: tuple[GangId, ...]
    """Gangs whose reservations it does not respect."""

    def nomination(self, now: int, *, until: int, attempts: int) -> Nomination:
        """The nomination of the capacity; it expires at `until` (ms)."""
        plan = self.plan
        return Nomination(
            usage=plan.usage,
            members={node: tuple(pod.uid for pod in pods) for node, pods in plan.members.items()},
            victims=tuple(pod.uid for victim in plan.evicted for pod in victim.pods),
            decided=now,
            causes=self.causes,
            passed=self.passed,
            queue=self.demand.gang.queue,
            until=until,
            attempts=attempts,
        )
