"""NUMA zones: what a kubelet takes only when it finds one zone of the node for it.

A kubelet whose topology manager has the policy single-numa-node takes a pod (scope pod), or each of its
containers (scope container), only if one zone has free all that it aligns of it; else the pod fails with
TopologyAffinityError. It aligns devices, and of Guaranteed pods whole cores, memory and huge pages, as far as
zones list them. The policy restricted does the same for what fits one zone of the empty node; what is larger
than any zone may span several, and is not looked at here beyond the node's own amounts.

Which zone a pod gets is the kubelet's choice: nobody is told in time, and pods may arrive in any order. So
what is counted here holds for every choice: as many pods as `ZoneRoom` says find zones whatever zones the
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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.limits import NUMA_KINDS_KEPT, NUMA_SPOILT_MAX
from phalanx.model.nodes import Amounts, Node, Numa
from phalanx.model.resources import Resources, add, scale, subtract

_RUNNING: Final = "numa["
_COMING: Final = "numa?["

Sizes = tuple[tuple[Amounts, int], ...]
"""What must each find one zone, and how many times."""


class Aligned(Struct, frozen=True, array_like=True):
    """What a kubelet aligns of a pod: in sum, and per container, equal ones counted."""

    pod: Amounts
    containers: Sizes


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Aligned).decode


def aligned_name(aligned: Aligned) -> str:
    """The name as a resource, of a pod that has no zone yet; it has no slash, as names of devices do."""
    return f"{_COMING}{_encode(aligned).decode().replace('/', ':')}]"


def is_aligned(resource: str) -> bool:
    """Whether the resource stands for what must lie in one zone."""
    return resource.startswith((_RUNNING, _COMING))


def as_running(name: str) -> str:
    """The name for a pod that runs."""
    return _RUNNING + name.removeprefix(_COMING)


def aligned_of(name: str) -> Aligned:
    """What a name of either form stands for."""
    return _parsed(name.removeprefix(_RUNNING).removeprefix(_COMING))


@lru_cache(maxsize=NUMA_KINDS_KEPT)
def _parsed(text: str) -> Aligned:
    return _decode(text.removesuffix("]").replace(":", "/"))


def sizes_on(numa: Numa, name: str) -> Sizes:
    """What of a pod must find one zone each on a node with these zones; empty where nothing must."""
    return _sizes(numa.bound, numa.by_container, name)


def largest_on(numa: Numa, name: str) -> Resources:
    """What one zone must have for a pod: of its containers, where each needs one, for the largest."""
    sizes = [size for size, _ in sizes_on(numa, name)]
    return dict(max(sizes, key=lambda size: (sum(n for each, n in size if "/" in each), size), default=()))


def most_when_empty(numa: Numa, name: str) -> int | None:
    """How many pods of this kind find zones on the node when nothing runs there; None: any number."""
    sizes = sizes_on(numa, name)
    return _most([dict(zone.allocatable) for zone in numa.zones], sizes) if sizes else None


def may_span(numa: Numa, name: str) -> bool:
    """Whether the kubelet lets part of the pod span several zones, as it does where none could hold it."""
    return bool(_spanning(numa.bound, numa.by_container, name))


@lru_cache(maxsize=NUMA_KINDS_KEPT)
def spoils(name: str, by: str) -> int:
    """How many pods of a kind one of another kind costs at most, on any node where that may not span zones.

    Of its own kind it costs one.
    """
    if name == by:
        return 1
    one, other = aligned_of(name), aligned_of(by)
    whole = _spoilt(((one.pod, 1),), ((other.pod, 1),))
    return max(whole, _spoilt(one.containers, other.containers))


def zone_room(node: Node, free: Resources) -> "ZoneRoom | None":
    """What is left of the zones of a node; None for one whose kubelet rejects nothing for its zones."""
    return ZoneRoom(node.numa, free) if node.numa is not None else None


class ZoneRoom:
    """What is left of the zones of a node. `free` is what is free on it now, by the node's ledger."""

    def __init__(self, numa: Numa, free: Resources) -> None:
        self._numa = numa
        held = {name: -amount for name, amount in free.items() if is_aligned(name) and amount < 0}
        self._running = {
            _COMING + name.removeprefix(_RUNNING): count
            for name, count in held.items()
            if name.startswith(_RUNNING)
        }
        self.coming: Mapping[str, int] = {
            name: count for name, count in held.items() if name.startswith(_COMING)
        }
        self._left: dict[str, int | None] = {}

    def left(self, name: str) -> int | None:
        """How many more pods of this kind find zones for certain, less what is coming could spoil.

        Negative where not even all that is coming is certain of a zone. None: they need no zone here.
        """
        if name not in self._left:
            self._left[name] = self._count(name)
        return self._left[name]

    def room(self, name: str, kinds: Iterable[str]) -> int | None:
        """How many pods of one kind can be added; of several kinds, as far as that is each one's own affair.

        They leave what is coming its zones, whatever part of these kinds are added together.
        """
        least = self.left(name)
        if least is None:
            return self._beside(name, kinds)
        beside = self._beside(name, kinds)
        return max(0, least if beside is None else min(least, beside))

    def common(self, name: str) -> int | None:
        """How many places for this kind pods of all kinds may spoil together; None: any number."""
        left = self.left(name)
        if left is None or (left <= 0 and name not in self.coming):
            return None
        return max(0, left)

    def takes(self, added: Mapping[str, int]) -> bool:
        """Whether all of these, and all that is coming, find zones whatever the kubelet does."""
        for name in dict.fromkeys((*added, *self.coming)):
            left = self.left(name)
            cost = sum(count * self._cost(name, each) for each, count in added.items())
            if left is not None and cost and cost > max(0, left):
                return False
        return True

    def holds(self, name: str) -> bool:
        """Whether a pod of this kind that is coming still finds a zone, whatever the kubelet does."""
        left = self.left(name)
        return left is None or left >= 0

    def _beside(self, name: str, kinds: Iterable[str]) -> int | None:
        """How many of a kind leave those their zones that are coming and of no such kind."""
        least: int | None = None
        kinds = tuple(kinds)
        for other in self.coming:
            cost, left = self._cost(other, name), self.left(other)
            if cost and left is not None and other not in kinds:
                sharing = sum(1 for kind in kinds if self._cost(other, kind))
                count = max(0, left) // (cost * sharing)
                least = count if least is None else min(least, count)
        return least

    def _count(self, name: str) -> int | None:
        sizes = sizes_on(self._numa, name)
        if not sizes:
            return None
        spoilt = sum(count * self._cost(name, other) for other, count in self._running.items())
        best = max(_most(zones, sizes) - debit for zones, debit in self._estimates(spoilt))
        return best - sum(count * self._cost(name, other) for other, count in self.coming.items())

    def _estimates(self, spoilt: int) -> Iterator[tuple[list[Resources], int]]:
        """Zones as they may be, none better than they are, and how many places they have less than that."""
        allocatable = [dict(zone.allocatable) for zone in self._numa.zones]
        yield [*allocatable], spoilt
        if not self._running:
            return
        sums = _sum(
            (size, count * each)
            for name, count in self._running.items()
            for size, each in _whole(self._numa.by_container, name)
        )
        yield [subtract(zone, sums) for zone in allocatable], 0
        used = _sum((aligned_of(name).pod, count) for name, count in self._running.items())
        published = [dict(zone.available) for zone in self._numa.zones]
        unpublished = {
            each: max(0, amount - _published(self._numa, each)) for each, amount in used.items() if amount
        }
        yield [subtract(zone, unpublished) for zone in published], 0

    def _cost(self, name: str, by: str) -> int:
        return _cost(self._numa.bound, self._numa.by_container, name, by)


