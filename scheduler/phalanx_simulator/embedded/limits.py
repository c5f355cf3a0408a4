"""Bounds of the embedded cluster."""

from typing import Final

SIM_HISTORY_CHANGES: Final = 1 << 15
"""Changes per resource that a watch can start from: three for each of 10,000 pods; about 100 MB when full."""

SIM_WATCH_QUEUE_LINES: Final = 1 << 16
"""Lines that are buffered for a slow watcher before its stream is closed: all events of a demo fit."""

SIM_BOOKMARK_PERIOD_S: Final = 60.0
"""Seconds between two bookmarks of a watch: about the API server's own."""

SIM_BOOKMARK_BEFORE_END_S: Final = 2.0
"""Seconds before the end of a watch with a timeout when it gets its last bookmark, as in the API server."""

SIM_NAME_ATTEMPTS: Final = 8
"""Attempts to find a name for generateName before the create fails, as in the API server."""

SIM_NODE_GRACE_S: Final = 50.0
"""Seconds without a heartbeat until a node's Ready becomes Unknown: kube-controller-manager's default."""

SIM_POD_GC_QUARANTINE_S: Final = 40.0
"""Seconds from the deletion of a node to that of its pods: fixed in kube-controller-manager."""

SIM_VOLUME_BIND_S: Final = 3.0
"""Seconds from the change of a volume until its claim is bound. Long, so that much can happen meanwhile."""

SIM_DISRUPTION_PENDING_S: Final = 120
"""Seconds for which a budget counts an evicted pod as deleted: fixed in kube-controller-manager."""

SIM_REQUEST_BYTES_MAX: Final = 3 << 20
"""Bytes of one request's body: the API server's own limit."""

SIM_WORK_PER_TURN: Final = 256
"""Objects that one embedded controller handles before the event loop turns again: about 20 ms."""

SIM_VIOLATIONS_KEPT: Final = 20
"""Violations of one run that are kept in full: the first ones usually cause the others."""

SIM_SEEDS_MAX: Final = 1_000_000
"""Most runs of one command: months of computing. A larger number is a typing error."""

SIM_CAPACITY_PUBLISHED_S: Final = 5.0
"""Seconds until a provisioner publishes what is left on a node. Meanwhile a scheduler must count itself."""

SIM_VOLUME_CLEANED_S: Final = 5.0
"""Seconds until a released local volume is clean and available again."""

SIM_SLICE_PUBLISHED_S: Final = 1.0
"""Seconds between two slices of a pool that a driver writes: in between the pool is incomplete."""

SIM_CLAIM_PREPARED_S: Final = 2.0
"""Seconds until a kubelet tries again to prepare the claims of a pod."""
