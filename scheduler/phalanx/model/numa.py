"""NUMA zones: what a kubelet takes only when it finds one zone of the node for it.

A kubelet whose topology manager has the policy single-numa-node takes a pod (scope pod), or each of its
containers (scope container), only if one zone has free all that it aligns of it; else the pod fails with
TopologyAffinityError. It aligns devices, and of Guaranteed pods whole cores, memory and huge pages, as far as
zones list them. The policy restricted does the same for what fits one zone of the empty node; what is larger
than any zone may span several, and is not looked at here beyond the node's own amounts.

Which zone a pod gets is the kubelet's choice: nobody is told in time, and pods may arrive in any order. So
what is counted here holds for every choice: as many pods as `ZoneCapacity` says find zones whatever zones the
others took. Of pods of one size that is exact: as many as go into each zone, added up. A pod of another
size costs as many of them as it could spoil at most, wherever it lies.

What running pods left is the most of three estimates, each no more than the truth:

- allocatable, less what each running pod could spoil;
- allocatable, less the sum of all running pods in every zone;
- the published `available`, less, in every zone, what running pods use beyond what is published as used.

The first two are certain if zones, pods and requests are as the API says. The third trusts that as much use
as is published is that of the pods which run now. That is inexact while pods end and others of the same sum
start in other zones before the exporter publishes again: then a kubelet may reject a pod, which is learned
like any other rejection. Init containers count beside the others, not as their forerunners.

What must lie in one zone travels as a resource of its own, of which a pod has one and no node offers any:
so whatever counts what is held and free counts it too. It has two names, for a pod that runs, and for one
that its kubelet may still have to find a zone for.
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
"""What must each find one zone, and how many times."""


class NumaRequest(Struct, frozen=True, array_like=True):
    """What a kubelet aligns of a pod: in sum, and per container, equal ones counted."""

    pod: Amounts
    containers: Sizes


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(NumaRequest).decode


def numa_resource(aligned: NumaRequest) -> str:
    """The name as a resource, of a pod that has no zone yet; it has no slash, as names of devices do."""
    return f"{_COMING}{_encode(aligned).decode().replace('/', ':')}]"


def is_numa_resource(resource: str) -> bool:
    """Whether the resource stands for what must lie in one zone."""
    return resource.startswith((_RUNNING, _COMING))


def as_running_resource(name: str) -> str:
    """The name for a pod that runs."""
    return _RUNNING + name.removeprefix(_COMING)


def numa_request(name: str) -> NumaRequest:
    """What a name of either form stands for."""
    return _parsed(name.removeprefix(_RUNNING).removeprefix(_COMING))


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _parsed(text: str) -> NumaRequest:
    return _decode(text.removesuffix("]").replace(":", "/"))


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def zone_requests(layout: ZoneLayout, name: str) -> Sizes:
    """What of a pod must find one zone each on a node with these zones; empty where nothing must."""
    limits = dict(layout.bound)
    counts: dict[Amounts, int] = {}
    for amounts, count in _whole(layout, name):
        size = tuple([(each, amount) for each, amount in amounts if amount <= limits.get(each, 0)])
        if size:
            counts[size] = counts.get(size, 0) + count
    return tuple(counts.items())


def largest_zone_request(layout: ZoneLayout, name: str) -> Resources:
    """What one zone must have for a pod: of its containers, where each needs one, for the largest."""
    sizes = [size for size, _ in zone_requests(layout, name)]
    return dict(max(sizes, key=lambda size: (sum(n for each, n in size if "/" in each), size), default=()))


def capacity_when_empty(layout: ZoneLayout, name: str) -> int | None:
    """How many pods of this kind find zones on the node when nothing runs there; None: any number."""
    sizes = zone_requests(layout, name)
    return _most([dict(zone) for zone in layout.zones], sizes, _plain(sizes)) if sizes else None


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def displaced(layout: ZoneLayout, name: str, by: str, *, stretched: bool = True) -> int:
    """How many pods of a kind one of another kind costs at most on a node with such zones, by one measure.

    Of its own kind it costs one. What may span zones costs all.
    """
    sizes = zone_requests(layout, name)
    if not sizes or name == by:
        return 1 if sizes else 0
    spanning = _spanning(layout, by)
    if any(each in spanning for size, _ in sizes for each, _ in size):
        return NUMA_DISPLACED_MAX
    zones = [dict(zone) for zone in layout.zones]
    measured = _measured(layout, name) if stretched else _plain(sizes)
    return _spoilt(zones, measured, sizes, zone_requests(layout, by))


def zone_capacity(node: Node, free: Resources) -> "ZoneCapacity | None":
    """What is left of the zones of a node; None for one whose kubelet rejects nothing for its zones."""
    return ZoneCapacity(node.numa, free) if node.numa is not None else None


class ZoneCapacity:
    """What is left of the zones of a node. `free` is what is free on it now, by the node's ledger.

    Two measures count places: one by what pods ask for, and one by that, stretched as far as it goes into
    empty zones as often. By the second others cost less where it is not their resource that runs short.
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
        """How many pods of one kind can be added; of several kinds, as far as that is each one's own affair.

        They leave what is coming its zones, whatever part of these is added together. None: any number.
        """
        measures = (True,) if len(kinds) > 1 else (True, False)
        counts = [left for each in measures if (left := self._count(name, stretched=each)) is not None]
        limits = [max(counts)] if counts else []
        beside = self._beside(name, kinds)
        limits += [beside] if beside is not None else []
        return max(0, min(limits)) if limits else None

    def max_displaced(self, name: str) -> int | None:
        """How many places for this kind pods of all kinds may spoil together; None: any number."""
        left = self._count(name, stretched=True)
        if left is None or (left <= 0 and name not in self.pending):
            return None
        return max(0, left)

    def fits(self, added: Mapping[str, int]) -> bool:
        """Whether all of these, and all that is coming, find zones whatever the kubelet does."""
        return all(
            any(self._leaves(name, added, stretched=each) for each in (True, False))
            for name in dict.fromkeys((*added, *self.pending))
        )

    def keeps_zone(self, name: str) -> bool:
        """Whether a pod of this kind that is coming still finds a zone, whatever the kubelet does."""
        counts = [self._count(name, stretched=each) for each in (True, False)]
        return any(left is None or left >= 0 for left in counts)

    def _leaves(self, name: str, added: Mapping[str, int], *, stretched: bool) -> bool:
        """Whether these leave each pod of a kind that is added or coming its zone, by one measure."""
        left = self._count(name, stretched=stretched)
        costs = {each: displaced(self._layout, name, each, stretched=stretched) for each in added}
        cost = sum(count * costs[each] for each, count in added.items())
        return left is None or not cost or cost <= max(0, left)

    def _beside(self, name: str, kinds: Collection[str]) -> int | None:
        """How many of a kind leave those their zones that are coming and of no such kind."""
        limits = []
        for other in self.pending:
            if other not in kinds:
                stretched = (self._count(other, stretched=True) or 0) > 0
                left = self._count(other, stretched=stretched)
                costs = {kind: displaced(self._layout, other, kind, stretched=stretched) for kind in kinds}
                if left is not None and costs[name]:
                    limits.append(max(0, left) // (costs[name] * sum(map(bool, costs.values()))))
        return min(limits, default=None)

    def _count(self, name: str, *, stretched: bool) -> int | None:
        """How many more pods of a kind find zones for certain, by one measure, beside what is coming.

        Negative where not even all that is coming is certain of a zone. None: they need no zone here.
        """
        key = (name, stretched)
        if key not in self._left:
            self._left[key] = self._counted(name, stretched=stretched)
        return self._left[key]

    def _counted(self, name: str, *, stretched: bool) -> int | None:
        sizes = zone_requests(self._layout, name)
        if not sizes:
            return None
        measured = _measured(self._layout, name) if stretched else _plain(sizes)

        def spoilt(counts: Mapping[str, int]) -> int:
            costs = {each: displaced(self._layout, name, each, stretched=stretched) for each in counts}
            return sum(count * costs[each] for each, count in counts.items())

        best = _most(self._offered, sizes, measured) - spoilt(self._running)
        for zones in self._estimates:
            best = max(best, _most(zones, sizes, measured))
        return best - spoilt(self.pending)

    @cached_property
    def _offered(self) -> list[Resources]:
        return [dict(zone) for zone in self._layout.zones]

    @cached_property
    def _estimates(self) -> list[list[Resources]]:
        """The zones as they may be, with what runs taken from them; none better than they are."""
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
    """Each size of a kind, stretched as far as it goes into each empty zone as often as before."""
    return tuple(_stretched(layout, size) for size, _ in zone_requests(layout, name))


def _stretched(layout: ZoneLayout, size: Amounts) -> Amounts:
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
    """How often this goes into each zone, added up."""
    return sum(max(0, min(zone.get(name, 0) // need for name, need in size)) for zone in zones)


def _spoilt(zones: Sequence[Resources], measured: Sequence[Amounts], sizes: Sizes, by: Sizes) -> int:
    """How many times these sizes, all of them together, may no longer fit when the others lie anywhere."""
    most = 0
    for measure, (_, each) in zip(measured, sizes, strict=True):
        cost = sum(count * _one_spoils(zones, measure, other) for other, count in by)
        most = max(most, -(-cost // each))
    return min(most, NUMA_DISPLACED_MAX)


def _one_spoils(zones: Sequence[Resources], measure: Amounts, other: Amounts) -> int:
    """What takes q of a resource costs at most q/p places that measure p, rounded up, all in one zone."""
    needs = dict(measure)
    cost = max((-(-amount // needs[name]) for name, amount in other if name in needs), default=0)
    return min(cost, max((_places([zone], measure) for zone in zones), default=0)) if cost else 0


def _most(zones: Sequence[Resources], sizes: Sizes, measured: Sequence[Amounts]) -> int:
    """How many pods of these sizes find zones for certain, wherever each size lies.

    Exact for one size that is not stretched. Less than NUMA_DISPLACED_MAX: what spoils so many spoils all.
    """
    counts = (_most_of(zones, index, sizes, measure) for index, measure in enumerate(measured))
    return min(NUMA_DISPLACED_MAX - 1, *counts)


def _most_of(zones: Sequence[Resources], index: int, sizes: Sizes, measure: Amounts) -> int:
    """For how many pods one of their sizes finds zones, wherever the others lie.

    Either each of the others costs what it may spoil, or the sum of all others is missing in every zone.
    """
    each = sizes[index][1]
    others = [one for place, one in enumerate(sizes) if place != index]
    places = _places(zones, measure)
    spoilt = sum(count * _one_spoils(zones, measure, other) for other, count in others)
    least, most = places // (each + spoilt), places // each
    beside = _sum(others)
    while least < most:
        middle = (least + most + 1) // 2
        left = [subtract(zone, scale(beside, middle)) for zone in zones]
        if _places(left, measure) >= middle * each:
            least = middle
        else:
            most = middle - 1
    return least