@lru_cache(maxsize=NUMA_KINDS_KEPT)
def _cost(bound: Amounts, by_container: bool, name: str, by: str) -> int:
    """How many pods of a kind one of another kind costs at most on a node with such zones."""
    sizes = _sizes(bound, by_container, name)
    if not sizes or name == by:
        return 1 if sizes else 0
    spanning = _spanning(bound, by_container, by)
    if any(each in spanning for size, _ in sizes for each, _ in size):
        return NUMA_SPOILT_MAX
    return _spoilt(sizes, _sizes(bound, by_container, by))


@lru_cache(maxsize=NUMA_KINDS_KEPT)
def _sizes(bound: Amounts, by_container: bool, name: str) -> Sizes:
    limits = dict(bound)
    counts: dict[Amounts, int] = {}
    for amounts, count in _whole(by_container, name):
        size = tuple([(each, amount) for each, amount in amounts if amount <= limits.get(each, 0)])
        if size:
            counts[size] = counts.get(size, 0) + count
    return tuple(counts.items())


def _spanning(bound: Amounts, by_container: bool, name: str) -> frozenset[str]:
    limits = dict(bound)
    whole = _whole(by_container, name)
    return frozenset(each for size, _ in whole for each, n in size if n > limits.get(each, n))


def _whole(by_container: bool, name: str) -> Sizes:
    aligned = aligned_of(name)
    return aligned.containers if by_container else ((aligned.pod, 1),)


