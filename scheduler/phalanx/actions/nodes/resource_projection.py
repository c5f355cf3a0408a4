"""Shares of GPUs as amounts that add up, since the solver knows nodes and amounts, but no devices.

Pods that ask for one share fit on the devices of a node exactly as often as it goes into each of them: what
is free is that many times the share. Where shares differ and each is a multiple of the next smaller one, they
fit exactly when, for each size, the pods of this size and of larger ones use no more than all whole pieces of
this size that are left on the devices (see `dealt` for why that is enough). So there is one amount per size:
GPU_SHARE itself counts in pieces of the smallest.

Shares that do not go together are refused before they come here, but for the lost members of a gang for which
room is kept: each of those counts as the largest, which is never too little.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.limits import NUMA_CACHE_ENTRIES_MAX, NUMA_DISPLACED_MAX
from phalanx.model.gpu_shares import (
    GPU_SHARE,
    free_devices,
    incompatible_shares,
    requests_share,
    share_of,
    share_on_node,
)
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, Numa, ZoneLayout
from phalanx.model.numa import ZoneCapacity, displaced, is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

SHARE_UNITS: Final = f"{GPU_SHARE} in pieces of "
"""Begins the names of the amounts for larger sizes."""

LARGEST: Final = f"{GPU_SHARE} of any size"


class ShareProjection(Struct, frozen=True):
    """`shares`: all different requests for shares, smallest first. `mixed`: they do not go together."""

    shares: tuple[Resources, ...]
    mixed: bool

    def request(self, requests: Resources) -> Resources:
        """What a pod asks for, with the amounts that are made for shares."""
        if not requests_share(requests):
            return requests
        if self.mixed:
            return {**requests, LARGEST: 1}
        size = requests.get(GPU_SHARE, 0)
        return {**requests, **{_unit(each): size for each in self._larger if each <= size}}

    def free(self, session: Session, node: NodeName) -> Resources:
        """What is free on the node now, in amounts of which pods can use all."""
        state, free = session.nodes[node], session.free(node)
        devices = free_devices(state, free)
        sizes = [share_on_node(each, state.node.allocatable) for each in self.shares]
        if self.mixed:
            return {**free, LARGEST: _count(devices, max(sizes))}
        larger = {_unit(size): size * _count(devices, size) for size in self._larger}
        (name, least) = next(iter(self.shares[0].items()))
        pieces = min(_count(devices, sizes[0]), max(0, free.get(name, 0)) // least)
        return {**free, name: least * pieces, **larger}

    @property
    def _larger(self) -> list[int]:
        return [each[GPU_SHARE] for each in self.shares[1:]]


def share_projection(pods: Sequence[Pod]) -> ShareProjection | None:
    """None where nobody asks for a share."""
    asked = [pod.shape.requests for pod in pods]
    shares = sorted({share for each in asked if (share := share_of(each)) is not None})
    if not shares:
        return None
    return ShareProjection(
        tuple({name: amount} for name, amount in shares), mixed=incompatible_shares(shares) is not None
    )


def _count(devices: Sequence[int], size: int) -> int:
    """How many pieces of this size are left on the devices."""
    return sum(max(0, amount) // size for amount in devices)


def _unit(size: int) -> str:
    return f"{SHARE_UNITS}{size}"


PLACE: Final = "NUMA slot of "
"""Begins the names of the amounts of which each pod of a kind uses one."""

_COMMON: Final = "NUMA slots of "
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
    return (
        ZoneProjection(tuple(kinds), session.facts.numa_layouts)
        if kinds and session.facts.numa_layouts
        else None
    )


def is_numa_slot(resource: str) -> bool:
    """Whether the resource is one of those that are made here."""
    return resource.startswith((PLACE, _COMMON))


def numa_slots_left(node: Node, free: Resources, kind: str) -> int | None:
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


FreeAmounts = Callable[[NodeName], Resources]


class ResourceProjection(Struct, frozen=True):
    """What makes the amounts of certain pods add up; None for what they do not ask for."""

    shares: ShareProjection | None
    zones: ZoneProjection | None

    @property
    def are_plain(self) -> bool:
        """Whether amounts add up as they are."""
        return self.shares is None and self.zones is None

    def asked(self, pods: Sequence[Pod]) -> list[Resources]:
        """What each of these pods asks for."""
        shares, zones = self.shares, self.zones
        asked = [pod.shape.requests for pod in pods]
        if shares is not None:
            asked = [shares.request(each) for each in asked]
        if zones is not None:
            asked = [{**each, **zones.request(pod)} for each, pod in zip(asked, pods, strict=True)]
        return asked

    def free(self, session: Session) -> FreeAmounts:
        """What is free on each node of a session, as these pods see it."""
        shares, zones = self.shares, self.zones
        if self.are_plain:
            return session.free

        def free(node: NodeName) -> Resources:
            found = session.free(node) if shares is None else shares.free(session, node)
            return found if zones is None else zones.free(session.nodes[node].node, found)

        return free


def projection_for(session: Session, pods: Sequence[Pod]) -> ResourceProjection:
    """What these pods need, a pod of each kind that is placed together."""
    return ResourceProjection(share_projection(pods), zone_projection(session, pods))
