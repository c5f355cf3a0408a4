"""Moves: gangs that are evicted and start again elsewhere, so that another one finds room."""

from collections.abc import Mapping

from msgspec import Struct

from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.resources import Resources


class Move(Struct, frozen=True):
    """A gang that is on its way: room is kept for it until it is there again, or until then (ms).

    `seats`: what it will use per node. `pods`: those that were evicted. A pod without a group comes back as
    another gang: the next one in its namespace that has the same `controller` (its UID) and `shape`; both are
    empty for a gang that comes back as itself.
    """

    queue: QueueName
    namespace: str
    seats: Mapping[NodeName, Resources]
    pods: tuple[PodUid, ...]
    until: int
    controller: str = ""
    shape: ShapeKey = ShapeKey("")


class MovedGang(Struct, frozen=True):
    """One gang of a plan: how many pods go to each node."""

    gang: GangId
    group: str
    pods: int
    nodes: Mapping[NodeName, int]


class MovePlan(Struct, frozen=True):
    """Which gangs are moved so that `gang` can start.

    No plan moves fewer pods than `pods_bound`; none that moves as few costs less than `cost_bound`.
    `is_executed` is False where the configuration only asks for a report.
    """

    gang: GangId
    group: str
    cycle: int
    moves: tuple[MovedGang, ...]
    pods: int
    pods_bound: int
    cost: int
    cost_bound: int
    is_executed: bool
