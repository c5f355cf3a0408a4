"""Verdicts on waiting gangs: the closed list of reasons, and the objections that lead to them."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from phalanx.model import named_parts
from phalanx.model.names import GangId
from phalanx.model.texts import printable

NODES: Final = "nodes"
"""The prefix of the subject of evidence about nodes; its `count` is the number of nodes."""

UNSCHEDULABLE: Final = "Unschedulable"
"""The reason of conditions of waiting pods that cluster autoscalers expect."""


WAIT_FOR_ADVICE: Final = "Wait: what is enough is being computed"
CHANGE_FOR_ADVICE: Final = "See the evidence: which change is enough is being computed"
"""The next steps of verdicts of which the search for advice is still to come."""


class Category(StrEnum):
    """The kind of reaction to a reason: wait, correct an object, or change the gang or the cluster."""

    WAITING = "Waiting"
    MISCONFIGURED = "Misconfigured"
    IMPOSSIBLE = "Impossible"


class Reason(StrEnum):
    """The dominant reason of a verdict. Conditions, events and metrics show its value."""

    SCHEDULING_GATED = "SchedulingGated"
    MEMBERS_MISSING = "MembersMissing"
    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    NOT_A_MEMBER = "NotAMember"
    INCONSISTENT_GANG = "InconsistentGang"
    UNSUPPORTED_FIELD = "UnsupportedField"
    INVALID_OBJECT = "InvalidObject"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_INVALID = "QueueInvalid"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_HELD = "QueueHeld"
    HELD = "Held"
    BLOCKED_BY_QUEUE_HEAD = "BlockedByQueueHead"
    QUEUE_LIMIT = "QueueLimit"
    ABOVE_QUEUE_LIMIT = "AboveQueueLimit"
    PLUGIN_LIMIT = "PluginLimit"
    ABOVE_PLUGIN_LIMIT = "AbovePluginLimit"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    VOLUME_NOT_BOUND = "VolumeNotBound"
    RESOURCE_CLAIM_NOT_READY = "ResourceClaimNotReady"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    ABOVE_CLUSTER_CAPACITY = "AboveClusterCapacity"
    NO_DOMAIN_FITS = "NoDomainFits"
    ABOVE_DOMAIN_CAPACITY = "AboveDomainCapacity"
    NOT_TRIED_YET = "NotTriedYet"
    BACKOFF_AFTER_FAILURE = "BackoffAfterFailure"
    UNMANAGED_PODS = "UnmanagedPods"
    PLUGIN_ERROR = "PluginError"
    RECOVERING = "Recovering"
    CELLS_RESERVED = "CellsReserved"
    CAPACITY_RESERVED = "CapacityReserved"
    CAPACITY_NOMINATED = "CapacityNominated"
    RESERVATION_EXPIRED = "ReservationExpired"
    EVICTION_IN_PROGRESS = "EvictionInProgress"
    PREEMPTED = "Preempted"
    WOULD_DELAY_RESERVATION = "WouldDelayReservation"
    BREAKER_OPEN = "BreakerOpen"
    NODES_UNAVAILABLE = "NodesUnavailable"

    @property
    def category(self) -> Category:
        return _CATEGORIES.get(self, Category.WAITING)


_CATEGORIES = {
    Reason.POD_GROUP_NOT_FOUND: Category.MISCONFIGURED,
    Reason.WORKLOAD_NOT_FOUND: Category.MISCONFIGURED,
    Reason.NOT_A_MEMBER: Category.MISCONFIGURED,
    Reason.INCONSISTENT_GANG: Category.MISCONFIGURED,
    Reason.UNSUPPORTED_FIELD: Category.MISCONFIGURED,
    Reason.INVALID_OBJECT: Category.MISCONFIGURED,
    Reason.QUEUE_NOT_FOUND: Category.MISCONFIGURED,
    Reason.QUEUE_NOT_LEAF: Category.MISCONFIGURED,
    Reason.QUEUE_INVALID: Category.MISCONFIGURED,
    Reason.NAMESPACE_NOT_ALLOWED: Category.MISCONFIGURED,
    Reason.QUEUE_CLOSED: Category.MISCONFIGURED,
    Reason.TOPOLOGY_NOT_FOUND: Category.MISCONFIGURED,
    Reason.UNMANAGED_PODS: Category.MISCONFIGURED,
    Reason.PLUGIN_ERROR: Category.MISCONFIGURED,
    Reason.ABOVE_QUEUE_LIMIT: Category.IMPOSSIBLE,
    Reason.ABOVE_PLUGIN_LIMIT: Category.IMPOSSIBLE,
    Reason.NO_ELIGIBLE_NODE: Category.IMPOSSIBLE,
    Reason.ABOVE_CLUSTER_CAPACITY: Category.IMPOSSIBLE,
    Reason.ABOVE_DOMAIN_CAPACITY: Category.IMPOSSIBLE,
}


ALSO: Final = "also"
"""The subject of evidence that is another mistake: all are to be corrected."""


class Evidence(Struct, frozen=True, gc=False):
    """One fact behind a verdict: a subject and the finding about it."""

    subject: str
    finding: str
    count: int = 1


class ExpectedStart(Struct, frozen=True, gc=False):
    """The expected start of a waiting gang, in milliseconds since the epoch, and its method."""

    at: int
    earliest: int
    latest: int
    method: str


class Verdict(Struct, frozen=True, gc=False):
    """Why a gang waits: a dominant reason, a message, evidence, and the next step."""

    gang: GangId
    group: str
    reason: Reason
    message: str
    evidence: tuple[Evidence, ...] = ()
    next_step: str = ""
    start: ExpectedStart | None = None
    marked: "Verdict | None" = None
    """The verdict with the names marked that the scheduler put into it, if it has any. From it follows what
    tenants are shown."""

    @property
    def lacks_advice(self) -> bool:
        """Whether the search for advice is still to come."""
        return self.next_step in (WAIT_FOR_ADVICE, CHANGE_FOR_ADVICE)


def with_texts(verdict: Verdict, change: Callable[[str], str]) -> Verdict:
    evidence = [Evidence(change(each.subject), change(each.finding), each.count) for each in verdict.evidence]
    return structs.replace(
        verdict,
        group=change(verdict.group),
        message=change(verdict.message),
        next_step=change(verdict.next_step),
        evidence=tuple(evidence),
    )


def in_plain_text(verdict: Verdict) -> Verdict:
    """The verdict with all names as plain text and control characters escaped; names stay known."""
    texts = [verdict.message, verdict.next_step]
    texts += [text for each in verdict.evidence for text in (each.subject, each.finding)]
    found = with_texts(verdict, lambda text: printable(named_parts.plain(text)))
    return structs.replace(found, marked=verdict) if any(map(named_parts.has_names, texts)) else found


class Objection(Struct, frozen=True):
    """A reason not to try a gang; it becomes the verdict of the gang."""

    reason: Reason
    message: str
    next_step: str = ""
    until: int | None = None
    """When time alone may lift it, in milliseconds since the epoch; None for never."""
    others: tuple[Evidence, ...] = ()
    """What else must be corrected, so that all of it is corrected at once."""
