"""NUMA zones as amounts that add up, since the solver knows nodes and amounts, but no zones.

A pod whose kubelet insists on zones asks for one place of its kind; a node has as many places of a kind as
`ZoneRoom` is certain of. Where pods of several kinds are placed together, each also uses up the places of the
others that it may spoil, on every node that has any: so whatever part of them a node gets, in whatever order
and zones, all are taken. That is safe, and not exact: a node may be left out that would do. Pods of one kind
are counted exactly, as far as zones are known.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.limits import NUMA_SPOILT_MAX
from phalanx.model.nodes import Node, ZoneLayout
from phalanx.model.numa import spoils, zone_room
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

PLACE: Final = "NUMA place of "
"""Begins the names of the amounts of which each pod of a kind uses one."""

_COMMON: Final = "NUMA places of "
"""Begins the names of the amounts that pods of several kinds use up together."""

_PLENTY: Final = NUMA_SPOILT_MAX << 20


class ZoneLens(Struct, frozen=True):
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
        room = zone_room(node, free)
        found = dict(free)
        for kind in self.kinds:
            found[PLACE + kind] = _or_plenty(room.room(kind, self.kinds) if room else None)
            if self._is_mixed:
                found[_COMMON + kind] = _or_plenty(room.common(kind) if room else None)
        return found

    @property
    def _is_mixed(self) -> bool:
        return len(self.kinds) > 1

    def _cost(self, kind: str, by: str) -> int:
        """The most that it costs anywhere: what is asked for is the same for all nodes."""
        return max(spoils(layout, kind, by) for layout in self.layouts)


def zone_lens(session: Session, pods: Sequence[Pod]) -> ZoneLens | None:
    """None where no zone is asked for, or no node has any."""
    kinds = dict.fromkeys(pod.shape.numa for pod in pods if pod.shape.numa)
    return ZoneLens(tuple(kinds), session.zoned) if kinds and session.zoned else None


def is_place(resource: str) -> bool:
    """Whether the resource is one of those that are made here."""
    return resource.startswith((PLACE, _COMMON))


def _or_plenty(count: int | None) -> int:
    return _PLENTY if count is None else count
