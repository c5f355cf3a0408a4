"""Divide capacity among the queues of a tree: guarantees first, then weighted dominant resource fairness.

From the roots down, each queue gets the smaller of its demand and its guarantee. The rest of the parent's
share is divided among siblings by weighted dominant share above the guarantee; what one queue cannot use goes
to the others (`water_filling.py`). Guarantees of siblings that add up to more than their parent's, or to more
than the capacity, are scaled down in proportion. All amounts are whole units: the largest remainders are
rounded up.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Final

from msgspec import Struct

from phalanx.framework.queues.water_filling import Bundle, dominant_share, fill
from phalanx.model.names import QueueName
from phalanx.model.resources import NONE, PODS, Resources, add, sum_of

Bundles = Mapping[frozenset[str], Resources]
"""Amounts by the set of resources that are only useful together, such as a GPU and its cores."""

NO_BUNDLES: Final[Bundles] = {}

IGNORED: Final = frozenset({PODS})
"""Resources that are never scarce, so they never make a share dominant."""


NOT_WAITING: Final = 1 << 62
"""Nothing waits: after all that do."""

_Age = tuple[int, int, str]
"""Since when a gang waits, the creation of the queue, and its UID: the smaller one gets what is left."""


class QueueShare(Struct, frozen=True):
    """The share of a queue and its descendants, on all nodes or on those of a flavor."""

    guarantee: Resources = NONE
    """The guarantee, as far as the capacity exists."""
    rounded_down: Resources = NONE
    """The same, without a unit that is left between queues: it decides who goes first."""
    written: Resources = NONE
    """The guarantee as written, at most the limit; the sum of its children's where it names none."""
    fair_share: Resources = NONE
    """At least the smaller of demand and guarantee; at most the demand and the limit."""
    used: Resources = NONE
    demand: Resources = NONE
    """What it uses and what its waiting gangs need to start. A limit of a descendant reduces its resource."""
    demand_before_limit: Resources = NONE
    """The same, but limits of descendants reduce what is demanded together; at least what it uses."""
    demand_within_limits: Resources = NONE
    """The same, reduced to its own limit too; at least what it uses."""


class Participant(Struct, frozen=True):
    """A queue that takes part in the division. `used` and `waiting` are without its descendants."""

    parent: QueueName | None = None
    weight: int = 1
    guarantee: Resources = NONE
    limit: Resources = NONE
    used: Bundles = NO_BUNDLES
    waiting: Bundles = NO_BUNDLES
    waits_since: int = NOT_WAITING
    """The creation of its oldest waiting gang, in seconds."""
    created: int = 0
    uid: str = ""
    priority: int = 0
    """Among siblings with equal remainders of a fair share, the larger number gets a unit that is left."""


class Taker(Struct, frozen=True):
    """Who may get a unit that is left."""

    used: int
    age: _Age
    priority: int = 0


class _Totals(Struct, frozen=True):
    """The sums over a queue and its descendants."""

    used: Bundles
    bundles: Bundles
    """The demand within all limits."""
    demand: Resources
    """The demand within limits of descendants, of which each reduces its own resource only."""
    waits_since: int
    limit: Resources
    before_limit: Bundles
    """The demand within limits of descendants, but at least what they use."""
    counted: Bundles
    """The demand within all limits, but at least `used`."""
    guarantee: Resources


class _Sibling(Struct, frozen=True):
    """One of the queues among which their parent's share is divided."""

    weight: int
    entitled: Resources
    """Its entitlement: the smaller of demand and guarantee."""
    bundles: Bundles
    """Its demand in total."""
    used: Resources
    age: _Age
    priority: int = 0


def divide(participants: Mapping[QueueName, Participant], capacity: Resources) -> dict[QueueName, QueueShare]:
    """The share of every queue. Parents take part too and form a tree."""
    return _Division(participants, capacity).shares()


