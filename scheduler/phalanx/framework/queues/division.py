"""What each queue is due of what exists: its guarantee as far as it wants it, then a part of the rest.

Down the tree of queues, level by level: each sibling gets the smaller of its demand and its guarantee. What
is then left of their parent's share is divided by weighted dominant share above the guarantee, and what one
cannot use is left to the others (`water_filling.py`). Guarantees of siblings that add up to more than their
parent's, or to more than there is, are scaled down alike. Amounts are rounded down.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Final

from msgspec import Struct

from phalanx.framework.queues.water_filling import Wish, dominant_share, fill
from phalanx.model.names import QueueName
from phalanx.model.resources import NONE, PODS, Resources, add, sum_of

Wishes = Mapping[frozenset[str], Resources]
"""Amounts by the resources that are asked for together: who waits for a GPU has no use for cores alone."""

NO_WISHES: Final[Wishes] = {}

IGNORED: Final = frozenset({PODS})
"""Nobody runs short of it, so it makes no share dominant."""


class QueueShare(Struct, frozen=True):
    """What a queue and its descendants are due, on all nodes or on those of a flavor.

    `guarantee`: as far as it exists. `fair_share`: what it is due now; at least the smaller of demand and
    guarantee, at most its demand and its limit. `demand`: what it uses, and what waits for a place to start.
    """

    guarantee: Resources = NONE
    fair_share: Resources = NONE
    used: Resources = NONE
    demand: Resources = NONE


class Party(Struct, frozen=True):
    """A queue among which something is divided. `used` and `waiting` are its own, not its descendants'."""

    parent: QueueName | None = None
    weight: int = 1
    guarantee: Resources = NONE
    limit: Resources = NONE
    used: Wishes = NO_WISHES
    waiting: Wishes = NO_WISHES


class _Totals(Struct, frozen=True):
    """A party with its descendants. `wishes` keep to all limits, `demand` does not."""

    used: Resources
    demand: Resources
    wishes: Wishes
    guarantee: Resources


class _Claim(Struct, frozen=True):
    """What one of the siblings brings to the division: what it is due first, and what it wishes in all."""

    weight: int
    due: Resources
    wishes: Wishes


def divide(parties: Mapping[QueueName, Party], capacity: Resources) -> dict[QueueName, QueueShare]:
    """The share of every queue. Parents are parties too and form a tree."""
    return _Division(parties, capacity).shares()


class _Division:
    """One division among the queues of a tree."""

    def __init__(self, parties: Mapping[QueueName, Party], capacity: Resources) -> None:
        self._parties = parties
        self._capacity = capacity
        self._children: dict[QueueName | None, list[QueueName]] = {}
        for name in sorted(parties):
            self._children.setdefault(parties[name].parent, []).append(name)
        self._downwards = list(self._below(None))
        for name in self._downwards:
            self._downwards.extend(self._below(name))
        self._totals: dict[QueueName, _Totals] = {}
        for name in reversed(self._downwards):
            self._totals[name] = self._total(name)

    def shares(self) -> dict[QueueName, QueueShare]:
        """From the roots down."""
        guarantees = self._scaled(self._below(None), self._capacity)
        shares = self._divided(None, guarantees, self._capacity)
        for name in self._downwards:
            guarantees |= self._scaled(self._below(name), guarantees[name])
            shares |= self._divided(name, guarantees, shares[name])
        return {
            name: QueueShare(
                guarantees[name], shares[name], self._totals[name].used, self._totals[name].demand
            )
            for name in self._downwards
        }

    def _below(self, name: QueueName | None) -> Sequence[QueueName]:
        return self._children.get(name, ())

    def _total(self, name: QueueName) -> _Totals:
        """A parent guarantees what it says, and of other resources what its children do, within its limit."""
        party, below = self._parties[name], [self._totals[child] for child in self._below(name)]
        own = (*party.used.values(), *party.waiting.values())
        guarantee = {**sum_of(child.guarantee for child in below), **party.guarantee}
        return _Totals(
            used=sum_of([*party.used.values(), *(child.used for child in below)]),
            demand=sum_of([*own, *(child.demand for child in below)]),
            wishes=_within(
                joined([party.used, party.waiting, *(child.wishes for child in below)]), party.limit
            ),
            guarantee={
                each: min(amount, party.limit.get(each, amount)) for each, amount in guarantee.items()
            },
        )

    def _scaled(self, names: Sequence[QueueName], exists: Resources) -> dict[QueueName, Resources]:
        """The guarantees of siblings, smaller in proportion where together they are more than exists."""
        total = sum_of(self._totals[name].guarantee for name in names)
        return {
            name: {
                each: amount * exists.get(each, 0) // total[each]
                if total[each] > exists.get(each, 0)
                else amount
                for each, amount in self._totals[name].guarantee.items()
            }
            for name in names
        }

    def _divided(
        self, parent: QueueName | None, guarantees: Mapping[QueueName, Resources], share: Resources
    ) -> dict[QueueName, Resources]:
        """The shares of the parent's children. What its own pods use, if it was a leaf once, is one more."""
        names = self._below(parent)
        claims = [
            _Claim(
                weight=self._parties[name].weight,
                due=_smaller(self._totals[name].demand, guarantees[name]),
                wishes=self._totals[name].wishes,
            )
            for name in names
        ]
        if parent is not None and names:
            claims.append(_Claim(weight=1, due=NONE, wishes=self._parties[parent].used))
        return dict(zip(names, _shares(claims, share, self._capacity), strict=False))


