"""Evictions of one gang for another: what plugins say about them, and which gangs are being evicted."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

_REASONS: Final = frozenset({EvictionReason.PREEMPTED, EvictionReason.CONSOLIDATED})

UNKNOWN: Final = GangId("")
"""The beneficiary of an eviction that an earlier leader decided."""


class Beneficiary(Struct, frozen=True):
    """The gang for which others are evicted."""

    gang: Gang
    requested: Resources
    """What its waiting pods request in total."""
    pod_kinds: tuple[Pod, ...] = ()
    """One pod of each kind that waits."""


class QueueEvictionLimit(Struct, frozen=True):
    """How much of a queue and its descendants may be evicted for one beneficiary."""

    queue: QueueName
    amounts: Resources
    """The most that may be evicted; a resource that is absent is not limited."""
    nodes: frozenset[NodeName] | None = None
    """Only what runs on these nodes counts; None for all nodes."""
    except_largest: bool = False
    """Whether the gang that loses most of a resource does not count towards the limit of that resource."""


class PodEvictionLimit(Struct, frozen=True):
    """How many of these pods may be evicted, for all beneficiaries together."""

    name: str
    """The object that sets the limit, for messages."""
    pods: frozenset[PodUid]
    count: int
    is_hard: bool = True
    """A soft limit is exceeded, by as few pods as possible, where no other victims are enough."""
    grows_at: int | None = None
    """When (ms) time alone allows more evictions; None for never."""


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
    """Whether the pod's condition DisruptionTarget says that it is evicted for another gang."""
    return pod.disruption in _REASONS


def keeps_minimum(gang: Gang) -> bool:
    """Whether the members that are not marked for eviction are enough."""
    staying = [pod for pod in gang.members if pod.counts_for_gang and not is_marked_for_eviction(pod)]
    return gang.disruption.eviction_mode is DisruptionMode.SINGLE or gang.minimum.is_reached(staying)


def _has_marked_pods(gang: Gang, scheduler_name: str) -> bool:
    return any(
        is_marked_for_eviction(pod) and pod.holds_node and pod.scheduler_name == scheduler_name
        for pod in gang.members
    )
