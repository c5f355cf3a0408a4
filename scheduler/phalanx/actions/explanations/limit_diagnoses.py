"""Diagnoses of gangs that a limit of a queue or of a plugin keeps waiting, and what it leaves them."""

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand, charged_alone
from phalanx.actions.explanations.diagnoses import (
    WAIT,
    Case,
    Diagnosis,
    completions_evidence,
    conflict_evidence,
)
from phalanx.actions.explanations.relaxed_clusters import used_by_members
from phalanx.model.reasons import Evidence, Reason
from phalanx.rules.budget import Budget
from phalanx.rules.problem import RuleWords


def queue_limit(case: Case, rule: Budget) -> Diagnosis:
    """Would fit without the limit of a queue; the queue can use less later."""
    return Diagnosis(
        reason=Reason.QUEUE_LIMIT,
        message=f"the {rule.name} is reached: {_needed(case.demand, rule)} needed, "
        f"{_left(case.demand, rule)} left",
        evidence=(
            *_against(case.demand, rule),
            *conflict_evidence(case),
            *completions_evidence(case),
        ),
        advice=case.advice,
        otherwise=WAIT,
    )


def above_queue_limit(case: Case, rule: Budget) -> Diagnosis:
    """Needs more than the queue may ever use."""
    return Diagnosis(
        reason=Reason.ABOVE_QUEUE_LIMIT,
        message=f"{_needed(case.demand, rule)} needed{_used_by_members(case, rule)}, "
        f"but the {rule.name} allows {_allowed(case, rule)} in total",
        evidence=(*_against(case.demand, rule), *conflict_evidence(case)),
        advice=case.advice,
    )


def plugin_limit(case: Case, words: RuleWords, *, is_empty: bool) -> Diagnosis:
    """A plugin says what its rule is about. `is_empty`: it excludes the gang from the empty cluster too."""
    where = f" the empty cluster{case.beside}" if is_empty else " now"
    return Diagnosis(
        reason=words.above if is_empty else words.reason,
        message=f"{case.fit_of_all} fit{where}; {words.message}",
        evidence=(*words.evidence, *conflict_evidence(case)),
        advice=case.advice,
        otherwise=words.next_step or WAIT,
    )


def _limited(demand: Demand, rule: Budget) -> dict[str, int]:
    """What the queue is charged for the demand, of resources that the budget limits."""
    needed = sorted(charged_alone(demand).items())
    return {name: amount for name, amount in needed if amount > 0 and name in rule.remaining}


def _needed(demand: Demand, rule: Budget) -> str:
    return formatting.listed(
        formatting.amount(name, amount, up=True) for name, amount in _limited(demand, rule).items()
    )


def _left(demand: Demand, rule: Budget) -> str:
    return formatting.listed(
        formatting.amount(name, max(0, rule.remaining[name])) for name in _limited(demand, rule)
    )


def _allowed(case: Case, rule: Budget) -> str:
    """The limit itself: what it leaves in the empty cluster, and what members use that run."""
    own = used_by_members(case.demand.gang, rule)
    return formatting.listed(
        formatting.amount(name, max(0, rule.remaining[name] + own.get(name, 0)))
        for name in _limited(case.demand, rule)
    )


def _used_by_members(case: Case, rule: Budget) -> str:
    own = used_by_members(case.demand.gang, rule)
    used = [formatting.amount(name, own[name]) for name in _limited(case.demand, rule) if own.get(name)]
    return f" beside {formatting.listed(used)} of members that run" if used else ""


def _against(demand: Demand, rule: Budget) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            subject=rule.name,
            finding=f"{formatting.amount(name, needed, up=True)} needed, {_rest(name, rule.remaining[name])}",
        )
        for name, needed in _limited(demand, rule).items()
    )


def _rest(name: str, left: int) -> str:
    """What a limit leaves; usage may exceed a limit that was lowered."""
    if left < 0:
        return f"exceeded by {formatting.amount(name, -left, up=True)}"
    return f"{formatting.amount(name, left)} left"