class _Division:
    """One division among the queues of a tree."""

    def __init__(self, participants: Mapping[QueueName, Participant], capacity: Resources) -> None:
        self._participants = participants
        self._capacity = capacity
        self._children: dict[QueueName | None, list[QueueName]] = {}
        for name in sorted(participants):
            self._children.setdefault(participants[name].parent, []).append(name)
        self._downwards = list(self._below(None))
        for name in self._downwards:
            self._downwards.extend(self._below(name))
        self._totals: dict[QueueName, _Totals] = {}
        self._rounded_down: dict[QueueName, Resources] = {}
        for name in reversed(self._downwards):
            self._totals[name] = self._total(name)

    def shares(self) -> dict[QueueName, QueueShare]:
        """From the roots down."""
        guarantees = self._scaled(self._below(None), self._capacity)
        shares = self._divided(None, guarantees, self._capacity)
        for name in self._downwards:
            guarantees |= self._scaled(self._below(name), guarantees[name])
            shares |= self._divided(name, guarantees, self._for_children(name, shares[name]))
        return {
            name: QueueShare(
                guarantees[name],
                self._rounded_down[name],
                self._totals[name].guarantee,
                shares[name],
                self._used(name),
                self._totals[name].demand,
                sum_of(self._totals[name].before_limit.values()),
                sum_of(self._totals[name].counted.values()),
            )
            for name in self._downwards
        }

    def _for_children(self, name: QueueName, share: Resources) -> Resources:
        """The share that the children of a queue divide: their whole demand for what is not scarce.

        The share of the queue may have less of it, if its demand is met in part for want of another resource.
        """
        demand = self._totals[name].demand
        return {
            resource: amount if self._is_scarce(resource, name) else max(amount, demand.get(resource, 0))
            for resource, amount in share.items()
        }

    def _is_scarce(self, resource: str, queue: QueueName) -> bool:
        """Whether the demand exceeds the capacity, or a limit of the queue or of an ancestor."""
        demand = sum(self._totals[root].demand.get(resource, 0) for root in self._below(None))
        above: QueueName | None = queue
        while above is not None:
            limit = self._participants[above].limit
            if resource in limit and self._totals[above].demand.get(resource, 0) > limit[resource]:
                return True
            above = self._participants[above].parent
        return resource not in IGNORED and demand > self._capacity.get(resource, 0)

    def _below(self, name: QueueName | None) -> Sequence[QueueName]:
        return self._children.get(name, ())

    def _total(self, name: QueueName) -> _Totals:
        """Sum up a queue. Resources that it does not guarantee itself are guaranteed as its children do."""
        participant, below = self._participants[name], [self._totals[child] for child in self._below(name)]
        own = (*participant.used.values(), *participant.waiting.values())
        guarantee = {**sum_of(child.guarantee for child in below), **participant.guarantee}
        used = merged([participant.used, *(child.used for child in below)])
        bundles = merged([participant.used, participant.waiting, *(child.bundles for child in below)])
        before_limit = merged([participant.used, participant.waiting, *(child.counted for child in below)])
        return _Totals(
            used=used,
            demand=sum_of([*own, *(_at_most(child.limit, child.demand) for child in below)]),
            waits_since=min([participant.waits_since, *(child.waits_since for child in below)]),
            limit=participant.limit,
            before_limit=before_limit,
            bundles=_within(bundles, participant.limit),
            counted=_at_least(used, _within(before_limit, participant.limit)),
            guarantee=_at_most(participant.limit, guarantee),
        )

    def _scaled(self, names: Sequence[QueueName], exists: Resources) -> dict[QueueName, Resources]:
        """The guarantees of siblings, scaled down to whole units if they exceed what exists."""
        kept: dict[QueueName, Resources] = {name: self._totals[name].guarantee for name in names}
        self._rounded_down.update(kept)
        total = sum_of(kept.values())
        for resource in total:
            if total[resource] > exists.get(resource, 0):
                asked = [name for name in names if resource in kept[name]]
                part = Fraction(exists.get(resource, 0), total[resource])
                exact = [kept[name][resource] * part for name in asked]
                amounts = in_whole_units(exact, [self._taker(name, resource) for name in asked])
                for name, amount, least in zip(asked, amounts, exact, strict=True):
                    kept[name] = {**kept[name], resource: amount}
                    self._rounded_down[name] = {**self._rounded_down[name], resource: floor(least)}
        return kept

    def _taker(self, name: QueueName, resource: str) -> Taker:
        return Taker(self._used(name).get(resource, 0), self._age(name))

    def _used(self, name: QueueName) -> Resources:
        return sum_of(self._totals[name].used.values())

    def _age(self, name: QueueName) -> _Age:
        participant = self._participants[name]
        return self._totals[name].waits_since, participant.created, participant.uid

    def _divided(
        self, parent: QueueName | None, guarantees: Mapping[QueueName, Resources], share: Resources
    ) -> dict[QueueName, Resources]:
        """The shares of the parent's children. The usage of the parent's own pods counts as another child."""
        names = self._below(parent)
        siblings = [
            _Sibling(
                weight=self._participants[name].weight,
                entitled=_smaller(self._totals[name].demand, guarantees[name]),
                bundles=self._totals[name].bundles,
                used=self._used(name),
                age=self._age(name),
                priority=self._participants[name].priority,
            )
            for name in names
        ]
        if parent is not None and names:
            own = self._participants[parent].used
            siblings.append(_Sibling(1, NONE, own, sum_of(own.values()), self._age(parent)))
        return dict(zip(names, _shares(siblings, share, self._capacity), strict=False))


def in_whole_units(exact: Sequence[int | Fraction], takers: Sequence[Taker]) -> list[int]:
    """Round down; the largest remainders get the units that are left together (Hamilton).

    Between equals a unit stays where it is used. Otherwise the queue of the highest priority gets it, then
    that of which a gang has waited the longest, then the older queue, then the smaller UID.
    """
    kept = [floor(amount) for amount in exact]
    left = floor(sum(amount - whole for amount, whole in zip(exact, kept, strict=True) if amount != whole))
    if left:
        order = sorted(
            range(len(exact)),
            key=lambda index: (
                kept[index] - exact[index],
                takers[index].used <= kept[index],
                -takers[index].priority,
                takers[index].age,
            ),
        )
        for index in order[:left]:
            kept[index] += 1
    return kept


