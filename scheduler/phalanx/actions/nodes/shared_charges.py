"""Limits for claims to devices that several pods share.

Such a claim is charged once, whichever of its pods are placed, and on whichever nodes. So budgets have that
much less left for the devices of the other claims. If a budget cannot hold the claims at all, another one
lets no pod be placed. The claims of all members that wait count, whether or not they are placed together.

A claim may be shared with pods of other queues. Usage has it once, where one of its users runs, but another
queue may be charged for it later. So the limit of each queue counts it once if pods below the queue use it:
also where no queue below is charged for it, and once only where two are.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.resources import NONE, PODS, Resources, scale, sum_of
from phalanx.model.rules import Budget, Rule

_FOR_SHARED: Final = " for claims that pods share"
"""The end of the names of budgets that let no pod be placed."""


class _Counted(Struct, frozen=True):
    """What a budget has less for claims that pods share."""

    needed: Resources = NONE
    """For claims of the gang that it does not count yet."""
    others: Resources = NONE
    """For other claims; negative where it counts one twice."""


def shared_by(gang: Gang, session: Session) -> Resources:
    """The devices of claims that waiting members share and that the queue is not charged for yet."""
    return sum_of(_claims_of(gang, session).values())


def _claims_of(gang: Gang, session: Session) -> dict[str, Resources]:
    if not gang.claims_devices:
        return {}
    waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    known = session.ledger.claims_of(gang.queue)
    shared = {each.claim: dict(each.amounts) for pod in waiting for each in pod.charges if each.claim}
    found: dict[str, Resources] = {claim: each for claim, each in shared.items() if claim not in known}
    if session.assumed_ended:
        found.update(session.devices.needs.charges.released(waiting, gang.queue, session.assumed_ended))
    return found


def with_shared_charges(rules: tuple[Rule, ...], gang: Gang, session: Session) -> tuple[Rule, ...]:
    """The rules, with what budgets have left beside the claims that pods share."""
    own, charges = _claims_of(gang, session), session.devices.needs.charges
    if not own and not session.ledger.claims and not charges.of_several_queues:
        return rules
    found: list[Rule] = []
    exceeded: list[Rule] = []
    for rule in rules:
        if not isinstance(rule, Budget):
            found.append(rule)
            continue
        counted = _counted(rule, own, session)
        left = _less(rule, counted.others)
        found.append(_less(left, counted.needed))
        if any(amount > left.remaining.get(name, amount) for name, amount in counted.needed.items()):
            exceeded.append(Budget(rule.name + _FOR_SHARED, remaining={PODS: 0}, nodes=rule.nodes))
    return (*found, *exceeded)


def _counted(rule: Budget, own: Mapping[str, Resources], session: Session) -> _Counted:
    if rule.queue is None:
        return _Counted(needed=sum_of(own.values()))
    charges = session.devices.needs.charges
    booked = {claim for (_, claim), is_booked in session.ledger.claims.items() if is_booked}
    needed, others = list[Resources](), list[Resources]()
    for name in sorted({*own, *booked, *charges.of_several_queues}):
        amounts = own.get(name) or charges.amounts(name)
        if not amounts.keys().isdisjoint(rule.remaining):
            is_needed, times = _times(rule, name, session)
            if name in own and is_needed:
                needed.append(amounts)
            elif times:
                others.append(scale(amounts, times))
    return _Counted(sum_of(needed), sum_of(others))


def _times(rule: Budget, name: str, session: Session) -> tuple[bool, int]:
    """Whether the budget does not count the claim, which no pods below its queue use; else how often it must
    count the claim besides."""
    used = [
        _is_below(queue, rule, session) and (rule.nodes is None or node in rule.nodes)
        for queue, node in session.devices.needs.charges.users(name, session.assumed_ended)
    ]
    booked = [] if rule.nodes is not None else _booked_below(name, rule, session)
    counted = int(used[:1] == [True]) + len(booked)
    return not any(used) and not booked, int(any(used) or bool(booked)) - counted


def _booked_below(name: str, rule: Budget, session: Session) -> Sequence[QueueName]:
    """The queues below that of the rule that this session has charged for the claim."""
    claims = session.ledger.claims
    return [
        queue
        for (queue, claim), is_booked in claims.items()
        if is_booked and claim == name and _is_below(queue, rule, session)
    ]


def _is_below(queue: QueueName, rule: Budget, session: Session) -> bool:
    return any(each.name == rule.queue for each in session.queues.path(queue))


def _less(budget: Budget, amounts: Resources) -> Budget:
    left = {name: amount - amounts.get(name, 0) for name, amount in budget.remaining.items()}
    return replace(budget, remaining=left) if amounts else budget


def is_about_shared_claims(rule: Rule) -> bool:
    """Whether the rule says that a budget cannot hold the claims that members share."""
    return rule.name.endswith(_FOR_SHARED)


def exceeded_budget(rule: Rule, gang: Gang, session: Session) -> tuple[Budget, Resources] | None:
    """The budget that cannot hold them, with what it has left; and what it lacks for them."""
    name = rule.name.removesuffix(_FOR_SHARED)
    for found in session.hooks.rules(gang):
        if found.name == name and isinstance(found, Budget):
            counted = _counted(found, _claims_of(gang, session), session)
            return _less(found, counted.others), counted.needed
    return None
