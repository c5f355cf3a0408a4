"""Who holds room now, and what the end of each would give back."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.framework.statement import Usage, total_requests
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.resources import CPU, NONE, Resources, add, scale

_NO_QUEUE: Final = QueueName("")

Cost = tuple[int, int, str]
"""Devices of all kinds, cores, name: whoever holds least is sent away most cheaply."""


Seated = tuple[Pod, NodeName]


class Holder(Struct, frozen=True):
    """Who holds room. `gang` is None, and `queue` empty, where it is work of another scheduler.

    `booked` is what of it is on the account of the queue: the members that are ours.
    """

    name: str
    gang: GangId | None
    queue: QueueName
    used: Usage
    booked: Usage
    total: Resources
    total_booked: Resources
    cost: Cost

    @property
    def key(self) -> str:
        """Nobody else has it; two gangs may have one name."""
        return self.gang or self.name


def holders_of(session: Session) -> list[Holder]:
    """Whoever holds room on nodes after this cycle, the cheapest first.

    Of a gang the room that is kept for members it lost is included.
    """
    seats = {bind.pod: bind.node for placement in session.placements for bind in placement.binds}
    kept: dict[GangId, list[tuple[NodeName, Resources]]] = {}
    for each in session.kept:
        amounts = [(node, total_requests(pods)) for node, pods in each.seats]
        kept.setdefault(each.gang.id, []).extend(amounts)
    ours = [
        _holder(gang, holding, kept.get(gang.id, ()), session)
        for gang in session.gangs.values()
        if (holding := _holding(gang, seats)) or gang.id in kept
    ]
    foreign = [_made(name, None, _NO_QUEUE, used, {}) for name, used in session.snapshot.foreign.items()]
    return sorted([*ours, *foreign], key=lambda each: each.cost)


def _holder(
    gang: Gang,
    holding: Sequence[Seated],
    kept: Iterable[tuple[NodeName, Resources]],
    session: Session,
) -> Holder:
    ours = session.config.scheduler_name
    booked = _usage([(pod, node) for pod, node in holding if pod.scheduler_name == ours])
    for node, amounts in kept:
        booked[node] = add(booked.get(node, NONE), amounts)
    foreign = _usage([(pod, node) for pod, node in holding if pod.scheduler_name != ours])
    used = booked
    if foreign:
        used = {node: add(booked.get(node, NONE), foreign.get(node, NONE)) for node in {**booked, **foreign}}
    kind = "pod" if gang.kind is GangKind.POD else "gang"
    return _made(f"{kind} {gang}", gang.id, gang.queue, used, booked)


def _made(name: str, gang: GangId | None, queue: QueueName, used: Usage, booked: Usage) -> Holder:
    total = _total(used)
    total_booked = total if booked is used else _total(booked)
    devices = sum(amount for resource, amount in total.items() if "/" in resource)
    cost = (devices, total.get(CPU, 0), name)
    return Holder(name, gang, queue, used, booked, total, total_booked, cost)


def _holding(gang: Gang, seats: Mapping[PodUid, NodeName]) -> list[Seated]:
    """Members with a node, those placed in this cycle among them."""
    nodes = ((pod, pod.node if pod.holds_node else seats.get(pod.uid)) for pod in gang.members)
    return [(pod, node) for pod, node in nodes if node is not None]


def _usage(seated: Sequence[Seated]) -> dict[NodeName, Resources]:
    if len(seated) == 1:
        return {seated[0][1]: seated[0][0].shape.requests}
    counts: Counter[tuple[NodeName, ShapeKey]] = Counter()
    requests: dict[ShapeKey, Resources] = {}
    for pod, node in seated:
        counts[node, pod.shape.key] += 1
        requests[pod.shape.key] = pod.shape.requests
    usage: dict[NodeName, Resources] = {}
    for (node, shape), count in counts.items():
        usage[node] = add(usage.get(node, NONE), scale(requests[shape], count))
    return usage


def _total(usage: Usage) -> Resources:
    if len(usage) == 1:
        return next(iter(usage.values()))
    total: Resources = {}
    for amounts in usage.values():
        total = add(total, amounts)
    return total
