"""How many pods with different claims fit on a node together, where free devices do not tell it.

That is so with constraints, alternatives, counters, shares of different sizes, and where claims ask for some
of the same devices. Then combinations of pods are tried: a number of pods of each kind. All combinations
within one that fits, fit too. So for each combination of the other kinds, the most pods of one kind are
found, of which a node has most. If each pod asks for one device, they are counted (`packing`).

What nodes have must add up, and combinations do not. So a bound on a weighted sum of the pods is used in
their place. There are two such bounds. All combinations within `bound` fit; it may exclude others that fit.
No combination beyond `most` fits; it may allow others that do not fit.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from math import lcm, prod
from typing import Final

from msgspec import Struct

from phalanx.model.devices.allocator import NodeDevices, allocate
from phalanx.model.devices.claims import ClaimSpec, DeviceClasses
from phalanx.model.devices.limits import (
    CLAIM_SEARCH_DEVICES_MAX,
    DEVICE_SLOTS_CACHE_MAX,
    MIXED_RATIOS_MAX,
    MIXED_ROWS_MAX,
    MIXED_TRIED_MAX,
    MIXED_WEIGHT_MAX,
)
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.packing import packing
from phalanx.model.devices.share_bounds import sole_request
from phalanx.model.devices.slots import SlotCounter

_FEW: Final = 3
"""Kinds of pods of which any may count nothing in weighted sums."""

Combination = tuple[int, ...]
"""Pods of each kind."""

Weights = tuple[int, ...]
"""What a pod of each kind counts in a weighted sum."""


Asked = tuple[tuple[int, ...], ...]
"""For a pod of each kind, what it uses of some amounts."""


class Row(Struct, frozen=True, gc=False):
    """How many pods of the main kind fit beside these pods of the other kinds.

    `least`: so many fit; -1 if it is not known that the others do. `most`: no more fit; -1 if the others do
    not.
    """

    beside: Combination
    least: int
    most: int


class Mix(Struct, frozen=True, gc=False, eq=False):
    """What fits on a node: at most so many pods of each kind alone, and none of these combinations.

    A kind of which no pod fits, or whose pods need no devices there, has 0. Nodes on which the same fits
    mostly have the same object, which is compared by identity.
    """

    alone: Combination
    excluded: tuple[Combination, ...] = ()
    """Each with the smallest numbers. They do not fit, or that is not known."""
    main: int = 0
    """The main kind of the rows."""
    rows: tuple[Row, ...] = ()
    """What was found for combinations of the other kinds; empty if nothing was tried."""

    @property
    def _are_all(self) -> bool:
        """Whether the rows are about all combinations of the other kinds."""
        others = (count + 1 for kind, count in enumerate(self.alone) if kind != self.main)
        return len(self.rows) == prod(others)

    def bound(self, weights: Weights) -> int:
        """The largest weighted sum of pods with which all combinations fit; negative if there is none.

        Some combination must be excluded.
        """
        return min(_weighted(each, weights) for each in self.excluded) - 1

    def most(self, weights: Weights) -> int | None:
        """No combination with a larger weighted sum fits; None if that is not known."""
        if not self._are_all:
            return None
        own = weights[self.main]
        return max(_weighted(each.beside, weights) + own * each.most for each in self.rows if each.most >= 0)

    def allowed(self, weights: Weights) -> int:
        """How many of the combinations that were tried are within the bound."""
        bound = self.bound(weights)
        return self.within(tuple((each,) for each in weights), (bound,))

    def within(self, asked: Asked, amounts: Sequence[int]) -> int:
        """How many of the combinations that were tried use no more than these amounts."""
        total, own = 0, asked[self.main]
        for row in self.rows:
            left = [
                amount - sum(count * each[index] for count, each in zip(row.beside, asked, strict=True))
                for index, amount in enumerate(amounts)
            ]
            if min(left, default=0) < 0:
                continue
            most = [more // each for more, each in zip(left, own, strict=True) if each]
            total += 1 + min([*most, self.alone[self.main]])
        return total


class MixCounter:
    """Finds what fits of some kinds of pods. It keeps results, and may be used for many snapshots."""

    def __init__(
        self, kinds: Sequence[Sequence[ClaimSpec]], *, classes: DeviceClasses, matcher: Matcher
    ) -> None:
        """`kinds`: the claims of a pod of each kind."""
        self._kinds = tuple(tuple(each) for each in kinds)
        self._classes = classes
        self._matcher = matcher
        everything = [spec for claims in self._kinds for spec in claims]
        self._nodes = SlotCounter(everything, classes=classes, matcher=matcher)
        sole = [sole_request(claims) if claims else None for claims in self._kinds]
        are_sole = all(some is not None or not own for some, own in zip(sole, self._kinds, strict=True))
        self._sole = sole if are_sole else None
        """The requests of the kinds, if all of their pods ask for one device each."""
        self._known: dict[Hashable, Mix] = {}

    def key(self, place: NodeDevices, alone: Combination, order: Sequence[int]) -> Hashable:
        """Equal for nodes on which the same combinations fit."""
        return alone, order, self._nodes.kinds_of(place)

    def count(self, place: NodeDevices, alone: Combination, order: Sequence[int], key: Hashable) -> Mix:
        """What fits together on the node, on which so many pods of each kind fit alone.

        `order`: which kind is served first, second, and so on. `key`: that of these arguments.
        """
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= DEVICE_SLOTS_CACHE_MAX:
                self._known.clear()
            known = self._known[key] = self._packed(place, alone) or self._searched(place, alone, order)
        return known

    def _packed(self, place: NodeDevices, alone: Combination) -> Mix | None:
        """What fits by counting; None if that does not tell it."""
        if self._sole is None:
            return None
        main = _main_of(alone)
        most = _with(_within_rows(alone, main), main, alone[main])
        found = packing(place, self._sole, most, main, classes=self._classes, matcher=self._matcher)
        if found is None:
            return None
        return _mix(alone, lambda beside, safe, most: Row(beside, *[min(safe, found.beside(beside))] * 2))

    def _searched(self, place: NodeDevices, alone: Combination, order: Sequence[int]) -> Mix:
        """What fits by trial."""
        return _mix(alone, _Trials(alone, lambda pods: self._fits(place, pods, order)).row)

    def _fits(self, place: NodeDevices, pods: Combination, order: Sequence[int]) -> bool | None:
        """Whether these pods fit; None if that is not known."""
        claims = [spec for kind in order for spec in self._kinds[kind] * pods[kind]]
        if sum(spec.most_devices for spec in claims) > CLAIM_SEARCH_DEVICES_MAX:
            return None
        answer = allocate(place, claims, classes=self._classes, matcher=self._matcher)
        return None if answer.is_undecided or answer.is_error else answer.claims is not None


def untried(alone: Combination) -> Mix:
    """What is known of a node of which no combinations were tried."""
    return Mix(alone, tuple(_untried(alone, (0,) * len(alone))))


def _mix(alone: Combination, row_of: Callable[[Combination, int, int], Row]) -> Mix:
    """What fits. `row_of`: a row that has at most the numbers of the rows with fewer pods of the other kinds,
    by the smallest of their `least` and `most`."""
    main, rows, excluded = _main_of(alone), dict[Combination, Row](), list[Combination]()
    within = _within_rows(alone, main)
    for beside in _by_size(within):
        fewer = [rows[each] for each in _one_less(beside)]
        safe = min([alone[main], *(each.least for each in fewer)])
        row = rows[beside] = row_of(beside, safe, min([alone[main], *(each.most for each in fewer)]))
        if row.least < safe:
            excluded.append(_with(beside, main, row.least + 1))
    excluded += _untried(alone, _with(within, main, alone[main]))
    return Mix(alone, tuple(excluded), main, tuple(rows.values()))


class _Trials:
    """Finds the rows of a node by trial."""

    def __init__(self, alone: Combination, fits: Callable[[Combination], bool | None]) -> None:
        self._main = _main_of(alone)
        self._fits = fits
        self._left = MIXED_TRIED_MAX

    def row(self, beside: Combination, safe: int, most: int) -> Row:
        """The row for these pods of the other kinds. `safe`: more pods of the main kind are not tried."""
        if not any(beside):
            return Row(beside, safe, most)
        is_one_kind = sum(map(bool, beside)) == 1
        while safe >= 0:
            if not safe and is_one_kind:
                break
            fits = self._fits(_with(beside, self._main, safe)) if self._left > 0 else None
            self._left -= 1
            if fits:
                break
            most = safe - 1 if fits is False else most
            safe = safe - 1 if self._left > 0 else min(safe, is_one_kind) - 1
        return Row(beside, safe, most)


def _main_of(alone: Combination) -> int:
    """The kind of which most pods fit."""
    return max(range(len(alone)), key=lambda kind: (alone[kind], -kind))


def _with(beside: Combination, main: int, count: int) -> Combination:
    """These pods with so many of the main kind."""
    return (*beside[:main], count, *beside[main + 1 :])


def _one_less(pods: Combination) -> Iterator[Combination]:
    """The combinations with one pod less."""
    for kind, count in enumerate(pods):
        if count:
            yield (*pods[:kind], count - 1, *pods[kind + 1 :])


def _untried(alone: Combination, most: Combination) -> Iterator[Combination]:
    """One more pod of a kind than was tried, beside one of another kind."""
    for index, (count, tried) in enumerate(zip(alone, most, strict=True)):
        for other in range(len(alone)) if count > tried else ():
            if other != index and alone[other]:
                yield tuple((tried + 1) * (at == index) + (at == other) for at in range(len(alone)))


def weights_for(mixes: Sequence[Mix], bases: Sequence[Weights]) -> list[Weights]:
    """Weights to choose from: `best_of` tells which suit a node best. The first ones count each pod as one.

    A pod counts as one, as `bases` say, or by how many fit a node alone. With each of these, some kinds may
    count nothing: those that take nothing from the others. Of more than a few kinds, these are the ones that
    no excluded combination of a node has.
    """
    number = len(bases[0])
    found = [(1,) * number, *bases]
    found += map(_parts_of, list(dict.fromkeys(mix.alone for mix in mixes))[:MIXED_RATIOS_MAX])
    masks = [each for each in product((1, 0), repeat=number) if sum(each) > 1] if number <= _FEW else []
    masks += [(1,) * number, *list(dict.fromkeys(map(_concerned, mixes)))[:MIXED_RATIOS_MAX]]
    return list(dict.fromkeys(tuple(map(int.__mul__, base, mask)) for base in found for mask in masks))


def _concerned(mix: Mix) -> Weights:
    """1 for each kind that some excluded combination has, else 0."""
    return tuple(int(any(each[kind] for each in mix.excluded)) for kind in range(len(mix.alone)))


def best_of(mix: Mix, weights: Sequence[Weights]) -> int | None:
    """The index of the weights whose bound allows the most combinations; None if all of them allow only one
    pod.

    Of equal ones, those that count the fewest kinds of pods.
    """
    allowed = [mix.allowed(each) for each in weights]
    best = max(range(len(weights)), key=lambda index: (allowed[index], weights[index].count(0), -index))
    return best if allowed[best] > 1 + sum(map(bool, mix.alone)) else None


def _within_rows(alone: Combination, main: int) -> Combination:
    """These numbers of the other kinds, the largest ones reduced, so that there are not too many rows."""
    others = tuple(0 if kind == main else count for kind, count in enumerate(alone))
    size = max(others)
    while size > 1 and prod(min(size, count) + 1 for count in others) > MIXED_ROWS_MAX:
        size -= 1
    return tuple(min(size, count) for count in others)


def _by_size(most: Combination) -> list[Combination]:
    """All combinations, those first whose pods are the smallest parts of what fits alone, summed up."""
    parts = _parts_of(most)
    return sorted(
        product(*(range(count + 1) for count in most)), key=lambda each: (_weighted(each, parts), each)
    )


def _parts_of(most: Combination) -> Weights:
    """What part of a node a pod of each kind takes if so many of them fit alone, in a common unit. It is
    rounded if the unit would be very small."""
    whole = min(lcm(*filter(None, most)), MIXED_WEIGHT_MAX)
    return tuple(whole // count if count else 0 for count in most)


def _weighted(pods: Combination, weights: Weights) -> int:
    return sum(map(int.__mul__, weights, pods))
