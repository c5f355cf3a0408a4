"""Keeps evictions within PodDisruptionBudgets, or exceeds them by as few pods as possible.

A budget allows the number of evictions in its status, less recent deletions that the status may not count
yet. It counts pods that run and are not being deleted, ready or not. A tenant that may create budgets must
not void a guarantee, a share or a priority of others. So with `enforcement: bestEffort` budgets are exceeded
where a gang has the right to evict, by as few pods as possible. With `hard` no eviction exceeds a budget. No
gang is moved beyond a budget. The recovery of a gang that lost a node and the release of an incomplete gang
ignore budgets.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from msgspec import Struct
from phalanx.framework.evictable_pods import candidates
from phalanx.framework.evictions import PodEvictionLimit
from phalanx.framework.plugin import EvictionPolicy, Plugin
from phalanx.framework.view import SessionView
from phalanx.model import named_parts
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.snapshot import DisruptionBudget

BUDGET_RECOUNT_MS: Final = 30_000
"""Milliseconds after which the status of a PodDisruptionBudget includes a terminating pod. Its controller
takes a second, and longer under load."""


class Enforcement(StrEnum):
    """Whether evictions may exceed a budget."""

    HARD = "hard"
    BEST_EFFORT = "bestEffort"


class DisruptionBudgetsArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the configuration file may set."""

    enforcement: Enforcement = Enforcement.BEST_EFFORT
    """`bestEffort`: evictions for another gang exceed PodDisruptionBudgets by as few pods as possible.
    `hard`: no eviction for another gang exceeds one, so tenants that may create budgets keep borrowed
    capacity."""


class DisruptionBudgets(Plugin):
    """One limit for each budget with a pod that could be evicted."""

    name = "disruption-budgets"
    Arguments = DisruptionBudgetsArguments

    def __init__(self, arguments: DisruptionBudgetsArguments) -> None:
        self._is_hard = arguments.enforcement is Enforcement.HARD

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        return _Budgets(view, is_hard=self._is_hard)


class _Budgets(EvictionPolicy):
    def __init__(self, view: SessionView, *, is_hard: bool) -> None:
        super().__init__(view)
        self._is_hard = is_hard

    def pod_limits(self) -> tuple[PodEvictionLimit, ...]:
        """The limits of all budgets, in their order."""
        running = _Running(self.view)
        found = []
        for budget in self.view.disruption_budgets:
            pods = [pod for pod in running.candidates(budget) if budget.protects(dict(pod.all_labels))]
            if pods:
                found.append(self._limit(budget, pods))
        return tuple(found)

    def _limit(self, budget: DisruptionBudget, pods: list[Pod]) -> PodEvictionLimit:
        """The limit of a budget, without recent deletions that its status may not count yet."""
        ends = [pod.ended * 1000 for pod in pods if pod.deleting]
        fresh = [end for end in ends if end > self.view.now - BUDGET_RECOUNT_MS]
        fault = f", as its {budget.fault}" if budget.fault else ""
        return PodEvictionLimit(
            name=f"{named_parts.titled(f'PodDisruptionBudget {budget}')}{fault}",
            pods=frozenset(pod.uid for pod in pods if not pod.deleting),
            count=max(0, budget.allowed - len(fresh)),
            is_hard=self._is_hard,
            grows_at=min((end + BUDGET_RECOUNT_MS for end in fresh), default=None)
            if budget.allowed
            else None,
        )


class _Running:
    """Running pods in namespaces with budgets, indexed by the labels that budgets select."""

    def __init__(self, view: SessionView) -> None:
        keys: dict[str, dict[str, None]] = {}
        for budget in view.disruption_budgets:
            keys.setdefault(budget.namespace, {}).update({pair[0]: None for pair in _asked_for(budget) or ()})
        self._all: dict[str, list[Pod]] = {}
        self._labelled: dict[tuple[str, str, str], list[Pod]] = {}
        for gang in candidates(view) if keys else ():
            for pod in gang.members if gang.namespace in keys else ():
                if pod.holds_node and pod.phase is not PodPhase.PENDING:
                    self._add(pod, keys[gang.namespace])

    def _add(self, pod: Pod, keys: Collection[str]) -> None:
        self._all.setdefault(pod.namespace, []).append(pod)
        for key, value in pod.all_labels:
            if key in keys:
                self._labelled.setdefault((pod.namespace, key, value), []).append(pod)

    def candidates(self, budget: DisruptionBudget) -> list[Pod]:
        """The pods that the budget may protect."""
        pairs = _asked_for(budget)
        if pairs is None:
            return self._all.get(budget.namespace, [])
        return [pod for key, value in pairs for pod in self._labelled.get((budget.namespace, key, value), ())]


def _asked_for(budget: DisruptionBudget) -> list[tuple[str, str]] | None:
    """Labels of which each pod of the budget has exactly one; None without such labels."""
    if budget.fault or budget.selector is None:
        return None if budget.fault else []
    for requirement in budget.selector.requirements:
        if requirement.operator == "In":
            return [(requirement.key, value) for value in requirement.values]
    return None
