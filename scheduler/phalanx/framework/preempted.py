"""Which gangs were evicted for others: remembered, or told by the conditions of their pods."""

from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod

_REASONS: Final = frozenset({EvictionReason.PREEMPTED, EvictionReason.CONSOLIDATED})

UNKNOWN: Final = GangId("")
"""For whom a leader before us evicted a gang."""


def preempted(
    gangs: Iterable[Gang], remembered: Mapping[GangId, GangId], *, scheduler_name: str
) -> dict[GangId, GangId]:
    """Each with the gang for which it went; not those that lose no more than they can do without."""
    found = {gang.id: UNKNOWN for gang in gangs if _is_told(gang, scheduler_name) and not stays_whole(gang)}
    return {**found, **remembered}


def is_told(pod: Pod) -> bool:
    """Whether its status says that it goes for another gang."""
    return pod.disruption in _REASONS


def stays_whole(gang: Gang) -> bool:
    """Whether enough of its members are not told that they go."""
    stay = [pod for pod in gang.members if pod.counts_for_gang and not is_told(pod)]
    return gang.disruption.eviction_mode is DisruptionMode.SINGLE or gang.minimum.is_reached(stay)


def _is_told(gang: Gang, scheduler_name: str) -> bool:
    return any(
        is_told(pod) and pod.holds_node and pod.scheduler_name == scheduler_name for pod in gang.members
    )
