"""The default profile: which plugins are on, and in which order they are asked.

Where the order matters: the first objection to a gang is the one that users see; the first reason against a
node is the one that is counted; keys of orders compare one plugin after the other.
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
    "pod-affinity",
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
    "disruption",
    "disruption-budgets",
    "run-time-lost",
    "spread-evictions",
    # Which gang of a queue goes first?
    "priority",
    "start-by",
    "fifo",
)
"""Names of entry points in the group `phalanx.plugins`, which has no order of its own."""
