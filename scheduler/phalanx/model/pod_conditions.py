"""The reason in the condition PodScheduled of pods that wait, by the reason of their verdict.

Cluster autoscalers add nodes for pods whose condition has the reason `Unschedulable`, and for no others. So
only verdicts that a new node can change say it. docs/autoscalers.md has the same table.
"""

from enum import Enum
from typing import Final

from phalanx.model.reasons import UNSCHEDULABLE, Reason


class NewNodes(Enum):
    """What new nodes mean for a gang that waits, and what the condition of its pods says."""

    HELP = UNSCHEDULABLE
    DO_NOT_HELP = "the reason of the verdict"
    NOT_KNOWN = "as before"


_BY_CAUSE: Final[tuple[tuple[str, NewNodes, tuple[Reason, ...]], ...]] = (
    (
        "the gang lacks capacity, and new nodes bring some",
        NewNodes.HELP,
        (
            Reason.INSUFFICIENT_CAPACITY,
            Reason.ABOVE_CLUSTER_CAPACITY,
            Reason.NO_DOMAIN_FITS,
            Reason.ABOVE_DOMAIN_CAPACITY,
            Reason.NODES_UNAVAILABLE,
            Reason.CELLS_RESERVED,
            Reason.UNMANAGED_PODS,
        ),
    ),
    (
        "no node is allowed for the pods, and a new one may be",
        NewNodes.HELP,
        (
            Reason.NO_ELIGIBLE_NODE,
            Reason.POD_AFFINITY,
            Reason.POD_ANTI_AFFINITY,
            Reason.TOPOLOGY_SPREAD,
        ),
    ),
    (
        "an object has to be created or changed first",
        NewNodes.DO_NOT_HELP,
        (
            Reason.SCHEDULING_GATED,
            Reason.MEMBERS_MISSING,
            Reason.POD_GROUP_NOT_FOUND,
            Reason.WORKLOAD_NOT_FOUND,
            Reason.NOT_A_MEMBER,
            Reason.INCONSISTENT_GANG,
            Reason.UNSUPPORTED_FIELD,
            Reason.INVALID_OBJECT,
            Reason.QUEUE_NOT_FOUND,
            Reason.QUEUE_NOT_LEAF,
            Reason.QUEUE_INVALID,
            Reason.NAMESPACE_NOT_ALLOWED,
            Reason.TOPOLOGY_NOT_FOUND,
            Reason.VOLUME_NOT_BOUND,
            Reason.RESOURCE_CLAIM_NOT_READY,
        ),
    ),
    (
        "somebody decided that the gang waits",
        NewNodes.DO_NOT_HELP,
        (Reason.QUEUE_CLOSED, Reason.QUEUE_HELD, Reason.HELD, Reason.BLOCKED_BY_QUEUE_HEAD),
    ),
    (
        "a limit holds on any number of nodes",
        NewNodes.DO_NOT_HELP,
        (
            Reason.QUEUE_LIMIT,
            Reason.ABOVE_QUEUE_LIMIT,
            Reason.PLUGIN_LIMIT,
            Reason.ABOVE_PLUGIN_LIMIT,
        ),
    ),
    (
        "the gang is about to get capacity, or capacity becomes free again within minutes",
        NewNodes.DO_NOT_HELP,
        (
            Reason.EVICTION_IN_PROGRESS,
            Reason.PREEMPTED,
            Reason.RECOVERING,
            Reason.CAPACITY_RESERVED,
            Reason.CAPACITY_NOMINATED,
            Reason.RESERVATION_EXPIRED,
            Reason.WOULD_DELAY_RESERVATION,
        ),
    ),
    (
        "the scheduler or a plugin has a problem that new nodes do not solve",
        NewNodes.DO_NOT_HELP,
        (Reason.BACKOFF_AFTER_FAILURE, Reason.PLUGIN_ERROR, Reason.BREAKER_OPEN),
    ),
    ("nothing is known yet", NewNodes.NOT_KNOWN, (Reason.NOT_TRIED_YET,)),
)

CAUSES: Final = {reason: (cause, effect) for cause, effect, reasons in _BY_CAUSE for reason in reasons}
"""By reason of a verdict: why new nodes help or do not, and whether they do."""


def effect_of_new_nodes(reason: Reason) -> NewNodes:
    """Whether new nodes may let a gang start that waits for this reason."""
    return CAUSES[reason][1]
