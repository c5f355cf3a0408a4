"""Why a gang is not placed: a closed list of reasons, and the one form in which everything refuses."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from phalanx.model.names import GangId

NODES: Final = "nodes"
"""How the subject of evidence about nodes begins: its `count` says how many they are."""


class Standing(StrEnum):
    """What the reader should do about a reason: wait, correct the object, or ask for another cluster."""

    WAITING = "Waiting"
    MISCONFIGURED = "Misconfigured"
    IMPOSSIBLE = "Impossible"


class Reason(StrEnum):
    """The dominant reason of a verdict. The value is what users read in conditions, events and metrics."""

    SCHEDULING_GATED = "SchedulingGated"
    MEMBERS_MISSING = "MembersMissing"
    POD_GROUP_MISSING = "PodGroupMissing"
    NOT_A_MEMBER = "NotAMember"
    GROUP_CONTRADICTION = "GroupContradiction"
    UNSUPPORTED_FIELD = "UnsupportedField"
    INVALID_OBJECT = "InvalidObject"
    QUEUE_UNKNOWN = "QueueUnknown"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_INVALID = "QueueInvalid"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_HELD = "QueueHeld"
    BEHIND_FIRST_IN_QUEUE = "BehindFirstInQueue"
    QUEUE_LIMIT = "QueueLimit"
    ABOVE_QUEUE_LIMIT = "AboveQueueLimit"
    TOPOLOGY_UNKNOWN = "TopologyUnknown"
    VOLUME_NOT_BOUND = "VolumeNotBound"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    POD_AFFINITY = "PodAffinity"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    ABOVE_CLUSTER_CAPACITY = "AboveClusterCapacity"
    NO_DOMAIN_FITS = "NoDomainFits"
    ABOVE_DOMAIN_CAPACITY = "AboveDomainCapacity"
    NOT_TRIED_YET = "NotTriedYet"
    HELD_AFTER_FAILURE = "HeldAfterFailure"
    RECOVERING = "Recovering"
    CELLS_KEPT = "CellsKept"
    ROOM_KEPT = "RoomKept"
    RESERVATION_ENDED = "ReservationEnded"
    ROOM_BEING_MADE = "RoomBeingMade"
    PREEMPTED = "Preempted"
    WOULD_DELAY = "WouldDelay"
    BREAKER_OPEN = "BreakerOpen"
    NODES_OUT_OF_SERVICE = "NodesOutOfService"

    @property
    def standing(self) -> Standing:
        """Whether a user waits, corrects something, or can never be served by this cluster."""
        return _STANDING.get(self, Standing.WAITING)


_STANDING = {
    Reason.POD_GROUP_MISSING: Standing.MISCONFIGURED,
    Reason.NOT_A_MEMBER: Standing.MISCONFIGURED,
    Reason.GROUP_CONTRADICTION: Standing.MISCONFIGURED,
    Reason.UNSUPPORTED_FIELD: Standing.MISCONFIGURED,
    Reason.INVALID_OBJECT: Standing.MISCONFIGURED,
    Reason.QUEUE_UNKNOWN: Standing.MISCONFIGURED,
    Reason.QUEUE_NOT_LEAF: Standing.MISCONFIGURED,
    Reason.QUEUE_INVALID: Standing.MISCONFIGURED,
    Reason.NAMESPACE_NOT_ALLOWED: Standing.MISCONFIGURED,
    Reason.QUEUE_CLOSED: Standing.MISCONFIGURED,
    Reason.TOPOLOGY_UNKNOWN: Standing.MISCONFIGURED,
    Reason.ABOVE_QUEUE_LIMIT: Standing.IMPOSSIBLE,
    Reason.NO_ELIGIBLE_NODE: Standing.IMPOSSIBLE,
    Reason.ABOVE_CLUSTER_CAPACITY: Standing.IMPOSSIBLE,
    Reason.ABOVE_DOMAIN_CAPACITY: Standing.IMPOSSIBLE,
}


class Evidence(Struct, frozen=True):
    """One fact behind a verdict: what was looked at, and what was found there."""

    subject: str
    finding: str
    count: int = 1


class ExpectedStart(Struct, frozen=True):
    """When a gang that waits is to start: milliseconds since the epoch, and in words what they rest on."""

    at: int
    earliest: int
    latest: int
    method: str


class Verdict(Struct, frozen=True):
    """Why a gang waits: one dominant reason in plain words, its evidence, and what would change it.

    `start` is set for a gang that is promised one.
    """

    gang: GangId
    group: str
    reason: Reason
    message: str
    evidence: tuple[Evidence, ...] = ()
    next_step: str = ""
    start: ExpectedStart | None = None


class Problem(Struct, frozen=True):
    """Something wrong with an object itself, found while reading it; it becomes the gang's verdict."""

    reason: Reason
    message: str
    next_step: str = ""
