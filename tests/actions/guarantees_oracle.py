"""What docs/guarantees.md says, written a second time for small clusters with uniform gangs.

Nothing is taken from the scheduler: guarantees, coverage, short resources and fair shares are computed here
from queues, gangs and nodes, by counting pods one by one. Where the page leaves something open, both readings
are kept: what *must* happen holds under every reading, what *may* happen under some.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from itertools import product
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tests.actions.guarantees_scaling import scaled

Amounts = Mapping[str, int]
DEVICES = ("nvidia.com/gpu",)
COUNTED = ("nvidia.com/gpu", "cpu")
"""Resources of these small clusters. Memory and pods are never short there."""


class Coverage(IntEnum):
    """How far a guarantee covers a gang; a higher one may evict a lower one."""

    NONE = 0
    PARTIAL = 1
    FULL = 2


class Member(Struct, frozen=True):
    """A pod of a gang. `since`: when it began to run, in seconds; 0 if it does not run."""

    uid: str
    index: int
    node: str | None
    since: int = 0


class Work(Struct, frozen=True):
    """A gang of equal pods: `each` is what one of them requests."""

    id: str
    name: str
    queue: str
    priority: int
    created: int
    minimum: int
    each: Amounts
    selector: tuple[tuple[str, str], ...]
    members: tuple[Member, ...]
    is_single: bool = False
    is_preemptible: bool = True
    may_evict: bool = True
    min_runtime_ms: int = 0

    @property
    def held(self) -> list[Member]:
        """The members that hold a node, by index."""
        return sorted((member for member in self.members if member.node), key=lambda member: member.index)

    @property
    def start(self) -> tuple[int, int]:
        """When the first member began to run; those that do not run come last."""
        times = [member.since for member in self.held if member.since]
        return (0, min(times)) if times else (1, 0)

    def amounts(self, pods: int) -> dict[str, int]:
        """What this number of its pods requests."""
        return {name: amount * pods for name, amount in self.each.items()}


class Machine(Struct, frozen=True):
    """A node: its labels and what it has."""

    name: str
    labels: Mapping[str, str]
    has: Amounts

    def allows(self, work: Work) -> bool:
        """Whether the selector of the gang matches."""
        return all(self.labels.get(key) == value for key, value in work.selector)


class Account(Struct, frozen=True):
    """A queue as written: `flavors` maps a selector to its guarantee."""

    name: str
    parent: str | None
    weight: int
    guarantee: Amounts
    limit: Amounts
    flavors: Mapping[tuple[tuple[str, str], ...], Amounts]
    reclaim_min_runtime_ms: int = 0


Scope = tuple[tuple[str, str], ...]
"""The node selector of a flavor; empty for the guarantee over all nodes."""
ALL_NODES: Scope = ()
Demands = dict[frozenset[str], Counter[str]]
"""Amounts by the set of resources that are asked for together."""


class Unit(Struct, frozen=True):
    """Pods that are covered and evicted together: a minimum, one surplus pod, or one pod of a Single gang."""

    work: Work
    pods: tuple[Member, ...]
    is_surplus: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies it."""
        return (self.work.id, *(pod.uid for pod in self.pods))

    def rank(self) -> tuple[object, ...]:
        """The place in the order of docs/guarantees.md, among units that no child covers."""
        work = self.work
        return (self.is_surplus, -work.priority, work.start, work.created, work.name, self.pods[0].index)


def units_of(work: Work) -> list[Unit]:
    """Split what a gang holds."""
    held = work.held
    if work.is_single:
        return [Unit(work, (pod,), False) for pod in held]
    least = [Unit(work, tuple(held[: work.minimum]), False)] if held else []
    return [*least, *(Unit(work, (pod,), True) for pod in held[work.minimum :])]


