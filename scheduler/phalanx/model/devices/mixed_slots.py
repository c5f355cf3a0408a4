"""How many pods with different claims fit on a node together, where free devices do not tell it.

That is so with constraints, alternatives, counters, and where claims ask for some of the same devices. Then
combinations of pods are tried: so many of each kind of pod. The smallest combinations that do not fit exclude
all larger ones. A bound on a weighted sum of pods that excludes them too is an amount, which adds up. It is
safe: each combination within the bound fits. It may exclude other combinations that fit.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from math import lcm

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
"""What a pod of each kind counts."""


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
        return min(sum(map(int.__mul__, weights, each)) for each in self.excluded) - 1

    def allowed(self, weights: Weights) -> int:
        """How many combinations are within this bound."""
        bound = self.bound(weights)
        return sum(
            sum(map(int.__mul__, weights, each)) <= bound
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
        """What fits of these pods, of which so many of each kind fit alone."""
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
        found: list[Combination] = []
        left = MIXED_TRIED_MAX
        for each in _by_size(most):
            if sum(map(bool, each)) < 2 or any(_is_within(one, each) for one in found):
                continue
            if left and self._fits(place, each):
                left -= 1
                continue
            left -= left > 0
            found.append(each)
            yield each
        for index, (count, tried) in enumerate(zip(alone, most, strict=True)):
            for other in range(len(alone)) if count > tried else ():
                if other != index and alone[other]:
                    yield tuple((tried + 1) * (at == index) + (at == other) for at in range(len(alone)))

    def _fits(self, place: NodeDevices, pods: Combination) -> bool:
        claims = [spec for own, count in zip(self._kinds, pods, strict=True) for spec in own * count]
        if sum(map(devices_of_claim, claims)) > CLAIM_SEARCH_DEVICES_MAX:
            return False
        return allocate(place, claims, classes=self._classes, matcher=self._matcher).claims is not None


def devices_of_claim(spec: ClaimSpec) -> int:
    """The most devices that the claim takes; a request for all counts as one."""
    return sum(max(1, *(each.count for each in some)) for some in spec.requests)


def weights_for(mixes: Sequence[Mix], devices: Sequence[int]) -> list[Weights]:
    """Weights to choose from, of which one suits each of these nodes best.

    They follow from the devices of a pod of each kind, and from how many pods fit a node alone. A kind of
    which all pods fit beside the others may count nothing. The first weights count each pod as one.
    """
    bases = [tuple(1 for _ in devices), tuple(max(1, each) for each in devices)]
    for alone in list(dict.fromkeys(mix.alone for mix in mixes))[:MIXED_RATIOS_MAX]:
        whole = lcm(*filter(None, alone))
        bases.append(tuple(whole // count if count else 0 for count in alone))
    masks = [each for each in product((1, 0), repeat=len(devices)) if sum(each) > 1]
    found = {tuple(map(int.__mul__, base, mask)): None for base in bases for mask in masks}
    return list(found)


def best_of(mix: Mix, weights: Sequence[Weights]) -> int | None:
    """The place of the weights whose bound allows the most combinations; None if none allows several pods.

    Of equal ones, those that count the fewest kinds of pods.
    """
    allowed = [mix.allowed(each) for each in weights]
    best = max(range(len(weights)), key=lambda index: (allowed[index], weights[index].count(0), -index))
    return best if allowed[best] > 1 + sum(map(bool, mix.alone)) else None


def _within_points(most: Combination) -> Combination:
    """These numbers, reduced so that there are not too many combinations."""
    size = max(most, default=0)
    while size > 1 and _points(most, size) > MIXED_POINTS_MAX:
        size -= 1
    return tuple(min(size, count) for count in most)


def _points(most: Combination, size: int) -> int:
    points = 1
    for count in most:
        points *= min(size, count) + 1
    return points


def _by_size(most: Combination) -> list[Combination]:
    """All combinations, those first that use the smallest part of what fits alone."""
    whole = lcm(*(count for count in most if count))
    parts = [whole // count if count else 0 for count in most]
    return sorted(
        product(*(range(count + 1) for count in most)),
        key=lambda each: (sum(map(int.__mul__, parts, each)), each),
    )


def _is_within(smaller: Combination, larger: Combination) -> bool:
    return all(less <= more for less, more in zip(smaller, larger, strict=True))