def _shares(claims: Sequence[_Claim], share: Resources, capacity: Resources) -> list[Resources]:
    """What is due to each, and its part of what is left of the share then."""
    room = {name: amount - sum(claim.due.get(name, 0) for claim in claims) for name, amount in share.items()}
    beyond = [_beyond(claim.wishes, claim.due) for claim in claims]
    wishes = [
        Wish(amounts, speed)
        for claim, amounts_beyond in zip(claims, beyond, strict=True)
        for speed in [_speed(claim.weight, sum_of(amounts_beyond), capacity)]
        for amounts in amounts_beyond
    ]
    parts = iter(fill(wishes, room))
    return [
        _granted(claim.due, [(amounts, next(parts)) for amounts in amounts_beyond])
        for claim, amounts_beyond in zip(claims, beyond, strict=True)
    ]


def _speed(weight: int, amounts: Resources, capacity: Resources) -> Fraction:
    """At level 1 the dominant share of what is met of these amounts is the weight."""
    counted = {name: amount for name, amount in amounts.items() if name not in IGNORED}
    share = dominant_share(counted or amounts, capacity)
    return weight / share if share else Fraction(weight)


def _granted(due: Resources, parts: Iterable[tuple[Resources, int | Fraction]]) -> Resources:
    total: dict[str, int | Fraction] = dict(due)
    for amounts, part in parts:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + (amount if part == 1 else amount * part)
    return {name: floor(total[name]) for name in sorted(total)}


def _beyond(wishes: Wishes, due: Resources) -> list[Resources]:
    """The wishes without what is due anyway, which is used first for those that need the most resources.

    A wish of which some resource is due falls into two: what else the due part of it needs, and the rest.
    """
    left = dict(due)
    beyond: list[dict[str, int]] = []
    for names in sorted(wishes, key=lambda names: (-len(names), sorted(names))):
        amounts = {name: amount for name, amount in wishes[names].items() if amount}
        covered = {name: min(amount, left.get(name, 0)) for name, amount in amounts.items()}
        for name in covered:
            left[name] = left.get(name, 0) - covered[name]
        part = max((Fraction(covered[name], amounts[name]) for name in amounts), default=Fraction(0))
        begun = {name: floor(amount * part) for name, amount in amounts.items()}
        beyond.append({name: begun[name] - covered[name] for name in amounts})
        beyond.append({name: amounts[name] - begun[name] for name in amounts})
    positive = ({name: amount for name, amount in each.items() if amount} for each in beyond)
    return [each for each in positive if each]


def _within(wishes: Wishes, limit: Resources) -> Wishes:
    """The wishes, smaller as a whole where together they are more than the limit allows."""
    total = sum_of(wishes.values())
    over = {name: Fraction(limit[name], total[name]) for name in limit if total.get(name, 0) > limit[name]}
    if not over:
        return wishes
    parts = {names: min((over[each] for each in names if each in over), default=1) for names in wishes}
    return {
        names: {name: floor(amount * parts[names]) for name, amount in amounts.items()}
        for names, amounts in wishes.items()
    }


def joined(all_wishes: Iterable[Wishes]) -> Wishes:
    """The wishes for the same resources added up."""
    found: dict[frozenset[str], Resources] = {}
    for wishes in all_wishes:
        for names, amounts in wishes.items():
            found[names] = add(found[names], amounts) if names in found else amounts
    return found


def wish_for(amounts: Resources) -> Wishes:
    """Amounts that are of use together only, as wishes."""
    names = frozenset(name for name, amount in amounts.items() if amount > 0)
    return {names: {name: amounts[name] for name in sorted(names)}} if names else NO_WISHES


def _smaller(left: Resources, right: Resources) -> Resources:
    return {name: min(left[name], right[name]) for name in left if right.get(name, 0) > 0}
