"""PodDisruptionBudgets: the wire form as the scheduler's own struct."""

from phalanx.model.api import core
from phalanx.model.conversion.affinity_terms import read_label_selector
from phalanx.model.disruption_budgets import DisruptionBudget


def read_disruption_budget(written: core.PodDisruptionBudget) -> DisruptionBudget:
    """A budget; what its status says of an older spec allows nothing, as the API's eviction has it."""
    meta, status = written.metadata, written.status
    wrong: list[str] = []
    selector = read_label_selector(written.spec.selector, "spec.selector", wrong)
    is_counted = status.observed_generation >= meta.generation
    return DisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        selector=selector,
        allowed=max(0, status.disruptions_allowed) if is_counted and not wrong else 0,
        fault=wrong[0] if wrong else "",
    )
