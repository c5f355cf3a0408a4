"""NUMA zones as amounts that add up, since the solver knows nodes and amounts, but no zones.

A pod whose kubelet insists on zones asks for one place of its kind; a node has as many places of a kind as
`ZoneCapacity` is certain of. Where pods of several kinds are placed together, each also uses up the places
of the
others that it may spoil, on every node that has any: so whatever part of them a node gets, in whatever order
and zones, all are taken. That is safe, and not exact: a node may be left out that would do. Pods of one kind
are counted exactly, as far as zones are known.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.limits import NUMA_CACHE_ENTRIES_MAX, NUMA_DISPLACED_MAX
from phalanx.model.nodes import Node, Numa, ZoneLayout
from phalanx.model.numa import ZoneCapacity, displaced, is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

PLACE: Final = "NUMA place of "
"""Begins the names of the amounts of which each pod of a kind uses one."""

_COMMON: Final = "NUMA places of "
"""Begins the names of the amounts that pods of several kinds use up together."""

_PLENTY: Final = NUMA_DISPLACED_MAX << 20


class ZoneProjection(Struct, frozen=True):
    """`kinds`: what the pods are to kubelets with zones. `layouts`: how zones are laid out on some node."""

    kinds: tuple[str, ...]
    layouts: tuple[ZoneLayout, ...]

    def request(self, pod: Pod) -> Resources:
        """What a pod asks for of zones."""
        kind = pod.shape.numa
        if not kind:
            return {}
        costs = {_COMMON + each: self._cost(each, kind) for each in self.kinds} if self._is_mixed else {}
        return {PLACE + kind: 1, **{name: cost for name, cost in costs.items() if cost}}

    def free(self, node: Node, free: Resources) -> Resources:
        """What is free on a node, with what its zones have of each; plenty where that is no matter."""
        if node.numa is None:
            return {**free, **_plenty(self.kinds)}
        return {**free, **_places(node.numa, _held(free), self.kinds)}

    @property
    def _is_mixed(self) -> bool:
        return len(self.kinds) > 1

    def _cost(self, kind: str, by: str) -> int:
        """The most that it costs anywhere: what is asked for is the same for all nodes."""
        return max(displaced(layout, kind, by) for layout in self.layouts)


def zone_projection(session: Session, pods: Sequence[Pod]) -> ZoneProjection | None:
    """None where no zone is asked for, or no node has any."""
    kinds = dict.fromkeys(pod.shape.numa for pod in pods if pod.shape.numa)
    return ZoneProjection(tuple(kinds), session.facts.zoned) if kinds and session.facts.zoned else None


def is_place(resource: str) -> bool:
    """Whether the resource is one of those that are made here."""
    return resource.startswith((PLACE, _COMMON))


def places_left(node: Node, free: Resources, kind: str) -> int | None:
    """How many pods of one kind find NUMA zones on a node for certain; None where they need none."""
    if node.numa is None or not kind:
        return None
    count = _places(node.numa, _held(free), (kind,))[PLACE + kind]
    return None if count == _PLENTY else count


def _held(free: Resources) -> tuple[tuple[str, int], ...]:
    return tuple([(name, amount) for name, amount in free.items() if is_numa_resource(name) and amount])


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _places(numa: Numa, held: tuple[tuple[str, int], ...], kinds: tuple[str, ...]) -> Resources:
    """What zones have of each, beside what is held; nodes that are alike share the answer."""
    room = ZoneCapacity(numa, dict(held))
    own = {PLACE + kind: count for kind in kinds if (count := room.room(kind, kinds)) is not None}
    common = {_COMMON + kind: count for kind in kinds if (count := room.common(kind)) is not None}
    return {**_plenty(kinds), **own, **common}


def _plenty(kinds: tuple[str, ...]) -> Resources:
    """More of each than can be asked for."""
    return {name + kind: _PLENTY for kind in kinds for name in (PLACE, _COMMON)}
