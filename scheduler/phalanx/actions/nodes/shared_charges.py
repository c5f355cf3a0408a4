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
from phalanx.model.supplies.devices.session.session_devices import claimed_devices, open_devices
from phalanx.rules.budget import Budget, budgets_in, with_budgets
from phalanx.rules.problem import Rule

_FOR_SHARED: Final = " for claims that pods share"
"""The end of the names of budgets that let no pod be placed."""


class _Claims(Struct, frozen=True):
    """Claims that a limit may have to count otherwise than usage does."""

    own: Mapping[str, Resources]
    """Those of the gang that its queue is not charged for."""
    names: tuple[str, ...]
    booked: Mapping[str, Sequence[QueueName]]
    """The queues that this session has charged for each claim."""


class _Counted(Struct, frozen=True):
    """What a budget has less for claims that pods share."""

    needed: Resources
    """For claims of the gang that it does not count yet."""
    others: Resources = NONE
    """For other claims; negative where it counts one twice."""


def _claims_of(gang: Gang, session: Session) -> dict[str, Resources]:
    """The devices of claims that waiting members share and that the queue is not charged for yet."""
    if not gang.claims_devices:
        return {}
    waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    known = session.ledger.claims_of(gang.queue)
    shared = {each.claim: dict(each.amounts) for pod in waiting for each in pod.charges if each.claim}
    found: dict[str, Resources] = {claim: each for claim, each in shared.items() if claim not in known}
    if session.assumed_ended:
        found.update(
            claimed_devices(session).needs.charges.released(waiting, gang.queue, session.assumed_ended)
        )
    return found


def with_shared_charges(rules: tuple[Rule, ...], gang: Gang, session: Session) -> tuple[Rule, ...]:
    """The rules, with what budgets have left beside the claims that pods share."""
    devices = open_devices(session)
    claims = _claims(gang, session) if devices is not None else None
    if claims is None or not claims.names:
        return rules
    exceeded: list[Rule] = []

    def beside_claims(rule: Budget) -> Budget:
        counted = _counted(rule, claims, session)
        left = _less(rule, counted.others)
        if any(amount > left.remaining.get(name, amount) for name, amount in counted.needed.items()):
            exceeded.append(Budget(rule.name + _FOR_SHARED, remaining={PODS: 0}, nodes=rule.nodes))
        return _less(left, counted.needed)

    return (*with_budgets(rules, beside_claims), *exceeded)


def _claims(gang: Gang, session: Session) -> _Claims:
    charges, own = claimed_devices(session).needs.charges, _claims_of(gang, session)
    booked: dict[str, list[QueueName]] = {}
    for (queue, claim), is_booked in session.ledger.claims.items():
        if is_booked:
            booked.setdefault(claim, []).append(queue)
    twice = [claim for claim, queues in booked.items() if len(queues) > 1 or charges.users(claim)]
    return _Claims(own, tuple(sorted({*own, *twice, *charges.of_several_queues})), booked)


def _counted(rule: Budget, claims: _Claims, session: Session) -> _Counted:
    if rule.queue is None:
        return _Counted(sum_of(claims.own.values()))
    needed, others = list[Resources](), list[Resources]()
    for name in claims.names:
        amounts = claims.own.get(name) or claimed_devices(session).needs.charges.amounts(name)
        if amounts.keys().isdisjoint(rule.remaining):
            continue
        is_new, times = _times(rule, name, claims, session)
        if is_new and name in claims.own:
            needed.append(amounts)
        elif times:
            others.append(scale(amounts, times))
    return _Counted(sum_of(needed), sum_of(others))


def _times(rule: Budget, name: str, claims: _Claims, session: Session) -> tuple[bool, int]:
    """Whether no pods below the queue of the rule use the claim; and how often it must be counted besides."""
    used = [
        _is_below(queue, rule, session) and (rule.nodes is None or node in rule.nodes)
        for queue, node in claimed_devices(session).needs.charges.users(name, session.assumed_ended)
    ]
    booked = claims.booked.get(name, ()) if rule.nodes is None else ()
    started = sum(_is_below(queue, rule, session) for queue in booked)
    counted = int(used[:1] == [True]) + started
    is_used = any(used) or started > 0
    return not is_used, int(is_used) - counted


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
    for found in budgets_in(session.hooks.rules(gang)):
        if found.name == name:
            counted = _counted(found, _claims(gang, session), session)
            return _less(found, counted.others), counted.needed
    return None
