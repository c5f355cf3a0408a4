"""Diagnoses of gangs with claims to devices: limits that shared claims exceed, and why no node is advised."""

from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations import evidence
from phalanx.actions.explanations.advice import Advice, Released
from phalanx.actions.explanations.diagnoses import WAIT, Case, Diagnosis
from phalanx.actions.nodes.shared_charges import exceeded_budget, is_about_shared_claims
from phalanx.model.reasons import Evidence, Reason
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule

NO_NODES: Final = Evidence("more nodes", "none is advised: which devices a new node has is not known")

_ABOUT_CAPACITY: Final = (
    Reason.INSUFFICIENT_CAPACITY,
    Reason.NO_DOMAIN_FITS,
    Reason.ABOVE_CLUSTER_CAPACITY,
    Reason.ABOVE_DOMAIN_CAPACITY,
)
"""Reasons for which other gangs may be advised to add nodes."""


def with_claims(found: Diagnosis, demand: Demand) -> Diagnosis:
    """The diagnosis, which says for pods with claims why no node is advised.

    A driver publishes the devices of a node after the node has come, and may divide them by any rule.
    """
    has_claims = any(batch.pods[0].shape.device_slot for batch in demand.batches)
    if not has_claims or found.reason not in _ABOUT_CAPACITY:
        return found
    return replace(found, evidence=(*found.evidence, NO_NODES))


def limit_of_shared_claims(case: Case, rule: Rule) -> Diagnosis | None:
    """Would fit without the limit of a queue; None if the rule is about something else."""
    found = _of(case, rule)
    if found is None:
        return None
    budget, needed, left = found
    return Diagnosis(
        reason=Reason.QUEUE_LIMIT,
        message=f"the {budget.name} is reached: {needed} needed for claims that pods share, {left} left",
        evidence=evidence.of_completions(case.completions, case.session),
        advice=_without_released(case.advice),
        otherwise=WAIT,
    )


def above_limit_of_shared_claims(case: Case, rule: Rule) -> Diagnosis | None:
    """The claims need more than the queue may ever use; None if the rule is about something else."""
    found = _of(case, rule)
    if found is None:
        return None
    budget, needed, _ = found
    return Diagnosis(
        reason=Reason.ABOVE_QUEUE_LIMIT,
        message=f"{needed} needed for claims that pods share, which is more than the {budget.name} allows",
        evidence=(),
        advice=case.advice,
        otherwise="Raise the limit, or share a claim for fewer devices",
    )


def _of(case: Case, rule: Rule) -> tuple[Budget, str, str] | None:
    """The budget, and what is needed and left of the resources of which it has too little."""
    is_asked = is_about_shared_claims(rule)
    found = exceeded_budget(rule, case.demand.gang, case.session) if is_asked else None
    if found is None:
        return None
    budget, needed = found
    limited = {name: amount for name, amount in needed.items() if name in budget.remaining}
    left = [formatting.amount(name, max(0, budget.remaining[name])) for name in limited]
    return budget, formatting.amounts(limited), formatting.listed(left)


def _without_released(advice: Advice) -> Advice:
    """The advice without amounts of limits: those of the solver are pods here."""
    return replace(advice, events=tuple([each for each in advice.events if not isinstance(each, Released)]))
