"""All supplies, and what pods use of them together.

Another distribution brings its own with an entry point of the group `phalanx.supplies`: docs/plugins.md.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from msgspec import Struct, convert

from phalanx.model.api import core
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.overridden_methods import overrides
from phalanx.model.pods import Device, Pod, PodPhase, PodShape
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources, add, fits
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.supply import Devices
from phalanx.model.supplies.disks import Disks
from phalanx.model.supplies.gpu_shares.supply import GPU_SHARES
from phalanx.model.supplies.numa.supply import NUMA_ZONES
from phalanx.model.supplies.part import SupplyPart
from phalanx.model.supplies.ports import Ports
from phalanx.model.supplies.supply import Decided, OpenSupply, Parts, Projection, SessionSupply, Supply
from phalanx.model.supplies.volumes.amounts import VolumeAmounts
from phalanx.model.supplies.volumes.attach_limits import ATTACH_LIMITS

ENTRY_POINT_GROUP: Final = "phalanx.supplies"

_BUILT_IN: Final[tuple[Supply, ...]] = (
    *(GPU_SHARES, NUMA_ZONES),
    *(Ports(), Disks(), ATTACH_LIMITS, VolumeAmounts(), Devices()),
)


class UnknownSupply(ValueError):
    """A supply that is not installed."""


@cache
def supplies() -> Mapping[str, Supply]:
    """By name. Raises ValueError if two have the same name."""
    installed = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    found: dict[str, Supply] = {}
    for supply in (*_BUILT_IN, *(entry.load()() for entry in installed)):
        if supply.name in found:
            raise ValueError(f"two installed supplies have the name {supply.name!r}")
        found[supply.name] = supply
    return found


@cache
def supplies_with(method: str) -> tuple[Supply, ...]:
    """The supplies that override this method: others need not be asked."""
    return tuple([supply for supply in supplies().values() if overrides(type(supply), method, Supply)])


@cache
def _by_prefix() -> Mapping[str, Supply]:
    return {start: supply for name, supply in supplies().items() for start in (name, *supply.prefixes)}


@cache
def _by_request() -> Mapping[str, Supply]:
    return {name: supply for supply in supplies().values() for name in supply.requested}


def supply_of(resource: str) -> Supply | None:
    """The supply of a resource; None if nodes list it."""
    if "[" not in resource and " " not in resource:
        return None
    return _by_prefix().get(resource.partition("[")[0].partition(" ")[0])


def writer_of(resource: str) -> Supply | None:
    """The supply that writes amounts of the resource for users."""
    return supply_of(resource) or _by_request().get(resource.partition(" ")[0])


def requests_parts(requests: Resources) -> bool:
    """Whether parts of nodes are requested."""
    return any(name in requests for name in _by_request())


def opened(nodes: Sequence[Node]) -> tuple[OpenSupply, ...]:
    """The supplies of which some of these nodes have parts."""
    found = [supply.open(nodes) for supply in supplies().values()]
    return tuple([supply for supply in found if supply is not None])


def completed(snapshot: Snapshot, decided: Decided) -> Snapshot:
    """The snapshot with amounts of nodes that supplies tell."""
    for supply in supplies_with("completed"):
        if supply.completes(snapshot):
            snapshot = supply.completed(snapshot, decided)
    return snapshot


def is_completed(snapshot: Snapshot) -> bool:
    """Whether supplies tell amounts of nodes."""
    return any(supply.completes(snapshot) for supply in supplies_with("completed"))


def emptied(snapshot: Snapshot) -> Mapping[str, Any]:
    """The parts of the snapshot, with nothing in use."""
    parts = {supply.name: supply.emptied(snapshot) for supply in supplies_with("emptied")}
    return {**snapshot.supplies, **parts}


def counted_supply(gang: Gang) -> str:
    """The supply whose counted changes may help the gang; empty for none. A gang has one at most."""
    return next((supply.name for supply in supplies_with("counts_for") if supply.counts_for(gang)), "")


def read_parts(written: Mapping[str, Any]) -> dict[str, SupplyPart]:
    """The parts of a snapshot that was decoded from JSON.

    Raises UnknownSupply for one that is of no installed supply, and msgspec.ValidationError.
    """
    kinds = {supply.name: supply.part for supply in supplies().values() if supply.part is not None}
    unknown = sorted(written.keys() - kinds.keys())
    if unknown:
        raise UnknownSupply(f"the supply {unknown[0]!r} is not installed")
    return {name: convert(part, type=kinds[name], str_keys=True) for name, part in written.items()}


def joined(
    snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided
) -> tuple[SessionSupply, ...]:
    """The supplies of which a session with this snapshot knows what nodes have."""
    found = [supply.join(snapshot, nodes, decided) for supply in supplies_with("join")]
    return tuple([supply for supply in found if supply is not None])


def needs_parts(shape: PodShape) -> bool:
    """Whether such pods need parts of nodes that have parts."""
    return any(supply.need(shape) is not None for supply in supplies_with("open"))


def is_chosen_by_kubelet(resource: str) -> bool:
    """Whether the kubelet chooses the part of the node that has this amount when the pod starts."""
    supply = supply_of(resource)
    return supply is not None and supply.is_chosen_by_kubelet


def contradictions(named: Sequence[tuple[PodShape, str]]) -> Iterator[Objection]:
    """Why pods of these shapes, each with the name of a pod, cannot be placed together."""
    for supply in supplies_with("contradiction"):
        needs = {need: name for shape, name in named if (need := supply.need(shape)) is not None}
        objection = supply.contradiction(needs) if needs else None
        if objection is not None:
            yield objection


def read_supplies(pod: core.Pod, wrong: list[str]) -> tuple[tuple[str, int], ...]:
    """What a pod uses of all supplies, sorted by resource. Errors are appended to `wrong`."""
    used: dict[str, int] = {}
    for supply in supplies().values():
        used.update(supply.requests(pod, wrong))
    return tuple(sorted(used.items()))


def what_supplies_read(pod: core.Pod) -> tuple[Hashable, ...]:
    """Equal for pods that use the same of all supplies, if their containers and `hostNetwork` are equal."""
    return tuple([supply.reads(pod) for supply in supplies_with("reads")])


def offered_of(resource: str) -> int:
    """What every node offers of a resource that it does not list: 0 unless it is of a supply."""
    supply = supply_of(resource)
    return 0 if supply is None else supply.offered(resource)


class OfferedAmounts(Struct, frozen=True):
    """The projection of what every node offers: nodes do not list it."""

    names: tuple[str, ...]

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with what the pod uses."""
        return {**requests, **dict(pod.shape.supplied)} if pod.shape.supplied else requests

    def free(self, state: NodeState, free: Resources) -> Resources:
        """The free amounts with what the node offers."""
        return {**free, **{name: free.get(name, 0) + offered_of(name) for name in self.names}}


