"""NUMA zones as a supply: slots for pods, of which a node offers as many as `ZoneCapacity` guarantees.

A pod that must be in one zone needs one slot of its kind. If pods of several kinds are placed together, each
also uses the slots of other kinds that it may displace, on any node. That is safe but not exact: the
projection may exclude a feasible node. Pods of one kind are counted exactly, as far as zones are known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from phalanx.limits import NUMA_CACHE_ENTRIES_MAX, NUMA_DISPLACED_MAX
from phalanx.model import named_parts
from phalanx.model.nodes import Node, NodeState, Numa, ZoneLayout
from phalanx.model.pods import Device, Pod, PodPhase, PodShape
from phalanx.model.resources import NONE, Need, Resources, add, fits, format_amounts, how_many_fit, subtract
from phalanx.model.supplies.numa.zones import (
    ZoneCapacity,
    as_running_resource,
    displaced,
    is_numa_resource,
    largest_zone_request,
    zone_capacity,
)
from phalanx.model.supplies.supply import NO_PARTS, OpenSupply, Parts, PartsLacking, Supply

_SLOT: Final = "NUMA slot of "
"""The prefix of the amounts of which each pod of a kind uses one."""

_COMMON: Final = "NUMA slots of "
"""The prefix of the amounts that pods of several kinds use together."""

_PLENTY: Final = NUMA_DISPLACED_MAX << 20


class NumaZones(Supply):
    """The zones of nodes."""

    name = "numa"
    prefixes = ("numa?", "NUMA")
    is_chosen_by_kubelet = True

    def offered(self, resource: str) -> int:
        """More than pods can use: slots say what a node has."""
        return _PLENTY if is_numa_resource(resource) else 0

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "2 NUMA slots"."""
        return f"{number} NUMA slot{'' if number == 1 else 's'}"

    def need(self, shape: PodShape) -> Need | None:
        """One of the resource that stands for what must be in one zone."""
        return (shape.numa, 1) if shape.numa else None

    def is_foreseen(self, resource: str, node: Node) -> bool:
        """The kubelet chooses the zones."""
        return node.numa is None

    def usage(self, shape: PodShape, part: Device | None, *, runs: bool) -> Resources:
        """One of its kind. It has another name once the kubelet has chosen a zone."""
        return {as_running_resource(shape.numa) if runs else shape.numa: 1} if shape.numa else NONE

    def is_safety(self, resource: str) -> bool:
        """Slots of several kinds are counted for certain, not exactly."""
        return resource.startswith(_COMMON)

    def open(self, nodes: Sequence[Node]) -> "OpenZones | None":
        """The layouts of the zones, each once."""
        layouts = dict.fromkeys([node.numa.layout for node in nodes if node.numa is not None])
        return OpenZones(self, tuple(layouts)) if layouts else None

    def objection(self, pod: Pod, state: NodeState, beside: Callable[[], Iterable[Pod]]) -> str | None:
        """Running pods of the same placement count as assumed, because the published zones lag behind."""
        kind, free = pod.shape.numa, state.free
        if not kind or state.node.numa is None:
            return None
        for other in beside():
            if other.holds_node and other.shape.numa:
                held = other.shape.numa
                if other.phase is not PodPhase.PENDING:
                    free = subtract(add(free, {as_running_resource(held): 1}), {held: 1})
        if ZoneCapacity(state.node.numa, free).keeps_zone(kind):
            return None
        return f"{named_parts.node(state.node.name, titled=True)} may have no NUMA zone for pod {pod}"


class OpenZones(OpenSupply):
    """The zones of the nodes of a session."""

    is_exact = False
    unit = "NUMA zones"

    def __init__(self, supply: NumaZones, layouts: tuple[ZoneLayout, ...]) -> None:
        super().__init__(supply)
        self._layouts = layouts

    def project(self, shapes: Sequence[PodShape]) -> "ZoneProjection":
        """Slots of each kind of these pods."""
        kinds = dict.fromkeys([shape.numa for shape in shapes if shape.numa])
        return ZoneProjection(tuple(kinds), self._layouts)

    def take(self, state: NodeState, free: Resources, pods: Sequence[Pod], parts: Parts) -> Parts:
        """The kubelet chooses the zones, so no certain parts. Each pod finds one, whatever it chooses."""
        zones, node = zone_capacity(state.node, free), state.node.name
        if zones is not None and not zones.fits(Counter([pod.shape.numa for pod in pods])):
            raise PartsLacking(f"the NUMA zones of node {node} have no capacity for {len(pods)} pods")
        return NO_PARTS

    def lacking(self, shape: PodShape, state: NodeState, free: Resources) -> str | None:
        """Such as "no NUMA zone with 8 nvidia.com/gpu together free"."""
        if _slots_left(shape.numa, state.node, free) != 0 or not fits(shape.requests, free):
            return None
        numa = state.node.numa
        amounts = largest_zone_request(numa.layout, shape.numa) if numa is not None else {}
        return f"no NUMA zone with {format_amounts(amounts or shape.requests)} free"

    def is_fragmented(self, shape: PodShape, state: NodeState, free: Resources) -> bool:
        """Whether zones have fewer slots than the amounts of the node allow."""
        left = _slots_left(shape.numa, state.node, free)
        return left is not None and left < (how_many_fit(shape.requests, free) or 0)


class ZoneProjection(Struct, frozen=True):
    """The projection of NUMA zones."""

    kinds: tuple[str, ...]
    """The distinct NUMA requests of the pods."""

    layouts: tuple[ZoneLayout, ...]
    """The zone layouts of all nodes."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with NUMA slots."""
        kind = pod.shape.numa
        if not kind:
            return requests
        costs = {_COMMON + other: self._cost(other, kind) for other in self.kinds if len(self.kinds) > 1}
        return {**requests, _SLOT + kind: 1, **{name: cost for name, cost in costs.items() if cost}}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """The free amounts of the node with its NUMA slots; practically unlimited if it has no zones."""
        numa = state.node.numa
        return {**free, **(_plenty(self.kinds) if numa is None else _slots(numa, _held(free), self.kinds))}

    def _cost(self, kind: str, by: str) -> int:
        """The largest number of displaced slots on any node, since requests are equal for all nodes."""
        return max(displaced(layout, kind, by) for layout in self.layouts)


def _slots_left(kind: str, node: Node, free: Resources) -> int | None:
    """The guaranteed number of pods of one kind that fit the NUMA zones; None if they need none."""
    if node.numa is None:
        return None
    count = _slots(node.numa, _held(free), (kind,))[_SLOT + kind]
    return None if count == _PLENTY else count


def _held(free: Resources) -> tuple[tuple[str, int], ...]:
    return tuple([(name, amount) for name, amount in free.items() if is_numa_resource(name) and amount])


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _slots(numa: Numa, held: tuple[tuple[str, int], ...], kinds: tuple[str, ...]) -> Resources:
    """The slots of each kind beside what is held; equal nodes share the result."""
    capacity = ZoneCapacity(numa, dict(held))
    own = {
        _SLOT + kind: count for kind in kinds if (count := capacity.max_additional(kind, kinds)) is not None
    }
    common = {_COMMON + kind: count for kind in kinds if (count := capacity.max_displaced(kind)) is not None}
    return {**_plenty(kinds), **own, **common}


def _plenty(kinds: tuple[str, ...]) -> Resources:
    """More slots of each kind than pods can request."""
    return {name + kind: _PLENTY for kind in kinds for name in (_SLOT, _COMMON)}


NUMA_ZONES: Final = NumaZones()
