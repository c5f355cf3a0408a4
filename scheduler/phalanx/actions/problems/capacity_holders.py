"""Find the holders of capacity, and what each of them frees when it ends."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.nodes.fullness import devices_of
from phalanx.framework.changes import CapacityHold
from phalanx.framework.charges import marked_as_charged, with_marked_charges
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.model.charges import have_charges, plus_devices, total_charges
from phalanx.model.decisions import Bind
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.pods import Device, Pod, PodPhase, PodShape
from phalanx.model.resources import CPU, NONE, Resources, add, scale, sum_of
from phalanx.model.supplies.known import shape_usage, supply_of, total_usage

_NO_QUEUE: Final = QueueName("")

Cost = tuple[int, int, str]
"""Devices of all kinds, cores, name; smaller is cheaper."""


Kinds = dict[tuple[int, frozenset[tuple[str, int]]], int]
"""A number for each pair of a node count and a total."""


class AssignedPod(Struct, frozen=True, gc=False):
    """A pod on a node, with the device of its GPU share."""

    pod: Pod
    node: NodeName
    device: Device | None = None


class CapacityHolder(Struct, frozen=True):
    """A gang, one of its terminating pods, or pods of another scheduler, that hold capacity."""

    name: str
    gang: GangId | None
    """Only if the whole gang is meant."""

    queue: QueueName
    """Empty for pods of another scheduler."""

    used: Usage

    booked: Usage
    """The part that is charged to the queue: members of this scheduler."""

    total: Resources
    total_booked: Resources
    cost: Cost

    kind: int
    """Equal for holders with the same total on as many nodes."""

    pods: tuple[Pod, ...] = ()
    """The pods with a node that affinity terms concern."""

    is_terminating: bool = False
    """Whether all pods with a node are being deleted."""

    @property
    def key(self) -> str:
        """A unique key; two gangs may have the same name."""
        return self.gang or self.name


def find_capacity_holders(session: Session) -> list[CapacityHolder]:
    """All holders of capacity after the placements so far, the cheapest first."""
    kinds: Kinds = {}
    others, gone = session.snapshot.foreign.items(), frozenset(session.snapshot.foreign_terminating)
    foreign = [
        replace(
            _made(name, None, _NO_QUEUE, used, {}, kinds, is_terminating=name in gone),
            pods=_foreign_pods(name, session),
        )
        for name, used in others
    ]
    ours = gangs_holding(session, session.gangs.values(), kinds)
    return sorted([*ours, *foreign], key=lambda holder: holder.cost)


def terminating_members(gang: Gang, session: Session) -> list[CapacityHolder]:
    """A holder for each member of the gang that is being deleted and has a node. No other has its kind."""
    found: list[CapacityHolder] = []
    for pod in gang.members:
        if pod.deleting and pod.holds_node and pod.node is not None:
            holder = _holder(gang, [AssignedPod(pod, pod.node, pod.device)], (), session, {})
            name, kind = f"pod {pod}", -1 - len(found)
            found.append(replace(holder, name=name, gang=None, cost=(*holder.cost[:2], name), kind=kind))
    return found


def gangs_holding(session: Session, gangs: Collection[Gang], kinds: Kinds) -> list[CapacityHolder]:
    """The gangs that hold capacity after the placements so far, capacity held for lost members included."""
    wanted = {gang.id for gang in gangs}
    placements = [placement for placement in session.placements if placement.gang in wanted]
    binds = {bind.pod: bind for placement in placements for bind in placement.binds}
    holds: dict[GangId, list[CapacityHold]] = {}
    for hold in session.capacity_holds:
        holds.setdefault(hold.gang.id, []).append(hold)
    return [
        _holder(gang, holding, holds.get(gang.id, ()), session, kinds)
        for gang in gangs
        if (holding := _holding(gang, binds)) or gang.id in holds
    ]


def _holder(
    gang: Gang,
    holding: Sequence[AssignedPod],
    holds: Sequence[CapacityHold],
    session: Session,
    kinds: Kinds,
) -> CapacityHolder:
    ours = [assigned for assigned in holding if assigned.pod.scheduler_name == session.config.scheduler_name]
    booked = usage_of(ours)
    plain = (
        len(ours) == len(holding)
        and not any(each.pod.shape.supplied or each.pod.charges for each in holding)
        and not session.facts.needed_supplies(each.pod.shape for each in holding)
    )
    used = booked if plain else usage_of(holding, with_devices=True)
    if holds and plain:
        used = dict(booked)
    for hold in holds:
        for node, pods in hold.assignments:
            booked[node] = add(booked.get(node, NONE), total_charges(pods))
            used[node] = add(used.get(node, NONE), total_usage(pods, hold.parts))
    what = "pod" if gang.kind is GangKind.POD else "gang"
    gone = bool(holding) and all(assigned.pod.deleting for assigned in holding)
    made = _made(f"{what} {gang}", gang.id, gang.queue, used, booked, kinds, is_terminating=gone)
    return made if session.affinity_index is None else replace(made, pods=_concerned(holding))


def _foreign_pods(owner: str, session: Session) -> tuple[Pod, ...]:
    index = session.affinity_index
    if index is None:
        return ()
    placed = session.snapshot.foreign_pods.get(owner, ())
    return tuple([pod for each in placed for pod in index.pods_of(each)])


def _concerned(holding: Sequence[AssignedPod]) -> tuple[Pod, ...]:
    """The pods that affinity terms concern, with their nodes."""
    concerned = [each for each in holding if each.pod.shape.affinity_state is not None]
    return tuple([replace(each.pod, node=each.node) for each in concerned])


def _made(
    name: str,
    gang: GangId | None,
    queue: QueueName,
    used: Usage,
    booked: Usage,
    kinds: Kinds,
    *,
    is_terminating: bool,
) -> CapacityHolder:
    total = total_of(used)
    total_booked = total if booked is used else total_of(booked)
    cost = (devices_of(total), total.get(CPU, 0), name)
    kind = kinds.setdefault((len(used), frozenset(total.items())), len(kinds))
    return CapacityHolder(
        name, gang, queue, used, booked, total, total_booked, cost, kind, is_terminating=is_terminating
    )


def _holding(gang: Gang, binds: Mapping[PodUid, Bind]) -> list[AssignedPod]:
    """Members with a node, including those placed in this cycle."""
    holding = []
    for pod in gang.members:
        bind = binds.get(pod.uid)
        if pod.node is not None and pod.holds_node:
            holding.append(AssignedPod(pod, pod.node, pod.device))
        elif bind is not None:
            holding.append(AssignedPod(pod, bind.node, bind.device))
    return holding


def assigned_pods(pods: Iterable[Pod]) -> list[AssignedPod]:
    """The pods that have a node."""
    return [AssignedPod(pod, pod.node, pod.device) for pod in pods if pod.node is not None]


def usage_of(assigned: Sequence[AssignedPod], *, with_devices: bool = False) -> dict[NodeName, Resources]:
    """What queues are charged for these pods on each node; else what they use of it, with supplies."""
    has_charges = not with_devices and have_charges(each.pod for each in assigned)
    if len(assigned) == 1 and not with_devices and not has_charges:
        return {assigned[0].node: assigned[0].pod.shape.requests}
    counts: Counter[tuple[NodeName, ShapeKey, Device | None, bool]] = Counter()
    shapes: dict[ShapeKey, PodShape] = {}
    for found in assigned:
        shape, runs = found.pod.shape, with_devices and found.pod.phase is not PodPhase.PENDING
        counts[found.node, shape.key, found.device if with_devices else None, runs] += 1
        shapes[shape.key] = shape
    usage: dict[NodeName, Resources] = {}
    for (node, key, device, runs), count in counts.items():
        shape = shapes[key]
        amounts = shape_usage(shape, device, runs=runs) if with_devices else shape.requests
        usage[node] = add(usage.get(node, NONE), scale(amounts, count))
    counted: set[str] = set()
    for each in assigned if has_charges else ():
        usage[each.node] = plus_devices(usage[each.node], (each.pod,), counted)
    return usage


def usage_with_charges(assigned: Sequence[AssignedPod]) -> Usage:
    """The usage of nodes with supplies, and with the devices of claims as marked amounts."""
    pods = [(each.node, (each.pod,)) for each in assigned]
    return with_marked_charges(usage_of(assigned, with_devices=True), pods)


def charged(usage: Usage) -> Usage:
    """The usage without supplies, which queues are not charged for."""
    return {
        node: marked_as_charged({name: each for name, each in amounts.items() if supply_of(name) is None})
        for node, amounts in usage.items()
    }


def total_of(usage: Usage) -> Resources:
    """The sum over all nodes."""
    if len(usage) == 1:
        return next(iter(usage.values()))
    return sum_of(usage.values())