def offered_amounts(shapes: Iterable[PodShape]) -> tuple[Projection, ...]:
    """The projection of the supplies that these pods use, if they use some."""
    names = tuple(dict.fromkeys(name for shape in shapes for name, _ in shape.supplied))
    return (OfferedAmounts(names),) if names else ()


def requested(projections: Sequence[Projection], pods: Iterable[Pod]) -> list[Resources]:
    """The projected requests of these pods."""
    found = []
    for pod in pods:
        requests = pod.shape.requests
        for projection in projections:
            requests = projection.request(pod, requests)
        found.append(requests)
    return found


def projected(projections: Sequence[Projection], state: NodeState, free: Resources) -> Resources:
    """The projection of these free amounts of the node."""
    for projection in projections:
        free = projection.free(state, free)
    return free


def with_supplied(shape: PodShape) -> Resources:
    """The requests of a pod, with what it uses of supplies."""
    return {**shape.requests, **dict(shape.supplied)} if shape.supplied else shape.requests


def is_alone_on_node(shape: PodShape) -> bool:
    """Whether a node has enough for one such pod only, since each uses all of something."""
    return any(2 * amount > offered_of(name) for name, amount in shape.supplied)


def fits_on(shape: PodShape, free: Resources) -> bool:
    """Whether the requests of one pod, and what it uses of supplies, fit these free amounts of a node."""
    return fits(shape.requests, free) and lacking(shape, free) is None


def lacking(shape: PodShape, free: Resources) -> str | None:
    """The first resource of a supply of which a node has too little for the pod; None if all fit.

    Of a port of one address, the address is named only if it is the reason.
    """
    for name, amount in reversed(shape.supplied):
        if free.get(name, 0) + offered_of(name) < amount:
            return name
    return None


def shortage(resource: str) -> str:
    """Why a pod does not get what it needs of a resource of a supply."""
    supply = supply_of(resource)
    assert supply is not None, f"{resource} is of no supply"
    return supply.shortage(resource)


def whole_texts(used: Resources) -> list[str]:
    """The resources of supplies of which all is used, as text. A port of some addresses is shown once for
    each of them."""
    return [
        supply.text(name)
        for name, amount in used.items()
        if (supply := supply_of(name)) is not None and amount >= supply.offered(name)
    ]


# --- usage of nodes -----------------------------------------------------------------------------------------


def shape_usage(shape: PodShape, part: Device | None, *, runs: bool = False) -> Resources:
    """Usage of a node by a pod of this shape: requests, the part that it has, and supplies."""
    requests = shape.requests
    if shape.numa or not _by_request().keys().isdisjoint(requests):
        for supply in supplies_with("open"):
            requests = {**requests, **supply.usage(shape, part, runs=runs)}
    return {**requests, **dict(shape.supplied)} if shape.supplied else requests


def pod_usage(pod: Pod) -> Resources:
    """Usage of a node by one of its pods."""
    return shape_usage(pod.shape, pod.device, runs=pod.phase is not PodPhase.PENDING)


def total_usage(pods: Iterable[Pod], parts: Parts) -> Resources:
    """Usage of a node by these pods, none of which runs yet, with these parts of it."""
    total: Resources = {}
    for pod in pods:
        total = add(total, shape_usage(pod.shape, parts.get(pod.uid)))
    return total
