"""Tolerances and history sizes of the checks, each with its unit and reason."""

from typing import Final

from phalanx.limits import CLAIM_BIND_TIMEOUT_S, LEASE_DURATION_S
from phalanx.model.supplies.devices.limits import DEVICE_BIND_TIMEOUT_S

VERSIONS_KEPT: Final = 256
"""Versions of one object that are remembered: a node that flaps each second, seen two minutes late."""

GONE_KEPT_S: Final = 300.0
"""Seconds that a deleted object is remembered: events may be two minutes late."""

RECEIVED_MARGIN_S: Final = 0.2
"""Seconds before a write in which an event may have arrived too late to influence it."""

DECIDED_S: Final = 2.0
"""Seconds between a snapshot and a write that follows from it: a cycle takes one at most."""

SLOW_WRITES_S: Final = 120.0
"""Most seconds from a decision to its last bind, with all writes in between and their retries."""

PARTIAL_S: Final = 10.0
"""Seconds that a gang may be partly bound without a disturbance."""

PARTIAL_SLACK_S: Final = 5.0
"""Additional seconds: the grace period begins when a cycle sees the gang, and an eviction takes two
requests."""

DISTURBANCE_S: Final = LEASE_DURATION_S + PARTIAL_S
"""Seconds that a disturbance may add: the duration of a Lease, and what is allowed without a disturbance."""

LATE_LANDING_S: Final = 5.0
"""Seconds after which the sender of a write that was not applied treats its outcome as unknown: others may
have used the capacity when it is applied."""

OPEN_CALLS_MAX: Final = 4096
"""Requests that are tracked at once. Beyond it the older half is dropped: killed hosts never complete
them."""

CONVERGED_S: Final = 5.0
"""Seconds after which a cache contains a change, and after which a status reports it."""

STATUS_S: Final = 10.0
"""Seconds after which a PodGroup's status reports the last change of its pods: five as above, two to wait for
further binds, and two until a write that conflicted is repeated."""

STATUS_CHANGES_PER_S: Final = 100
"""Pod changes that statuses report in a second: at most a third of all writes."""

CACHE_PERIOD_S: Final = 300.0
"""Seconds between two checks of the caches: each compares every pod."""

STARVING_PERIOD_S: Final = 30.0
"""Seconds between two checks of waiting gangs. A gang that fits in both, with cycles in between, starves."""

STARVING_GANGS: Final = 8
"""Waiting gangs in one check, the oldest first."""

STARVING_CYCLES: Final = 3
"""Cycles in which a gang that fits must be bound."""

IDLE_S: Final = 2 * STARVING_PERIOD_S - 5.0
"""Seconds that a gang may fit while no cycle runs: the change that made it fit triggers one."""

HEALED_S: Final = 20.0
"""Seconds after a disturbance until all watches work again: twice the longest pause between attempts."""

RESTART_ENDS_S: Final = 60.0
"""Seconds until a member that is to be restarted is deleted: two requests each, eight at a time, retried."""

EVICTIONS_MAX: Final = 3
"""Evictions of one gang that did not run in between: more of them is a livelock."""

EVICTED_PER_MEMBER_MAX: Final = 24
"""Pods evicted for a gang until it starts, per member of its minimum: one member of eight GPUs needs at most
eight victims of one GPU, three times in a row."""

EVICTED_EXTRA_MAX: Final = 128
"""Additional victims, since gangs are evicted whole: the members of a few large gangs."""

CYCLES_AT_REST_MAX: Final = 30
"""Cycles in a minute without any change: each hold and each grace period that ends triggers one."""

LOST_MEMBER_HOLD_S: Final = 690.0
"""Seconds that capacity may be held for lost members: the scheduler's 600 by a clock that runs a tenth too
slow, and the time until the next cycle."""

NOMINATION_S: Final = 1020.0
"""The same for a nomination; the scheduler's own bound is 900."""

AVOID_S: Final = 300.0
"""Seconds for which a gang must avoid a node that failed it: half of the scheduler's own period."""

MASS_S: Final = 270.0
"""Seconds within which half of the nodes must have turned bad for the breaker to be open: its own 300 by the
clock of a host that runs a tenth too fast."""

BREAKER_OPEN_S: Final = 340.0
"""Seconds for which nodes that turned bad may keep it open: by a clock that runs a tenth too slow."""

MASS_NODES_MIN: Final = 10
"""The breaker needs at least this many nodes: its own default."""

NEW_NODE_S: Final = 150.0
"""Seconds of age in which a node that turns bad may only be joining: the scheduler has two minutes."""

CLOCK_RIGHT_MS: Final = 5000
"""Clock error in milliseconds with which a process can still compute the age of a condition."""

REPORTED_S: Final = 2.0
"""Seconds between a node's turning bad and the time in its condition, which has whole seconds."""

MASS_RECEIVED_S: Final = 2.0
"""Seconds until a cycle has seen that many nodes turned bad."""

FAILOVER_S: Final = LEASE_DURATION_S + 10.0
"""Seconds without a leader while a candidate could lead: a Lease by a slow clock, two attempts, slack."""

FIRST_CYCLE_S: Final = 10.0
"""Seconds from leadership to the first cycle: five for lists, and the latency that a seed adds to each."""

REFUSED_BINDS_MAX: Final = 20
"""Refused binds of one pod within a minute: with exponential back-off there are about nine. The scheduler
rejects a configuration that exceeds it."""

LOST_MEMBERS_S: Final = 60.0
"""Seconds after the grace period until a member on a lost node is evicted, where `recovery` requests it."""

RESERVED_S: Final = 60.0
"""Seconds for which a claim to devices may be reserved for a pod without a node: binds with their retries."""

PREPARED_S: Final = DEVICE_BIND_TIMEOUT_S + 60.0
"""Seconds for which a gang may wait for devices that their drivers prepare: the bound, and a failover."""

VOLUME_WAIT_S: Final = CLAIM_BIND_TIMEOUT_S + 60.0
"""Seconds for which a claim may wait for a volume of its selected node: the bound, and a failover."""
