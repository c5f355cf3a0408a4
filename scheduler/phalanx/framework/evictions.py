"""Evictions of gangs for another gang: the limits that plugins set, and the gangs that are being evicted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.charges import charged_for
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import CPU, Resources
from phalanx.model.supplies.gpu_shares.devices import GPU_MEMORY, GPU_SHARE, WHOLE_DEVICE, requests_share

_REASONS: Final = frozenset({EvictionReason.PREEMPTED, EvictionReason.CONSOLIDATED})

_PER_DEVICE: Final = 8
_SIZE_MAX: Final = 4096
_SHARES: Final = (GPU_SHARE, GPU_MEMORY)

UNKNOWN: Final = GangId("")
"""The beneficiary of an eviction that an earlier leader decided."""


class Beneficiary(Struct, frozen=True):
    """The gang for which others are evicted."""

    gang: Gang
    requested: Resources
    """The total requests of its waiting pods."""
    pod_kinds: tuple[Pod, ...] = ()
    """One waiting pod of each kind."""
    is_surplus: bool = False
    """Whether the waiting pods are beyond the minimum of the gang."""


class QueueEvictionLimit(Struct, frozen=True):
    """A limit on the amounts that may be evicted from a queue and its descendants for one beneficiary."""

    queue: QueueName
    amounts: Resources
    """The largest amounts that may be evicted; a resource that is absent is not limited."""
    nodes: frozenset[NodeName] | None = None
    """Only pods on these nodes count; None for all nodes."""
    except_largest: bool = False
    """Whether, for each resource, the gang that loses the largest amount does not count."""
    is_hard: bool = True
    """A soft limit is ignored if no other victims are enough."""
    priority: int | None = None
    """Only gangs of at least this priority count; None for all."""
    counts_starts: bool = True
    """Whether starts of the cycle that are given up count."""


class PodEvictionLimit(Struct, frozen=True):
    """A limit on the number of these pods that may be evicted, for all beneficiaries together."""

    name: str
    """The object that sets the limit, for messages."""
    pods: frozenset[PodUid]
    count: int
    is_hard: bool = True
    """A soft limit is exceeded, by as few pods as possible, if no other victims are enough."""
    grows_at: int | None = None
    """The time (ms) at which the limit allows more evictions by itself; None for never."""


def size_of(pod: Pod) -> int:
    """The size of a pod, by which losses compare: 8 for a device, 1 for a core, rounded up."""
    requests = charged_for(pod)
    whole = sum(amount for name, amount in requests.items() if "/" in name and name not in _SHARES)
    devices = whole * WHOLE_DEVICE + _share(pod)
    return min(_SIZE_MAX, max(1, -(-_PER_DEVICE * devices // WHOLE_DEVICE) - (-requests.get(CPU, 0) // 1000)))


def _share(pod: Pod) -> int:
    """Thousandths of a device; a request in bytes counts as a whole device while that is unknown."""
    requests = pod.shape.requests
    if not requests_share(requests):
        return 0
    return pod.device.taken if pod.device is not None else requests.get(GPU_SHARE, WHOLE_DEVICE)


def preempted(
    gangs: Iterable[Gang], remembered: Mapping[GangId, GangId], *, scheduler_name: str
) -> dict[GangId, GangId]:
    """Gangs that are being evicted for others, each with its beneficiary.

    They are remembered, or found by the conditions of their pods. A gang that keeps its minimum is left out.
    """
    found = {
        gang.id: UNKNOWN
        for gang in gangs
        if _has_marked_pods(gang, scheduler_name) and not keeps_minimum(gang)
    }
    return {**found, **remembered}


def is_marked_for_eviction(pod: Pod) -> bool:
    """Whether the pod has a condition DisruptionTarget for an eviction for another gang."""
    return pod.disruption in _REASONS


def keeps_minimum(gang: Gang) -> bool:
    """Whether the members that are not marked for eviction are enough."""
    staying = [pod for pod in gang.counted if not is_marked_for_eviction(pod)]
    return gang.disruption.eviction_mode is DisruptionMode.SINGLE or gang.minimum.is_reached(staying)


def surplus_members(gang: Gang, holders: Sequence[Pod]) -> list[Pod]:
    """The members beyond the minimum of the gang, the last ones first.

    `holders`: the members that hold nodes and stay, in their order. Members that have succeeded count for the
    minimum. A block of members is divided in halves until the rest reaches the minimum without it.
    """
    if gang.kind is GangKind.POD:
        return []
    kept = [pod for pod in gang.counted if not pod.holds_node] + list(holders)
    excess = len(kept) - gang.min_member
    if excess <= 0:
        return []
    if not gang.roles and not gang.subgroups:
        return list(holders[::-1][:excess])
    found: list[Pod] = []
    blocks = [list(holders[::-1])]
    while blocks and len(kept) > gang.min_member:
        block = blocks.pop()
        names = {pod.uid for pod in block}
        rest = [pod for pod in kept if pod.uid not in names]
        if gang.minimum.is_reached(rest):
            kept = rest
            found += block
        elif len(block) > 1:
            half = len(block) // 2
            blocks += [block[half:], block[:half]]
    return found


def _has_marked_pods(gang: Gang, scheduler_name: str) -> bool:
    return any(
        is_marked_for_eviction(pod) and pod.holds_node and pod.scheduler_name == scheduler_name
        for pod in gang.members
    )
