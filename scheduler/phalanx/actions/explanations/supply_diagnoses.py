"""Diagnoses of gangs for which several nodes have too little of a supply together."""

from collections import Counter
from collections.abc import Iterable

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.framework.session import Session
from phalanx.model.reasons import Evidence, Objection, Reason
from phalanx.model.supplies.supply import SessionSupply, SharedAmounts
from phalanx.rules.budget import Budget


def no_division() -> Objection:
    """The members might fit, but no way was found to divide the free devices of nodes among them."""
    return Objection(
        reason=Reason.INSUFFICIENT_CAPACITY,
        message="no way was found to divide the free devices among members with different claims; there may "
        "be one",
        next_step="Wait until claims release devices, or let members ask for fewer kinds of devices",
    )


def scarce_supply(demand: Demand, session: Session) -> Diagnosis | None:
    """A diagnosis if all nodes have less of a supply together than the demand needs."""
    pods = [batch.pods[0] for batch in demand.batches]
    for supply in [each for each in session.supplies if each.counts_for_users]:
        for shared in supply.shared_amounts(pods):
            if shared.nodes is None and any(
                amount > shared.remaining[name] for name, amount in _needed(demand, shared)
            ):
                return above_supply(demand, shared, supply)
    return None


def above_supply(demand: Demand, shared: SharedAmounts | Budget, supply: SessionSupply) -> Diagnosis:
    """Needs more of a supply than nodes have together."""
    where = "" if shared.nodes is None else f" on {formatting.nodes(len(shared.nodes))}"
    needed = list(_needed(demand, shared))
    left = [(name, max(0, shared.remaining[name])) for name, _ in needed]
    message = f"{_listed(needed)} needed, {_listed(left)} available{where}"
    return Diagnosis(
        reason=supply.reason,
        message=message,
        evidence=(Evidence(subject=shared.name, finding=f"{_listed(left)} available"),),
        otherwise=supply.next_step,
    )


def _needed(demand: Demand, shared: SharedAmounts | Budget) -> Iterable[tuple[str, int]]:
    """What the fewest pods of the demand use of these amounts."""
    total: Counter[str] = Counter()
    for batch in demand.batches:
        for name, amount in batch.pods[0].shape.supplied:
            if name in shared.remaining:
                total[name] += amount * batch.minimum
    return sorted(total.items())


def _listed(amounts: Iterable[tuple[str, int]]) -> str:
    return formatting.listed(formatting.amount(name, amount, up=True) for name, amount in amounts)
