"""What a cycle has changed so far, and the capacity that it holds for members of gangs."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from phalanx.framework.states import GangState, PodState
from phalanx.model.decisions import Evict, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.supply import NO_PARTS, Parts, SessionSupply


class CapacityHold(Struct, frozen=True):
    """Capacity that is held for members of a gang which do not exist yet."""

    gang: Gang
    assignments: tuple[tuple[NodeName, tuple[Pod, ...]], ...]
    parts: Parts = NO_PARTS
    held: tuple[tuple[SessionSupply, Mapping[PodUid, Any]], ...] = ()
    """What supplies hold for pods."""


class Changes:
    """All changes of a cycle so far. Values that are absent here are as in the snapshot."""

    def __init__(self) -> None:
        self.free: dict[NodeName, Resources] = {}
        self.pods: dict[PodUid, PodState] = {}
        self.gangs: dict[GangId, GangState] = {}
        self.assigned_nodes: dict[GangId, tuple[NodeName, ...]] = {}
        self.nodes: list[NodeName] = []
        self.placements: list[Placement] = []
        self.placements_version = 0
        """Equal while the placements are the same."""
        self.evictions: list[Evict] = []
        self.capacity_holds: dict[int, CapacityHold | None] = {}
        """Numbered in the order of the decisions; None if a hold was released again."""
        self.nominated: list[tuple[QueueName, Resources]] = []
        self.ended: dict[PodUid, bool] = {}
        """Pods that are assumed to have ended."""
        self.ended_version = 0
        """Equal while these are the same."""
