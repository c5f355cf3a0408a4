"""Diagnoses of gangs whose claims cannot all get a volume."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.actions.nodes.resource_projection import volume_amounts
from phalanx.framework.session import Session
from phalanx.model.reasons import Evidence, Objection, Reason
from phalanx.model.supplies.storage import is_volume_amount
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule

_MORE: Final = "Create more PersistentVolumes, or wait until other claims release some"


def no_volumes(why: str) -> Objection:
    """The solver found a placement, and the claims of its pods cannot all get a volume there."""
    return Objection(reason=Reason.VOLUME_NOT_BOUND, message=why, next_step=_MORE)


def no_devices() -> Objection:
    """The solver found a placement, and the claims of its pods cannot all have devices there."""
    return Objection(
        reason=Reason.INSUFFICIENT_CAPACITY,
        message="devices that several nodes can use do not suffice together for the claims of its pods",
        next_step="Wait until claims release devices, or let claims ask for fewer kinds of devices",
    )


def no_division() -> Objection:
    """The members might fit, but no way was found to divide the free devices of nodes among them."""
    return Objection(
        reason=Reason.INSUFFICIENT_CAPACITY,
        message="no way was found to divide the free devices among members with different claims; there may "
        "be one",
        next_step="Wait until claims release devices, or let members ask for fewer kinds of devices",
    )


def is_about_volumes(rule: Rule) -> bool:
    """Whether the rule bounds volumes that exist already, or space for new ones."""
    return any(map(is_volume_amount, rule.limited))


def few_volumes(demand: Demand, session: Session) -> Diagnosis | None:
    """A diagnosis if the nodes of a bound have fewer volumes, or less space, than the demand needs there."""
    volumes = volume_amounts(session, [batch.pods[0] for batch in demand.batches])
    for rule in volumes.budgets() if volumes is not None else ():
        if rule.nodes is None and any(
            amount > rule.remaining[name] for name, amount in _needed(demand, rule)
        ):
            return too_few_volumes(demand, rule)
    return None


def too_few_volumes(demand: Demand, rule: Budget) -> Diagnosis:
    """Needs more volumes that exist already, or more space for new ones, than there is."""
    where = "" if rule.nodes is None else f" on {formatting.nodes(len(rule.nodes))}"
    needed = list(_needed(demand, rule))
    left = [(name, max(0, rule.remaining[name])) for name, _ in needed]
    message = f"{_listed(needed)} needed, {_listed(left)} available{where}"
    return Diagnosis(
        reason=Reason.VOLUME_NOT_BOUND,
        message=message,
        evidence=(Evidence(subject=rule.name, finding=f"{_listed(left)} available"),),
        otherwise=_MORE,
    )


def _needed(demand: Demand, rule: Budget) -> Iterable[tuple[str, int]]:
    """What the fewest pods of the demand use of what the rule bounds."""
    total: Counter[str] = Counter()
    for batch in demand.batches:
        for name, amount in batch.pods[0].shape.supplied:
            if name in rule.remaining:
                total[name] += amount * batch.minimum
    return sorted(total.items())


def _listed(amounts: Iterable[tuple[str, int]]) -> str:
    return formatting.listed(formatting.amount(name, amount, up=True) for name, amount in amounts)
