"""Which gangs are treated differently from what they ask for, so that an upgrade changes nothing unseen."""

from collections.abc import Iterator, Sequence
from typing import Final

from phalanx.cache.cache import Cache
from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Relisted
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.pods import PodPhase
from phalanx.model.snapshot import DisruptionBudget, Snapshot

_ACTIONS: Final = {
    "disruption.preemptible": (
        "Other gangs may evict it. Name a guarantee of what it uses in its Queue, or set "
        "disruption.allowNonPreemptible there."
    ),
    "startBy": "Set allowStartBy in the Queue if its tenants may name such times.",
}


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each gang with such a field, and for each budget that allows no eviction of pods."""
    snapshot = _snapshot(seen)
    gangs = sorted(snapshot.gangs.values(), key=str)
    for gang in gangs:
        for field, action in _ACTIONS.items():
            for hint in gang.ignored:
                if field in hint and (gang.nodes or gang.has_waiting):
                    yield Finding(Severity.NOTE, f"gang {gang}", f"{_state(gang)}: {hint}.", action)
    for budget in snapshot.disruption_budgets:
        kept = _kept_by(budget, gangs, seen.scheduler_name) if not budget.allowed else []
        if kept:
            yield Finding(
                Severity.NOTE,
                f"PodDisruptionBudget {budget}",
                f"It allows no eviction of running pods: {names(kept)}.",
                "A gang that has a right to their capacity may evict them even so, unless the plugin "
                "disruption-budgets has enforcement: hard.",
            )


def _snapshot(seen: Installation) -> Snapshot:
    cache = Cache(scheduler_name=seen.scheduler_name)
    cache.apply_all(Relisted(kind, ()) for kind in cache.workload_kinds())
    objects: list[KubeObject] = [*seen.namespaces, *seen.priority_classes, *seen.queues]
    objects += [*seen.nodes, *seen.pod_groups, *seen.budgets, *seen.pods]
    cache.apply_all(map(Applied, objects))
    return cache.snapshot(now=seen.server_ms, seed=0, memory=Memory())


def _state(gang: Gang) -> str:
    return "It runs" if gang.nodes else "It waits"


def _kept_by(budget: DisruptionBudget, gangs: Sequence[Gang], scheduler: str) -> list[str]:
    """The running pods of this scheduler that the budget selects."""
    return [
        f"{pod.namespace}/{pod.name}"
        for gang in gangs
        if gang.namespace == budget.namespace
        for pod in gang.members
        if pod.scheduler_name == scheduler and pod.holds_node and pod.phase is PodPhase.RUNNING
        if budget.protects(dict(pod.all_labels))
    ]