def _published(numa: Numa, resource: str) -> int:
    """How much of a resource is published as used, in all zones together."""
    total = 0
    for zone in numa.zones:
        available = dict(zone.available)
        total += dict(zone.allocatable).get(resource, 0) - available.get(resource, 0)
    return total


def _sum(parts: Iterable[tuple[Amounts, int]]) -> Resources:
    total: Resources = {}
    for amounts, count in parts:
        total = add(total, scale(dict(amounts), count))
    return total


def _places(zones: Sequence[Resources], size: Amounts) -> int:
    """How often this goes into each zone, added up."""
    return sum(max(0, min(zone.get(name, 0) // need for name, need in size)) for zone in zones)


def _spoilt(sizes: Sizes, by: Sizes) -> int:
    """How many times these sizes, all of them together, may no longer fit when the others lie anywhere.

    What takes q of a resource costs a size p at most q/p places, rounded up, in the zone where it lies.
    """
    most = 0
    for size, each in sizes:
        needs = dict(size)
        cost = sum(count * _one_spoils(needs, other) for other, count in by)
        most = max(most, -(-cost // each))
    return min(most, NUMA_SPOILT_MAX)


def _one_spoils(needs: Resources, other: Amounts) -> int:
    return max((-(-amount // needs[name]) for name, amount in other if name in needs), default=0)


def _most(zones: Sequence[Resources], sizes: Sizes) -> int:
    """How many pods of these sizes find zones for certain, wherever each size lies; exact for one size.

    Less than NUMA_SPOILT_MAX, so that what spoils so many spoils all.
    """
    return min(NUMA_SPOILT_MAX - 1, *(_most_of(zones, index, sizes) for index in range(len(sizes))))


def _most_of(zones: Sequence[Resources], index: int, sizes: Sizes) -> int:
    """For how many pods one of their sizes finds zones, wherever the others lie.

    Either each of the others costs what it may spoil, or the sum of all others is missing in every zone.
    """
    size, each = sizes[index]
    others = [one for place, one in enumerate(sizes) if place != index]
    places = _places(zones, size)
    spoilt = sum(count * _one_spoils(dict(size), other) for other, count in others)
    least, most = places // (each + spoilt), places // each
    beside = _sum(others)
    while least < most:
        middle = (least + most + 1) // 2
        left = [subtract(zone, scale(beside, middle)) for zone in zones]
        if _places(left, size) >= middle * each:
            least = middle
        else:
            most = middle - 1
    return least