def _shares(siblings: Sequence[_Sibling], share: Resources, capacity: Resources) -> Sequence[Resources]:
    """For each sibling, its entitlement and its part of the rest."""
    rest = {
        name: amount - sum(sibling.entitled.get(name, 0) for sibling in siblings)
        for name, amount in share.items()
    }
    beyond = [_beyond(sibling.bundles, sibling.entitled) for sibling in siblings]
    bundles = [
        Bundle(amounts, rate)
        for sibling, amounts_beyond in zip(siblings, beyond, strict=True)
        for rate in [_fill_rate(sibling.weight, sum_of(amounts_beyond), capacity)]
        for amounts in amounts_beyond
    ]
    parts = iter(fill(bundles, rest))
    exact = [
        _granted(sibling.entitled, [(amounts, next(parts)) for amounts in amounts_beyond])
        for sibling, amounts_beyond in zip(siblings, beyond, strict=True)
    ]
    whole: list[dict[str, int]] = [{} for _ in siblings]
    for name in sorted({name for amounts in exact for name in amounts}):
        takers = [Taker(sibling.used.get(name, 0), sibling.age, sibling.priority) for sibling in siblings]
        amounts = in_whole_units([each.get(name, 0) for each in exact], takers)
        for found, share_of, amount in zip(whole, exact, amounts, strict=True):
            if name in share_of:
                found[name] = amount
    return whole


def _fill_rate(weight: int, amounts: Resources, capacity: Resources) -> Fraction:
    """The rate at which the dominant share of these amounts reaches the weight at level 1."""
    counted = {name: amount for name, amount in amounts.items() if name not in IGNORED}
    share = dominant_share(counted or amounts, capacity)
    return weight / share if share else Fraction(weight)


def _granted(
    entitled: Resources, parts: Iterable[tuple[Resources, int | Fraction]]
) -> dict[str, int | Fraction]:
    total: dict[str, int | Fraction] = dict(entitled)
    for amounts, part in parts:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + (amount if part == 1 else amount * part)
    return total


def _beyond(bundles: Bundles, entitled: Resources) -> list[Resources]:
    """The demand beyond the entitlement, which goes first to the bundles with the most resources.

    A bundle that is partly covered splits: the other resources of the covered fraction, and the rest.
    """
    left = dict(entitled)
    beyond: list[dict[str, int]] = []
    for names in sorted(bundles, key=lambda names: (-len(names), sorted(names))):
        amounts = {name: amount for name, amount in bundles[names].items() if amount}
        covered = {name: min(amount, left.get(name, 0)) for name, amount in amounts.items()}
        for name in covered:
            left[name] = left.get(name, 0) - covered[name]
        part = max((Fraction(covered[name], amounts[name]) for name in amounts), default=Fraction(0))
        started = {name: floor(amount * part) for name, amount in amounts.items()}
        beyond.append({name: started[name] - covered[name] for name in amounts})
        beyond.append({name: amounts[name] - started[name] for name in amounts})
    positive = ({name: amount for name, amount in amounts.items() if amount} for amounts in beyond)
    return [amounts for amounts in positive if amounts]


def _within(bundles: Bundles, limit: Resources) -> Bundles:
    """The bundles, scaled down if they exceed the limit together."""
    total = sum_of(bundles.values())
    over = {name: Fraction(limit[name], total[name]) for name in limit if total.get(name, 0) > limit[name]}
    if not over:
        return bundles
    parts = {names: min((over[name] for name in names if name in over), default=1) for names in bundles}
    return {
        names: {name: floor(amount * parts[names]) for name, amount in amounts.items()}
        for names, amounts in bundles.items()
    }


def _at_most(limit: Resources, amounts: Resources) -> dict[str, int]:
    return {name: min(amount, limit.get(name, amount)) for name, amount in amounts.items()}


def _at_least(used: Bundles, bundles: Bundles) -> Bundles:
    """The bundles, raised to what is used of the same resources. Each set that is used is one of them."""
    return {
        names: {name: max(amount, used[names][name]) for name, amount in amounts.items()}
        if names in used
        else amounts
        for names, amounts in bundles.items()
    }


def merged(all_bundles: Iterable[Bundles]) -> Bundles:
    """The sums of bundles with the same resources."""
    found: dict[frozenset[str], Resources] = {}
    for bundles in all_bundles:
        for names, amounts in bundles.items():
            found[names] = add(found[names], amounts) if names in found else amounts
    return found


def bundle_of(amounts: Resources) -> Bundles:
    names = frozenset(name for name, amount in amounts.items() if amount > 0)
    return {names: {name: amounts[name] for name in sorted(names)}} if names else NO_BUNDLES


def _smaller(left: Resources, right: Resources) -> Resources:
    return {name: min(left[name], right[name]) for name in left if right.get(name, 0) > 0}
