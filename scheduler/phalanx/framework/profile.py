"""The default profile: the enabled plugins, in the order in which they are asked.

The order decides which objection to a gang users see (the first one) and which reason against a node is
counted (the first one). Keys of orders compare one plugin after the other.
"""

from typing import Final

DEFAULT_PROFILE: Final = (
    # May the gang be tried?
    "objects",
    "queues",
    "queue-state",
    "failed-binds",
    "scheduling-gates",
    # Which nodes may its pods use, and which are better?
    "volumes",
    "node-health",
    "unschedulable-nodes",
    "gpu-sharing",
    "numa-zones",
    "taints",
    "node-affinity",
    "declared-features",
    "pod-affinity",
    "topology-spread",
    "image-locality",
    "allocation",
    "node-failure-history",
    # What must hold for its pods together?
    "topology",
    "queue-limits",
    "not-preemptible",
    "cells",
    # Which queue goes first?
    "queue-priority",
    "drf",
    # Which gangs may be evicted for it, and at which cost?
    "priority-preemption",
    "reclaim",
    "exceeded-run-time",
    "disruption",
    "preemption-delay",
    "disruption-budgets",
    "run-time-lost",
    "spread-evictions",
    # Which gang of a queue goes first?
    "priority",
    "start-by",
    "fifo",
    # What do bound pods get beside their nodes?
    "scale-down",
)
"""Names of entry points in the group `phalanx.plugins`, which has no order of its own."""
