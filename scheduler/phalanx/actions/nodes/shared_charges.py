"""Limits for claims to devices that several members of a gang share.

Such a claim is charged once, whichever of its pods are placed, and on whichever nodes. So budgets have that
much less left for the devices of the other claims. If a budget cannot hold the claims at all, another one
lets no pod be placed. The claims of all members that wait count, whether or not they are placed together.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from phalanx.framework.session import Session
from phalanx.model.charges import shared_charges
from phalanx.model.gangs import Gang
from phalanx.model.resources import NONE, PODS, Resources, add
from phalanx.model.rules import Budget, Rule

_FOR_SHARED: Final = " for claims that pods share"
"""The end of the names of budgets that let no pod be placed."""


def shared_by(gang: Gang, session: Session) -> Resources:
    """The devices of claims that waiting members share and that the queue is not charged for yet."""
    if not gang.claims_devices:
        return NONE
    waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    shared = shared_charges(waiting, besides=session.ledger.claims_of(gang.queue))
    if not session.assumed_ended:
        return shared
    charges = session.devices.needs.charges
    return add(shared, charges.released(waiting, gang.queue, session.assumed_ended))


def with_shared_charges(rules: tuple[Rule, ...], gang: Gang, session: Session) -> tuple[Rule, ...]:
    """The rules, with what budgets have left beside the claims that members share."""
    shared = shared_by(gang, session)
    if not shared:
        return rules
    return (*[_less(rule, shared) for rule in rules], *_exceeded(rules, shared))


def _less(rule: Rule, shared: Resources) -> Rule:
    if not isinstance(rule, Budget):
        return rule
    left = {name: amount - shared.get(name, 0) for name, amount in rule.remaining.items()}
    return replace(rule, remaining=left)


def _exceeded(rules: tuple[Rule, ...], shared: Resources) -> Iterator[Budget]:
    for rule in rules:
        if isinstance(rule, Budget) and any(
            amount > rule.remaining.get(name, amount) for name, amount in shared.items()
        ):
            yield Budget(rule.name + _FOR_SHARED, remaining={PODS: 0}, nodes=rule.nodes)


def is_about_shared_claims(rule: Rule) -> bool:
    """Whether the rule says that a budget cannot hold the claims that members share."""
    return rule.name.endswith(_FOR_SHARED)


def exceeded_budget(rule: Rule, gang: Gang, session: Session) -> Budget | None:
    """The budget that cannot hold them, with what it has left."""
    name = rule.name.removesuffix(_FOR_SHARED)
    found = [each for each in session.hooks.rules(gang) if each.name == name]
    return next((each for each in found if isinstance(each, Budget)), None)
