"""How many pods with different claims fit on a node together, where free devices do not tell it.

That is so with constraints, alternatives, counters, and where claims ask for some of the same devices. Then
combinations of pods are tried: a number of pods of each kind. A combination that does not fit excludes all
larger ones, so the smallest of these tell everything.

What nodes have must add up, and a list of combinations does not. So a bound on a weighted sum of the pods is
used in its place, which excludes at least these combinations. It is safe: each combination within the bound
fits. It is not exact: it may exclude others that fit.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from math import lcm, prod

from msgspec import Struct

from phalanx.model.devices.allocator import NodeDevices, allocate
from phalanx.model.devices.claims import ClaimSpec, DeviceClasses
from phalanx.model.devices.limits import (
    CLAIM_SEARCH_DEVICES_MAX,
    DEVICE_SLOTS_CACHE_MAX,
    MIXED_POINTS_MAX,
    MIXED_RATIOS_MAX,
    MIXED_TRIED_MAX,
)
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.slots import SlotCounter

Combination = tuple[int, ...]
"""Pods of each kind."""

Weights = tuple[int, ...]
"""What a pod of each kind counts in a weighted sum."""


class Mix(Struct, frozen=True, gc=False):
    """What fits on a node: at most so many pods of each kind alone, and none of these combinations.

    A kind of which no pod fits, or whose pods need no devices there, has 0.
    """

    alone: Combination
    excluded: tuple[Combination, ...] = ()
    """Each with the smallest numbers."""

    def bound(self, weights: Weights) -> int:
        """The largest weighted sum of pods with which all combinations fit; negative if there is none.

        Some combination must be excluded.
        """
        return min(_weighted(each, weights) for each in self.excluded) - 1

    def allowed(self, weights: Weights) -> int:
        """How many combinations are within this bound."""
        bound = self.bound(weights)
        return sum(
            _weighted(each, weights) <= bound
            for each in product(*(range(count + 1) for count in _within_points(self.alone)))
        )


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
        self._known: dict[Hashable, Mix] = {}

    def count(self, place: NodeDevices, alone: Combination) -> Mix:
        """What fits together on the node, on which so many pods of each kind fit alone."""
        key = (alone, self._nodes.kinds_of(place))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= DEVICE_SLOTS_CACHE_MAX:
                self._known.clear()
            known = self._known[key] = Mix(alone, tuple(self._excluded(place, alone)))
        return known

    def _excluded(self, place: NodeDevices, alone: Combination) -> Iterator[Combination]:
        """The smallest combinations that do not fit, or of which that is not known."""
        most = _within_points(alone)
        yield from self._tried(place, most)
        yield from _untried(alone, most)

    def _tried(self, place: NodeDevices, most: Combination) -> Iterator[Combination]:
        """Those among the combinations of at most so many pods of each kind."""
        found: list[Combination] = []
        left = MIXED_TRIED_MAX
        for each in _by_size(most):
            is_of_one_kind = sum(map(bool, each)) < 2
            if is_of_one_kind or any(_is_within(one, each) for one in found):
                continue
            fits = left > 0 and self._fits(place, each)
            left -= 1
            if not fits:
                found.append(each)
                yield each

    def _fits(self, place: NodeDevices, pods: Combination) -> bool:
        claims = [spec for own, count in zip(self._kinds, pods, strict=True) for spec in own * count]
        if sum(spec.most_devices for spec in claims) > CLAIM_SEARCH_DEVICES_MAX:
            return False
        return allocate(place, claims, classes=self._classes, matcher=self._matcher).claims is not None


def _untried(alone: Combination, most: Combination) -> Iterator[Combination]:
    """One more pod of a kind than was tried, beside one of another kind."""
    for index, (count, tried) in enumerate(zip(alone, most, strict=True)):
        for other in range(len(alone)) if count > tried else ():
            if other != index and alone[other]:
                yield tuple((tried + 1) * (at == index) + (at == other) for at in range(len(alone)))


def weights_for(mixes: Sequence[Mix], devices: Sequence[int]) -> list[Weights]:
    """Weights to choose from: `best_of` tells which suit a node best.

    A pod counts as one, or as many as it has devices, or by how many fit a node alone. With each of these,
    some kinds may count nothing: those that take nothing from the others. The first weights count each pod as
    one. `devices`: those of a pod of each kind.
    """
    bases = [tuple(1 for _ in devices), tuple(max(1, each) for each in devices)]
    bases += map(_parts_of, list(dict.fromkeys(mix.alone for mix in mixes))[:MIXED_RATIOS_MAX])
    masks = [each for each in product((1, 0), repeat=len(devices)) if sum(each) > 1]
    found = {tuple(map(int.__mul__, base, mask)): None for base in bases for mask in masks}
    return list(found)


def best_of(mix: Mix, weights: Sequence[Weights]) -> int | None:
    """The index of the weights whose bound allows the most combinations; None if all of them allow only one
    pod.

    Of equal ones, those that count the fewest kinds of pods.
    """
    allowed = [mix.allowed(each) for each in weights]
    best = max(range(len(weights)), key=lambda index: (allowed[index], weights[index].count(0), -index))
    return best if allowed[best] > 1 + sum(map(bool, mix.alone)) else None


def _within_points(most: Combination) -> Combination:
    """These numbers, the largest ones reduced, so that there are not too many combinations."""
    size = max(most, default=0)
    while size > 1 and _points(most, size) > MIXED_POINTS_MAX:
        size -= 1
    return tuple(min(size, count) for count in most)


def _points(most: Combination, size: int) -> int:
    """How many combinations there are with at most `size` pods of each kind."""
    return prod(min(size, count) + 1 for count in most)


def _by_size(most: Combination) -> list[Combination]:
    """All combinations, those first whose pods are the smallest parts of what fits alone, summed up."""
    parts = _parts_of(most)
    return sorted(
        product(*(range(count + 1) for count in most)), key=lambda each: (_weighted(each, parts), each)
    )


def _parts_of(most: Combination) -> Weights:
    """What part of a node a pod of each kind takes if so many of them fit alone, in a common unit."""
    whole = lcm(*filter(None, most))
    return tuple(whole // count if count else 0 for count in most)


def _weighted(pods: Combination, weights: Weights) -> int:
    return sum(map(int.__mul__, weights, pods))


def _is_within(smaller: Combination, larger: Combination) -> bool:
    return all(less <= more for less, more in zip(smaller, larger, strict=True))
