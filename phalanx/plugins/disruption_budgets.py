"""Keeps evictions within PodDisruptionBudgets, or breaks as few of them as it can.

Counted are the pods that run and are not being deleted, ready or not; a budget allows what its status says,
less those whose deletion it may not have counted yet. With `enforcement: hard` nobody is evicted beyond that.
With `bestEffort` such victims are taken where nobody else makes room, as few as will do, as kube-scheduler
does it. It holds where room is made for others, not when a gang lost its node or never became whole.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from phalanx.framework.evictions import EvictionLimit
from phalanx.framework.session import Session
from phalanx.limits import BUDGET_COUNTED_MS
from phalanx.model.disruption_budgets import DisruptionBudget
from phalanx.model.pods import Pod, PodPhase


class Enforcement(StrEnum):
    """Whether a budget can be broken at all."""

    HARD = "hard"
    BEST_EFFORT = "bestEffort"


class DisruptionBudgetsArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`enforcement`: `hard` or `bestEffort`."""

    enforcement: Enforcement = Enforcement.HARD


class DisruptionBudgets:
    """One limit for each budget that protects a pod which could be evicted."""

    name: Final = "disruption-budgets"
    Arguments = DisruptionBudgetsArguments

    def __init__(self, arguments: DisruptionBudgetsArguments) -> None:
        self._firm = arguments.enforcement is Enforcement.HARD

    def eviction_limits(self, session: Session) -> tuple[EvictionLimit, ...]:
        """In the order of the budgets."""
        by_namespace = _pods_by_namespace(session)
        found = []
        for budget in session.snapshot.disruption_budgets:
            known: dict[object, bool] = {}
            pods = [pod for pod in by_namespace.get(budget.namespace, ()) if _protects(budget, pod, known)]
            if pods:
                found.append(self._limit(budget, pods, session))
        return tuple(found)

    def _limit(self, budget: DisruptionBudget, pods: list[Pod], session: Session) -> EvictionLimit:
        """Deletions that are as fresh may be missing in what the budget says."""
        now = session.snapshot.now
        ends = [pod.ended * 1000 for pod in pods if pod.deleting]
        fresh = [end for end in ends if end > now - BUDGET_COUNTED_MS]
        fault = f", as its {budget.fault}" if budget.fault else ""
        return EvictionLimit(
            name=f"PodDisruptionBudget {budget}{fault}",
            pods=frozenset(pod.uid for pod in pods if not pod.deleting),
            most=max(0, budget.allowed - len(fresh)),
            firm=self._firm,
            more_at=min((end + BUDGET_COUNTED_MS for end in fresh), default=None) if budget.allowed else None,
        )


def _pods_by_namespace(session: Session) -> Mapping[str, list[Pod]]:
    """Of the namespaces with budgets, the pods that run."""
    found: dict[str, list[Pod]] = {each.namespace: [] for each in session.snapshot.disruption_budgets}
    for gang in session.gangs.values() if found else ():
        for pod in gang.members if gang.namespace in found else ():
            if pod.holds_node and pod.phase is not PodPhase.PENDING:
                found[gang.namespace].append(pod)
    return found


def _protects(budget: DisruptionBudget, pod: Pod, known: dict[object, bool]) -> bool:
    """Pods of one workload share their labels, so most answers are known."""
    key = (pod.labels, pod.own_labels)
    if key not in known:
        known[key] = budget.protects(dict(pod.all_labels))
    return known[key]
