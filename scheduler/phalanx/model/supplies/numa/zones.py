"""NUMA zones: pods that a kubelet admits only if one zone of the node has enough free.

A kubelet whose topology manager has the policy single-numa-node admits a pod (scope pod), or each of its
containers (scope container), only if one zone has free all that it aligns of it. Otherwise the pod fails with
TopologyAffinityError. It aligns devices, and for Guaranteed pods also whole cores, memory and huge pages, as
far as zones list them. The policy restricted does the same for requests that fit one zone of the empty node.
A larger request may span several zones and is checked only against the amounts of the whole node.

The kubelet chooses the zone of a pod. The choice is not published in time, and pods may arrive in any order.
The counts here therefore hold for every choice: as many pods as `ZoneCapacity` says find zones, whatever
zones the others use. For pods of one size this is exact: the number that fits into each zone, summed. A pod
of another size is counted as the largest number of them that it could displace in any zone.

What running pods leave free is the maximum of three lower bounds:

- allocatable, less what each running pod could displace;
- allocatable, less the sum of all running pods in every zone;
- the published `available`, less, in every zone, what running pods use beyond what is published as used.

The first two are certain if zones, pods and requests are as the API shows them. The third assumes that the
published usage is that of the pods which run now. This is inexact while pods end and others of the same sum
start in other zones before the exporter publishes again. The kubelet may then reject a pod, which is handled
like any other rejection. Init containers are counted in addition to the others, although they run before
them.

A request that must be in one zone is represented as a resource of its own, of which a pod has one and no node
offers any. Code that counts used and free resources therefore counts it without special cases. It has two
names: one for a running pod, and one for a pod to which the kubelet may still have to assign a zone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.limits import NUMA_CACHE_ENTRIES_MAX, NUMA_DISPLACED_MAX
from phalanx.model.nodes import Amounts, Node, Numa, ZoneLayout
from phalanx.model.resources import Resources, add, scale, subtract

_RUNNING: Final = "numa["
_COMING: Final = "numa?["

Sizes = tuple[tuple[Amounts, int], ...]
"""Amounts that must each find one zone, and how often."""


class NumaRequest(Struct, frozen=True, array_like=True):
    """What a kubelet aligns of a pod: the sum, and per container, with equal containers counted."""

    pod: Amounts
    containers: Sizes


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(NumaRequest).decode


def numa_resource(aligned: NumaRequest) -> str:
    """The resource name for a pod that has no zone yet. It has no slash, as the names of devices."""
    return f"{_COMING}{_encode(aligned).decode().replace('/', ':')}]"


def is_numa_resource(resource: str) -> bool:
    """Whether the resource represents a request that must be in one zone."""
    return resource.startswith((_RUNNING, _COMING))


def as_running_resource(name: str) -> str:
    """The name for a running pod."""
    return _RUNNING + name.removeprefix(_COMING)


def numa_request(name: str) -> NumaRequest:
    """The request that a name of either form represents."""
    return _parsed(name.removeprefix(_RUNNING).removeprefix(_COMING))


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _parsed(text: str) -> NumaRequest:
    return _decode(text.removesuffix("]").replace(":", "/"))


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def zone_requests(layout: ZoneLayout, name: str) -> Sizes:
    """The amounts of a pod that must each find one zone on a node with these zones; empty if none must."""
    limits = dict(layout.bound)
    counts: dict[Amounts, int] = {}
    for amounts, count in _whole(layout, name):
        size = tuple([(each, amount) for each, amount in amounts if amount <= limits.get(each, 0)])
        if size:
            counts[size] = counts.get(size, 0) + count
    return tuple(counts.items())


def largest_zone_request(layout: ZoneLayout, name: str) -> Resources:
    """What one zone must offer for a pod: its request, or that of its largest container by scope
    container."""
    sizes = [size for size, _ in zone_requests(layout, name)]
    return dict(max(sizes, key=lambda size: (sum(n for each, n in size if "/" in each), size), default=()))


def capacity_when_empty(layout: ZoneLayout, name: str) -> int | None:
    """How many pods of this kind find zones on the empty node; None for no bound."""
    sizes = zone_requests(layout, name)
    return _max_certain([dict(zone) for zone in layout.zones], sizes, _plain(sizes)) if sizes else None


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def displaced(layout: ZoneLayout, name: str, by: str, *, enlarged: bool = True) -> int:
    """Upper bound on how many pods of one kind a pod of another kind displaces, by one measure.

    A pod of the same kind displaces one. A pod that may span zones displaces all.
    """
    sizes = zone_requests(layout, name)
    if not sizes or name == by:
        return 1 if sizes else 0
    spanning = _spanning(layout, by)
    if any(each in spanning for size, _ in sizes for each, _ in size):
        return NUMA_DISPLACED_MAX
    zones = [dict(zone) for zone in layout.zones]
    measured = _measured(layout, name) if enlarged else _plain(sizes)
    return _max_displaced(zones, measured, sizes, zone_requests(layout, by))


def zone_capacity(node: Node, free: Resources) -> "ZoneCapacity | None":
    """Free capacity in the zones of a node; None if its kubelet rejects no pods because of zones."""
    return ZoneCapacity(node.numa, free) if node.numa is not None else None


class ZoneCapacity:
    """Free capacity in the zones of a node. `free` are the free amounts of the node.

    Two measures count how many pods fit. One uses the request. The other uses the request enlarged as far as
    it fits into empty zones equally often; with it, other pods displace fewer if their resource is not the
    scarce one.
    """

    def __init__(self, numa: Numa, free: Resources) -> None:
        self._numa = numa
        self._layout = numa.layout
        held = {name: -amount for name, amount in free.items() if is_numa_resource(name) and amount < 0}
        self._running = {
            _COMING + name.removeprefix(_RUNNING): count
            for name, count in held.items()
            if name.startswith(_RUNNING)
        }
        self.pending: Mapping[str, int] = {
            name: count for name, count in held.items() if name.startswith(_COMING)
        }
        self._left: dict[tuple[str, bool], int | None] = {}

    def max_additional(self, name: str, kinds: Collection[str]) -> int | None:
        """How many pods of one kind can be added; for several kinds, as far as each kind alone is limited.

        Pods that have no zone yet still find one, whichever of these pods are added. None: no bound.
        """
        measures = (True,) if len(kinds) > 1 else (True, False)
        counts = [left for each in measures if (left := self._count(name, enlarged=each)) is not None]
        limits = [max(counts)] if counts else []
        beside = self._beside(name, kinds)
        limits += [beside] if beside is not None else []
        return max(0, min(limits)) if limits else None

    def max_displaced(self, name: str) -> int | None:
        """How many pods of this kind may be displaced by all added pods together; None: no bound."""
        left = self._count(name, enlarged=True)
        if left is None or (left <= 0 and name not in self.pending):
            return None
        return max(0, left)

    def fits(self, added: Mapping[str, int]) -> bool:
        """Whether all of these, and all pods without a zone yet, find zones for every choice of the
        kubelet."""
        return all(
            any(self._leaves(name, added, enlarged=each) for each in (True, False))
            for name in dict.fromkeys((*added, *self.pending))
        )

    def keeps_zone(self, name: str) -> bool:
        """Whether a pod of this kind without a zone yet still finds one for every choice of the kubelet."""
        counts = [self._count(name, enlarged=each) for each in (True, False)]
        return any(left is None or left >= 0 for left in counts)

    def _leaves(self, name: str, added: Mapping[str, int], *, enlarged: bool) -> bool:
        """Whether each pod of a kind, added or without a zone yet, finds a zone next to these, by one
        measure."""
        left = self._count(name, enlarged=enlarged)
        costs = {each: displaced(self._layout, name, each, enlarged=enlarged) for each in added}
        cost = sum(count * costs[each] for each, count in added.items())
        return left is None or not cost or cost <= max(0, left)

    def _beside(self, name: str, kinds: Collection[str]) -> int | None:
        """How many of a kind can be added next to pods without a zone yet that are of other kinds."""
        limits = []
        for other in self.pending:
            if other not in kinds:
                enlarged = (self._count(other, enlarged=True) or 0) > 0
                left = self._count(other, enlarged=enlarged)
                costs = {kind: displaced(self._layout, other, kind, enlarged=enlarged) for kind in kinds}
                if left is not None and costs[name]:
                    limits.append(max(0, left) // (costs[name] * sum(map(bool, costs.values()))))
        return min(limits, default=None)

    def _count(self, name: str, *, enlarged: bool) -> int | None:
        """How many more pods of a kind are certain to find zones, next to pods without a zone yet, by one
        measure.

        Negative if not even the pods without a zone yet are certain to find one. None: they need no zone
        here.
        """
        key = (name, enlarged)
        if key not in self._left:
            self._left[key] = self._counted(name, enlarged=enlarged)
        return self._left[key]

    def _counted(self, name: str, *, enlarged: bool) -> int | None:
        sizes = zone_requests(self._layout, name)
        if not sizes:
            return None
        measured = _measured(self._layout, name) if enlarged else _plain(sizes)

        def displaced_by(counts: Mapping[str, int]) -> int:
            costs = {each: displaced(self._layout, name, each, enlarged=enlarged) for each in counts}
            return sum(count * costs[each] for each, count in counts.items())

        best = _max_certain(self._offered, sizes, measured) - displaced_by(self._running)
        for zones in self._estimates:
            best = max(best, _max_certain(zones, sizes, measured))
        return best - displaced_by(self.pending)

    @cached_property
    def _offered(self) -> list[Resources]:
        return [dict(zone) for zone in self._layout.zones]

    @cached_property
    def _estimates(self) -> list[list[Resources]]:
        """Lower bounds of the free amounts per zone, after the usage of running pods."""
        if not self._running:
            return []
        in_each = _sum(
            (size, count * each)
            for name, count in self._running.items()
            for size, each in _whole(self._layout, name)
        )
        used = _sum((numa_request(name).pod, count) for name, count in self._running.items())
        published = dict(self._numa.published)
        beyond = {each: max(0, amount - published.get(each, 0)) for each, amount in used.items()}
        return [
            [subtract(zone, in_each) for zone in self._offered],
            [subtract(dict(zone), beyond) for zone in self._numa.available],
        ]


def _spanning(layout: ZoneLayout, name: str) -> frozenset[str]:
    limits = dict(layout.bound)
    whole = _whole(layout, name)
    return frozenset(each for size, _ in whole for each, n in size if n > limits.get(each, n))


def _whole(layout: ZoneLayout, name: str) -> Sizes:
    aligned = numa_request(name)
    return aligned.containers if layout.by_container else ((aligned.pod, 1),)


def _plain(sizes: Sizes) -> tuple[Amounts, ...]:
    return tuple(size for size, _ in sizes)


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _measured(layout: ZoneLayout, name: str) -> tuple[Amounts, ...]:
    """Each size of a kind, enlarged as far as it fits into each empty zone equally often."""
    return tuple(_enlarged(layout, size) for size, _ in zone_requests(layout, name))


def _enlarged(layout: ZoneLayout, size: Amounts) -> Amounts:
    zones = [dict(zone) for zone in layout.zones]
    counts = [_places([zone], size) for zone in zones]
    if not any(counts):
        return size
    pairs = [(zone, count) for zone, count in zip(zones, counts, strict=True) if count]
    return tuple((name, min(zone[name] // count for zone, count in pairs)) for name, _ in size)


def _sum(parts: Iterable[tuple[Amounts, int]]) -> Resources:
    total: Resources = {}
    for amounts, count in parts:
        total = add(total, scale(dict(amounts), count))
    return total


def _places(zones: Sequence[Resources], size: Amounts) -> int:
    """How often this size fits into each zone, summed."""
    return sum(max(0, min(zone.get(name, 0) // need for name, need in size)) for zone in zones)


def _max_displaced(zones: Sequence[Resources], measured: Sequence[Amounts], sizes: Sizes, by: Sizes) -> int:
    """How many times these sizes together may no longer fit, whatever zones the others use."""
    most = 0
    for measure, (_, each) in zip(measured, sizes, strict=True):
        cost = sum(count * _max_displaced_by_one(zones, measure, other) for other, count in by)
        most = max(most, -(-cost // each))
    return min(most, NUMA_DISPLACED_MAX)


def _max_displaced_by_one(zones: Sequence[Resources], measure: Amounts, other: Amounts) -> int:
    """Use of q of a resource displaces at most ceil(q/p) pods that request p, all of them in one zone."""
    needs = dict(measure)
    cost = max((-(-amount // needs[name]) for name, amount in other if name in needs), default=0)
    return min(cost, max((_places([zone], measure) for zone in zones), default=0)) if cost else 0


def _max_certain(zones: Sequence[Resources], sizes: Sizes, measured: Sequence[Amounts]) -> int:
    """How many pods of these sizes are certain to find zones, whatever zones each size uses.

    Exact for one size that is not enlarged. At NUMA_DISPLACED_MAX and above, all pods count as displaced.
    """
    counts = (_max_certain_of_size(zones, index, sizes, measure) for index, measure in enumerate(measured))
    return min(NUMA_DISPLACED_MAX - 1, *counts)


def _max_certain_of_size(zones: Sequence[Resources], index: int, sizes: Sizes, measure: Amounts) -> int:
    """For how many pods one of their sizes finds zones, whatever zones the others use.

    Either each of the others counts as what it may displace, or the sum of all others is subtracted in every
    zone.
    """
    each = sizes[index][1]
    others = [one for place, one in enumerate(sizes) if place != index]
    places = _places(zones, measure)
    displaced_by = sum(count * _max_displaced_by_one(zones, measure, other) for other, count in others)
    least, most = places // (each + displaced_by), places // each
    beside = _sum(others)
    while least < most:
        middle = (least + most + 1) // 2
        left = [subtract(zone, scale(beside, middle)) for zone in zones]
        if _places(left, measure) >= middle * each:
            least = middle
        else:
            most = middle - 1
    return least
