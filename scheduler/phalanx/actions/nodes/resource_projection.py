"""Project GPU shares, NUMA zones and supplies to amounts that add up: the solver knows no parts of nodes.

GPU shares. Pods with equal shares fit the devices of a node as often as the share fits each device, so the
free amount is that number times the share. If shares differ and each is a multiple of the next smaller one,
pods fit exactly if, for each size, the pods of this and larger sizes use at most the whole units of this size
that are left on the devices. So there is one amount per size; GPU_SHARE itself counts units of the smallest
size. Incompatible shares are refused earlier, except for lost members whose capacity is held: each of those
counts as the largest share, which is never too little.

NUMA zones. A pod with required NUMA alignment requests one slot of its kind; a node offers as many slots of a
kind as `ZoneCapacity` guarantees. If pods of several kinds are placed together, each also uses the slots of
other kinds that it may displace, on any node. That is safe but not exact: the projection may exclude a
feasible node. Pods of one kind are counted exactly, as far as zones are known.

Devices of claims. See `device_projection`. What queues are charged for them is projected too
(`charge_projection`).

Supplies. Every node offers the same of each, so nodes do not list it; the projection adds it.

Volumes. What a node has of volumes that exist already, and of space for new ones, is known to the session.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from phalanx.actions.nodes.charge_projection import ChargeProjection, charge_projection
from phalanx.actions.nodes.device_projection import (
    DeviceProjection,
    device_projection,
    keeps_devices_apart,
)
from phalanx.framework.session import Session
from phalanx.framework.volume_supply import VolumeAmounts
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
from phalanx.model.nodes import Node, NodeState, Numa, ZoneLayout
from phalanx.model.numa import ZoneCapacity, displaced, is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import supplied_of, with_offered, with_supplied

SHARE_UNITS: Final = f"{GPU_SHARE} in units of "
"""The prefix of the amounts for larger sizes."""

LARGEST: Final = f"{GPU_SHARE} of any size"


class ShareProjection(Struct, frozen=True):
    """The projection of GPU shares."""

    shares: tuple[Resources, ...]
    """All distinct shares, the smallest first."""

    mixed: bool
    """Whether the shares are incompatible."""

    def request(self, requests: Resources) -> Resources:
        """The requests with the projected amounts."""
        if not requests_share(requests):
            return requests
        if self.mixed:
            return {**requests, LARGEST: 1}
        size = requests.get(GPU_SHARE, 0)
        return {**requests, **{_unit(unit): size for unit in self._larger if unit <= size}}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """These free amounts of the node, reduced to what pods can use."""
        devices = free_devices(state, free)
        sizes = [share_on_node(share, state.node.allocatable) for share in self.shares]
        if self.mixed:
            return {**free, LARGEST: _count(devices, max(sizes))}
        larger = {_unit(size): size * _count(devices, size) for size in self._larger}
        (name, least) = next(iter(self.shares[0].items()))
        pieces = min(_count(devices, sizes[0]), max(0, free.get(name, 0)) // least)
        return {**free, name: least * pieces, **larger}

    @property
    def _larger(self) -> list[int]:
        return [share[GPU_SHARE] for share in self.shares[1:]]


def share_projection(pods: Sequence[Pod]) -> ShareProjection | None:
    """The projection for these pods; None if none requests a share."""
    asked = [pod.shape.requests for pod in pods]
    shares = sorted({share for requests in asked if (share := share_of(requests)) is not None})
    if not shares:
        return None
    return ShareProjection(
        tuple({name: amount} for name, amount in shares), mixed=incompatible_shares(shares) is not None
    )


def _count(devices: Sequence[int], size: int) -> int:
    """The number of whole units of this size that are free on the devices."""
    return sum(max(0, amount) // size for amount in devices)


def _unit(size: int) -> str:
    return f"{SHARE_UNITS}{size}"


NUMA_SLOT: Final = "NUMA slot of "
"""The prefix of the amounts of which each pod of a kind uses one."""

_COMMON: Final = "NUMA slots of "
"""The prefix of the amounts that pods of several kinds use together."""

_PLENTY: Final = NUMA_DISPLACED_MAX << 20


class ZoneProjection(Struct, frozen=True):
    """The projection of NUMA zones."""

    kinds: tuple[str, ...]
    """The distinct NUMA requests of the pods."""

    layouts: tuple[ZoneLayout, ...]
    """The zone layouts of all nodes."""

    def request(self, pod: Pod) -> Resources:
        """The NUMA slots that the pod requests."""
        kind = pod.shape.numa
        if not kind:
            return {}
        costs = {_COMMON + other: self._cost(other, kind) for other in self.kinds if self._is_mixed}
        return {NUMA_SLOT + kind: 1, **{name: cost for name, cost in costs.items() if cost}}

    def free(self, node: Node, free: Resources) -> Resources:
        """The free amounts of the node with its NUMA slots; practically unlimited if it has no zones."""
        if node.numa is None:
            return {**free, **_plenty(self.kinds)}
        return {**free, **_slots(node.numa, _held(free), self.kinds)}

    @property
    def _is_mixed(self) -> bool:
        return len(self.kinds) > 1

    def _cost(self, kind: str, by: str) -> int:
        """The largest number of displaced slots on any node, since requests are equal for all nodes."""
        return max(displaced(layout, kind, by) for layout in self.layouts)


def zone_projection(session: Session, pods: Sequence[Pod]) -> ZoneProjection | None:
    """The projection for these pods; None if no pod needs zones or no node has any."""
    kinds = dict.fromkeys(pod.shape.numa for pod in pods if pod.shape.numa)
    return (
        ZoneProjection(tuple(kinds), session.facts.numa_layouts)
        if kinds and session.facts.numa_layouts
        else None
    )


def is_numa_slot(resource: str) -> bool:
    """Whether the resource is a projected NUMA slot."""
    return resource.startswith((NUMA_SLOT, _COMMON))


def numa_slots_left(node: Node, free: Resources, kind: str) -> int | None:
    """The guaranteed number of pods of one kind that fit the NUMA zones; None if they need none."""
    if node.numa is None or not kind:
        return None
    count = _slots(node.numa, _held(free), (kind,))[NUMA_SLOT + kind]
    return None if count == _PLENTY else count


def _held(free: Resources) -> tuple[tuple[str, int], ...]:
    return tuple([(name, amount) for name, amount in free.items() if is_numa_resource(name) and amount])


@lru_cache(maxsize=NUMA_CACHE_ENTRIES_MAX)
def _slots(numa: Numa, held: tuple[tuple[str, int], ...], kinds: tuple[str, ...]) -> Resources:
    """The slots of each kind beside what is held; equal nodes share the result."""
    capacity = ZoneCapacity(numa, dict(held))
    own = {
        NUMA_SLOT + kind: count
        for kind in kinds
        if (count := capacity.max_additional(kind, kinds)) is not None
    }
    common = {_COMMON + kind: count for kind in kinds if (count := capacity.max_displaced(kind)) is not None}
    return {**_plenty(kinds), **own, **common}


def _plenty(kinds: tuple[str, ...]) -> Resources:
    """More slots of each kind than pods can request."""
    return {name + kind: _PLENTY for kind in kinds for name in (NUMA_SLOT, _COMMON)}


def is_safety(resource: str) -> bool:
    """Whether the amount keeps pods of several kinds apart that might fit together."""
    return resource.startswith(_COMMON) or keeps_devices_apart(resource)


FreeAmounts = Callable[[NodeName], Resources]


class ResourceProjection(Struct, frozen=True):
    """The projections that certain pods need; None for those that they do not."""

    shares: ShareProjection | None
    zones: ZoneProjection | None
    supplied: tuple[str, ...] = ()
    """The resources of supplies that these pods use: nodes do not list what they offer of them."""
    volumes: VolumeAmounts | None = None
    devices: DeviceProjection | None = None
    charges: ChargeProjection | None = None

    @property
    def are_plain(self) -> bool:
        """Whether no projection is needed."""
        parts = (self.shares, self.zones, self.volumes, self.devices, self.charges)
        return not self.supplied and all(part is None for part in parts)

    def asked(self, pods: Sequence[Pod]) -> list[Resources]:
        """The projected requests of these pods."""
        shares, zones = self.shares, self.zones
        asked = [with_supplied(pod.shape) for pod in pods]
        if shares is not None:
            asked = [shares.request(requests) for requests in asked]
        if zones is not None:
            asked = [{**requests, **zones.request(pod)} for requests, pod in zip(asked, pods, strict=True)]
        if self.devices is not None:
            asked = [{**some, **self.devices.request(pod)} for some, pod in zip(asked, pods, strict=True)]
        if self.charges is not None:
            asked = [self.charges.request(pod, some) for some, pod in zip(asked, pods, strict=True)]
        return asked

    def free(self, session: Session) -> FreeAmounts:
        """A function that returns the projected free amounts of a node."""
        if self.are_plain:
            return session.free
        return lambda node: self.of_node(session, session.nodes[node], session.free(node))

    def of_node(self, session: Session, state: NodeState, free: Resources) -> Resources:
        """The projection of these free amounts of a node."""
        found = with_offered(free, self.supplied)
        if self.volumes is not None:
            found = {**found, **self.volumes.on(state.node.name)}
        found = found if self.shares is None else self.shares.free(state, found)
        found = found if self.zones is None else self.zones.free(state.node, found)
        found = found if self.devices is None else self.devices.free(session.devices, state.node, found)
        return found if self.charges is None else self.charges.free(found)


def projection_for(session: Session, pods: Sequence[Pod], most: Sequence[int]) -> ResourceProjection:
    """The projection for these pods, one of each kind that is placed together. `most`: a node gets at most so
    many of each."""
    supplied = supplied_of(pod.shape for pod in pods)
    devices = device_projection(session, pods, most)
    volumes = volume_amounts(session, pods)
    shares, zones = share_projection(pods), zone_projection(session, pods)
    return ResourceProjection(
        shares, zones, supplied, volumes=volumes, devices=devices, charges=charge_projection(pods)
    )


def volume_amounts(session: Session, pods: Sequence[Pod]) -> VolumeAmounts | None:
    """What nodes have of the volumes that these pods need; None if they need none."""
    shapes = [pod.shape for pod in pods if pod.shape.volume_sets]
    return VolumeAmounts(session.volume_supply, shapes) if shapes else None