class World:
    """One moment: nodes, queues, gangs, and the gangs for which capacity is being freed."""

    def __init__(
        self,
        now: int,
        machines: Sequence[Machine],
        accounts: Sequence[Account],
        works: Sequence[Work],
        nominated: Mapping[str, int] | None = None,
    ) -> None:
        """`nominated`: gangs whose victims are terminating, with the number of pods that will start."""
        self.now = now
        self.machines = {each.name: each for each in machines}
        self.accounts = {each.name: each for each in accounts}
        self.works = {each.id: each for each in works}
        self.nominated = dict(nominated or {})
        self._covered: dict[tuple[str, str, Scope], set[tuple[str, ...]]] = {}
        self._guarantee: dict[tuple[str, Scope], dict[str, int]] = {}
        self._demanded: dict[tuple[str | None, bool], Demands] = {}

    def changed(self, *, without: Iterable[str] = (), nominated: Mapping[str, int] | None = None) -> "World":
        """The same moment without these pods, and with more nominated gangs."""
        gone = set(without)
        works = [
            replace(
                work,
                members=tuple(
                    replace(each, node=None, since=0) if each.uid in gone else each for each in work.members
                ),
            )
            for work in self.works.values()
        ]
        more = {**self.nominated, **(nominated or {})}
        return World(self.now, [*self.machines.values()], [*self.accounts.values()], works, more)

    # --- queues -----------------------------------------------------------------------------------------

    def path(self, queue: str) -> list[str]:
        """The queue and its ancestors."""
        found = [queue]
        while (parent := self.accounts[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def own_path(self, queue: str, other: str) -> list[str]:
        """The queues of the path that are not on the path of the other queue."""
        shared = set(self.path(other))
        return [each for each in self.path(queue) if each not in shared]

    def side(self, queue: str, other: str) -> str:
        """The child of the lowest common ancestor on the path of the queue."""
        return self.own_path(queue, other)[-1]

    def children(self, queue: str | None) -> list[str]:
        """The children by name; of None, the roots."""
        return sorted(each.name for each in self.accounts.values() if each.parent == queue)

    def below(self, queue: str) -> list[Work]:
        """The gangs of the queue and its descendants."""
        return [work for work in self.works.values() if queue in self.path(work.queue)]

    def matches(self, machine: str, scope: Scope) -> bool:
        """Whether the node is of the flavor."""
        labels = self.machines[machine].labels
        return all(labels.get(key) == value for key, value in scope)

    def capacity(self, name: str, scope: Scope = ALL_NODES) -> int:
        """What all nodes of the scope have."""
        return sum(each.has.get(name, 0) for each in self.machines.values() if self.matches(each.name, scope))

    def use(self, queue: str, name: str, scope: Scope = ALL_NODES, *, with_nominated: bool = True) -> int:
        """What the pods of the queue and its descendants hold, and what is being freed for them."""
        total = 0
        for work in self.below(queue):
            on = [pod for pod in work.held if pod.node and self.matches(pod.node, scope)]
            total += work.each.get(name, 0) * len(on)
            if with_nominated and self.runs_only_on(work, scope):
                total += work.each.get(name, 0) * self.nominated.get(work.id, 0)
        return total

    def runs_only_on(self, work: Work, scope: Scope) -> bool:
        """Whether no pod of the gang may run on a node outside the flavor."""
        return not any(
            machine.allows(work)
            and not self.matches(machine.name, scope)
            and all(amount <= machine.has.get(name, 0) for name, amount in work.each.items())
            for machine in self.machines.values()
        )

    # --- guarantees -------------------------------------------------------------------------------------

    def written(self, queue: str, name: str, scope: Scope = ALL_NODES) -> int:
        """The guarantee as written, up to the limit; a parent that names none has the sum of its children."""
        account = self.accounts[queue]
        amounts = account.flavors.get(scope, {}) if scope else account.guarantee
        if name in amounts:
            amount = amounts[name]
        else:
            amount = sum(self.written(child, name, scope) for child in self.children(queue))
        return amount if scope else min(amount, account.limit.get(name, amount))

    def names_guarantee(self, queue: str, name: str, scope: Scope = ALL_NODES) -> bool:
        """Whether the queue itself names a guarantee of the resource. The sum of its children names none."""
        account = self.accounts[queue]
        return name in (account.flavors.get(scope, {}) if scope else account.guarantee)

    def guarantee(self, queue: str, name: str, scope: Scope = ALL_NODES) -> int:
        """The guarantee, scaled down where those of siblings do not fit."""
        known = self._guarantee.setdefault((name, scope), {})
        if not known:
            self._divide(None, self.capacity(name, scope), name, scope, known)
        return known[queue]

    def _divide(
        self, parent: str | None, available: int, name: str, scope: Scope, found: dict[str, int]
    ) -> None:
        children = self.children(parent)
        asked = {child: self.written(child, name, scope) for child in children}
        claims = [self.claim(child, name, scope) for child in children]
        given = dict(zip(children, scaled([*asked.values()], available, claims), strict=True))
        for child in children:
            found[child] = given[child]
            self._divide(child, given[child], name, scope, found)

    def claim(self, queue: str, name: str, scope: Scope = ALL_NODES) -> tuple[int, int]:
        """What it uses, and when its oldest gang was created that waits and could start."""
        waits = [
            work.created
            for work in self.below(queue)
            if len(work.held) < work.minimum and self.could_ever_start(work)
        ]
        return self.use(queue, name, scope, with_nominated=False), min(waits, default=1 << 62)

    def scopes(self) -> list[Scope]:
        """All nodes, and each flavor that a queue mentions."""
        flavors = {scope for account in self.accounts.values() for scope in account.flavors}
        return [ALL_NODES, *sorted(flavors)]

    # --- coverage of what runs --------------------------------------------------------------------------

    def covered(self, queue: str, name: str, scope: Scope) -> set[tuple[str, ...]]:
        """The keys of the units that one guarantee of the queue covers."""
        known = (queue, name, scope)
        if known not in self._covered:
            self._covered[known] = self._cover(queue, name, scope)
        return self._covered[known]

    def _cover(self, queue: str, name: str, scope: Scope) -> set[tuple[str, ...]]:
        first: set[tuple[str, ...]] = set()
        for child in self.children(queue):
            first |= self.covered(child, name, scope)
        left = self.written(queue, name, scope)
        units = [unit for work in self.below(queue) for unit in units_of(work)]
        kept = {work.id for work in self.below(queue) if self.is_kept_by(work, queue, name, scope)}
        units.sort(key=lambda unit: (unit.work.id not in kept, unit.key not in first, unit.rank()))
        found: set[tuple[str, ...]] = set()
        minimums: set[str] = set()
        for unit in units:
            on = [pod for pod in unit.pods if pod.node and self.matches(pod.node, scope)]
            amount = unit.work.each.get(name, 0) * len(on)
            if amount <= left and (not unit.is_surplus or unit.work.id in minimums):
                left -= amount
                found.add(unit.key)
                if not unit.is_surplus:
                    minimums.add(unit.work.id)
        return found

    def is_kept_by(self, work: Work, queue: str, name: str, scope: Scope) -> bool:
        """Whether it is not preemptible, and a guarantee up to the queue names the resource."""
        path = self.path(work.queue)
        up_to = path[: path.index(queue) + 1]
        return not work.is_preemptible and any(self.names_guarantee(each, name, scope) for each in up_to)

    def is_covered(self, unit: Unit, queue: str, name: str) -> bool:
        """Whether a guarantee of the queue covers the unit in the resource, which it uses."""
        for scope in self.scopes():
            inside = all(pod.node and self.matches(pod.node, scope) for pod in unit.pods)
            if inside and unit.key in self.covered(queue, name, scope):
                return True
        return False

    def coverage(self, unit: Unit, waiting: Work, short: frozenset[str]) -> Coverage:
        """The coverage of something that runs, against a gang of another queue that waits."""
        side = self.side(unit.work.queue, waiting.queue)
        uses = [name for name in COUNTED if unit.work.each.get(name, 0)]
        both = [name for name in uses if name in short and waiting.each.get(name, 0)]
        covered = {
            name: self.is_covered(unit, side, name) or self.is_carried(unit, side, name) for name in uses
        }
        return _degree(covered, both)

    def is_carried(self, unit: Unit, queue: str, name: str) -> bool:
        """Whether no guarantee names it, and the unit uses no more than nodes have for covered devices."""
        work, path = unit.work, self.path(unit.work.queue)
        up_to = path[: path.index(queue) + 1]
        if name in DEVICES or any(
            self.names_guarantee(each, name, scope) for each in up_to for scope in self.scopes()
        ):
            return False
        most = 0
        for pod in unit.pods:
            has = self.machines[pod.node].has if pod.node else {}
            most += max(
                (
                    work.each.get(device, 0) * ceil(Fraction(has.get(name, 0), has[device]))
                    for device in DEVICES
                    if has.get(device) and self.is_covered(unit, queue, device)
                ),
                default=0,
            )
        return work.each.get(name, 0) * len(unit.pods) <= most

    # --- coverage of what waits -------------------------------------------------------------------------

    def is_covered_waiting(self, work: Work, pods: int, side: str, name: str) -> bool:
        """Whether the use of the side, with this number of pods, is within a guarantee."""
        asked = work.each.get(name, 0) * pods
        return any(
            self.use(side, name, scope) + asked <= self.written(side, name, scope)
            for scope in self.scopes()
            if scope == ALL_NODES or self.runs_only_on(work, scope)
        )

    def coverage_waiting(self, work: Work, pods: int, other: str, short: frozenset[str]) -> Coverage:
        """The coverage of pods that wait, against gangs of the other queue."""
        side = self.side(work.queue, other)
        uses = [name for name in COUNTED if work.each.get(name, 0)]
        covered = {name: self.is_covered_waiting(work, pods, side, name) for name in uses}
        return _degree(covered, [name for name in uses if name in short])

    # --- short resources --------------------------------------------------------------------------------

    def short_sets(self, waiting: Work, other: str) -> list[frozenset[str]]:
        """Every reading of the resources that are short between a waiting gang and another queue."""
        options = [self._short(name, waiting, other) for name in COUNTED]
        return [
            frozenset(name for name, is_short in zip(COUNTED, choice, strict=True) if is_short)
            for choice in product(*options)
        ]

    def _short(self, name: str, waiting: Work, other: str) -> list[bool]:
        shared = [queue for queue in self.path(waiting.queue) if queue in self.path(other)]
        found = []
        for is_generous in (False, True):
            over = self._demand(None, name, is_generous) > self.capacity(name)
            for queue in shared:
                limit = self.accounts[queue].limit.get(name)
                over = over or (limit is not None and self._demand(queue, name, is_generous) > limit)
            found.append(over or self._is_short_beside_devices(name, waiting, is_generous))
        return sorted(set(found))

    def _is_short_beside_devices(self, name: str, waiting: Work, is_generous: bool) -> bool:
        """Whether the nodes with the device lack it for this gang; generous: for all that wait."""
        for device in DEVICES:
            if not waiting.each.get(device, 0):
                continue
            gangs = [each for each in self.works.values() if is_generous and each.each.get(device, 0)]
            waits = [(self._waits(work, is_generous), work.each) for work in gangs or [waiting]]
            asked = sum(pods * each.get(name, 0) for pods, each in waits)
            free, nodes = self.free(), self.machines.values()
            left = sum(max(0, free[each.name].get(name, 0)) for each in nodes if each.has.get(device, 0))
            if asked > left:
                return True
        return False

    def _waits(self, work: Work, is_generous: bool) -> int:
        return (len(work.members) if is_generous else max(work.minimum, len(work.held))) - len(work.held)

    def _demand(self, queue: str | None, name: str, is_generous: bool) -> int:
        """What is held and waits, within limits below. Generous: with surplus and gangs beyond a limit."""
        return sum(each[name] for each in self._demands(queue, is_generous).values())

    def _demands(self, queue: str | None, is_generous: bool) -> Demands:
        """The same by the resources that are asked for together."""
        key = (queue, is_generous)
        if key not in self._demanded:
            found = self._held(queue)
            for work in self.works.values():
                if work.queue == queue:
                    _add(found, work.amounts(self._wants(work, is_generous) - len(work.held)))
            for child in self.children(queue):
                for each in self._limited(child, is_generous):
                    _add(found, each)
            self._demanded[key] = found
        return self._demanded[key]

    def _held(self, queue: str | None) -> Demands:
        """What gangs of the queue itself hold; what they hold on one node is asked for together."""
        found: Demands = {}
        for machine in self.machines:
            here: Counter[str] = Counter()
            for work in self.works.values():
                on = sum(pod.node == machine for pod in work.held)
                here.update(work.amounts(on) if work.queue == queue else {})
            _add(found, here)
        return found

    def _limited(self, queue: str, is_generous: bool) -> Iterator[Amounts]:
        """The demands of a queue, reduced to its limit, but not below what is held."""
        held, limit = Demands(), self.accounts[queue].limit
        below = [self._held(leaf) for leaf in self.accounts if queue in self.path(leaf)]
        for each in (amounts for demands in below for amounts in demands.values()):
            _add(held, each)
        total = {name: self._demand(queue, name, is_generous) for name in limit}
        for names, asked in self._demands(queue, is_generous).items():
            parts = [Fraction(limit[name], total[name]) for name in names if name in limit]
            part, kept = min([Fraction(1), *parts]), held.get(names, Counter[str]())
            yield {name: max(int(asked[name] * part), kept[name]) for name in names}

    def _wants(self, work: Work, is_generous: bool) -> int:
        held = len(work.held)
        if not is_generous:
            return max(held, work.minimum if self.could_ever_start(work) else 0)
        return len(work.members) if self.fits_empty(work) else held

    def fits_empty(self, work: Work) -> bool:
        """Whether the minimum fits on the empty nodes."""
        return (
            self.pods_that_fit(work, {name: machine.has for name, machine in self.machines.items()})
            >= work.minimum
        )

    def could_ever_start(self, work: Work) -> bool:
        """Whether the minimum fits on the empty nodes and in the limits."""
        asked = work.amounts(work.minimum)
        return (
            self.fits_empty(work)
            and self.could_ever_start_in_guarantee(work)
            and all(
                asked.get(name, 0) <= limit
                for queue in self.path(work.queue)
                for name, limit in self.accounts[queue].limit.items()
            )
        )

    def could_ever_start_in_guarantee(self, work: Work) -> bool:
        """Whether a gang that is not preemptible fits the guarantees as they are written.

        That of a flavor counts on the nodes of the flavor only; flavors have no node in common.
        """
        if work.is_preemptible:
            return True
        pods, elsewhere = 0, {name: machine.has for name, machine in self.machines.items()}
        for scope in [scope for scope in self.scopes() if scope != ALL_NODES]:
            there = dict[str, Amounts].fromkeys(self.machines, {})
            for name in self.machines:
                if self.matches(name, scope):
                    there[name], elsewhere[name] = elsewhere[name], {}
            pods += min(self.pods_that_fit(work, there), self._most_in_guarantee(work, scope))
        pods += self.pods_that_fit(work, elsewhere)
        return min(pods, self._most_in_guarantee(work, ALL_NODES)) >= work.minimum

    def _most_in_guarantee(self, work: Work, scope: Scope) -> int:
        """How many of its pods fit the written guarantees for these nodes."""
        return min(
            [
                self.written(queue, name, scope) // work.each[name]
                for queue in self.path(work.queue)
                for name in COUNTED
                if work.each.get(name, 0) and self.names_guarantee(queue, name, scope)
            ],
            default=work.minimum,
        )

    # --- placement --------------------------------------------------------------------------------------

    def free(self, without: Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """What is free on each node if these pods are gone."""
        gone = set(without)
        left = {name: dict(machine.has) for name, machine in self.machines.items()}
        for work in self.works.values():
            for pod in work.held:
                if pod.uid not in gone and pod.node in left:
                    for name, amount in work.each.items():
                        left[pod.node][name] = left[pod.node].get(name, 0) - amount
        return left

    def pods_that_fit(self, work: Work, free: Mapping[str, Amounts]) -> int:
        """How many pods of the gang fit; they are equal, so nodes can be filled one by one."""
        return sum(
            min(max(0, free[name].get(what, 0)) // amount for what, amount in work.each.items() if amount)
            for name, machine in self.machines.items()
            if machine.allows(work)
        )

    def is_within_limits(self, work: Work, pods: int, without: Sequence[str] = ()) -> bool:
        """Whether the limits of all queues on the path allow these pods when others are gone."""
        after = self.changed(without=without) if without else self
        asked = work.amounts(pods)
        return all(
            after.use(queue, name) + asked.get(name, 0) <= limit
            for queue in self.path(work.queue)
            for name, limit in self.accounts[queue].limit.items()
            if asked.get(name, 0)
        )

    def all_units(self) -> Iterator[Unit]:
        """Everything that runs."""
        for work in self.works.values():
            yield from units_of(work)


def _add(demands: Demands, amounts: Amounts) -> None:
    """Add amounts to those of the same resources."""
    asked = Counter({name: amount for name, amount in amounts.items() if amount})
    if asked:
        demands.setdefault(frozenset(asked), Counter()).update(asked)


def _degree(covered: Mapping[str, bool], needed: Sequence[str]) -> Coverage:
    """`covered`: for each resource that is used; `needed`: those that full coverage is about."""
    devices = [name for name in covered if name in DEVICES]
    is_partial = any(covered[name] for name in devices or covered)
    if all(covered[name] for name in needed) if needed else is_partial:
        return Coverage.FULL
    return Coverage.PARTIAL if is_partial else Coverage.NONE
