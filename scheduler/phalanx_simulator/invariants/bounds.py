"""Tolerances and history sizes of the checks, each with its unit and reason."""

from typing import Final

from phalanx.limits import LEASE_DURATION_S

VERSIONS_KEPT: Final = 256
"""Versions of one object that are remembered: a node that flaps each second, seen two minutes late."""

GONE_KEPT_S: Final = 300.0
"""Seconds that something gone is remembered: events may be two minutes late."""

RECEIVED_MARGIN_S: Final = 0.2
"""Seconds before a write within which an event may have come too late for it."""

DECIDED_S: Final = 2.0
"""Seconds between a look at the cluster and a write that follows from it: a cycle takes one at most."""

SLOW_WRITES_S: Final = 120.0
"""Seconds from a decision to its last bind at most, with all the writes in between and their repetitions."""

PARTIAL_S: Final = 10.0
"""Seconds that a gang may be partly bound while nothing is wrong."""

PARTIAL_SLACK_S: Final = 5.0
"""Seconds on top: the grace begins when a cycle sees the gang, and each eviction takes two requests."""

DISTURBANCE_S: Final = LEASE_DURATION_S + PARTIAL_S
"""Seconds that trouble may lengthen what should be short: one Lease, and what is allowed without trouble."""

LATE_LANDING_S: Final = 5.0
"""Seconds after which a write that has not landed counts as unknown to its sender: it may land on others'."""

OPEN_CALLS_MAX: Final = 4096
"""Requests that are followed at once; beyond, the older half never lands: those of killed hosts."""

CONVERGED_S: Final = 5.0
"""Seconds after which a cache knows of a change, and after which a status tells of it."""

STATUS_S: Final = 10.0
"""Seconds after which a PodGroup tells of the last change of its pods: five as above, a pause for binds of
two, and two until a write that met another one is repeated."""

STATUS_CHANGES_PER_S: Final = 100
"""Changes of pods of which statuses tell in a second: a third of what is written at most."""

CACHE_PERIOD_S: Final = 300.0
"""Seconds between two looks into the caches: each compares every pod."""

STARVING_PERIOD_S: Final = 30.0
"""Seconds between two looks at waiting gangs; one that fits in two looks, with cycles between, starves."""

STARVING_GANGS: Final = 8
"""Waiting gangs looked at each time, the oldest first."""

STARVING_CYCLES: Final = 3
"""Cycles in which a gang that fits must be bound."""

IDLE_S: Final = 2 * STARVING_PERIOD_S - 5.0
"""Seconds that a gang may fit while no cycle runs: what made it fit wakes one, as the longest hold does."""

HEALED_S: Final = 20.0
"""Seconds after a disturbance when all watches follow again: the longest pause between attempts, twice."""

RESTART_ENDS_S: Final = 60.0
"""Seconds until a member that is to be restarted has left: two requests each, eight at a time, repeated."""

EVICTIONS_MAX: Final = 3
"""Evictions of one gang without running in between: more of them is a livelock."""

EVICTED_PER_MEMBER_MAX: Final = 24
"""Pods evicted for a gang until it starts, for each member of its minimum: room for one member of eight GPUs
takes eight pods of one GPU at most, and is made three times in a row."""

EVICTED_BESIDE_MAX: Final = 128
"""Pods that may go on top of that, as gangs go whole: some of the largest."""

CYCLES_AT_REST_MAX: Final = 30
"""Cycles in a minute without any change: holds and grace periods end, each of which wakes one."""

LOST_MEMBER_HOLD_S: Final = 690.0
"""Seconds that room may be kept for members that are gone: the scheduler's 600 by a clock that runs a tenth
too slow, and until the next cycle."""

NOMINATION_S: Final = 1020.0
"""The same for room that is made by evictions, of which the scheduler's own bound is 900."""

AVOID_S: Final = 300.0
"""Seconds for which a node that failed a gang is no place for that gang: half of what the scheduler keeps."""

MASS_S: Final = 270.0
"""Seconds within which half of the nodes must have turned bad for the breaker to be open: its own 300 by the
clock of a host that runs a tenth too fast."""

BREAKER_OPEN_S: Final = 340.0
"""Seconds for which nodes that turned bad may keep it open: by a clock that runs a tenth too slow."""

MASS_NODES_MIN: Final = 10
"""Nodes of which half may be a mass: the breaker's own default."""

NEW_NODE_S: Final = 150.0
"""Seconds of age in which a node that turns may only be joining: the scheduler has two minutes."""

CLOCK_RIGHT_MS: Final = 5000
"""Milliseconds by which a process may be wrong about the time and still know how old things are."""

REPORTED_S: Final = 2.0
"""Seconds between a node's turning bad and the time that its condition tells: whole seconds are written."""

MASS_RECEIVED_S: Final = 2.0
"""Seconds that a mass flip may take until a cycle has seen it."""

FAILOVER_S: Final = LEASE_DURATION_S + 10.0
"""Seconds without a leader while a candidate could lead: a Lease by a slow clock, two attempts, slack."""

FIRST_CYCLE_S: Final = 10.0
"""Seconds from leadership to the first cycle: five for lists, and what a seed may add to each."""

REFUSED_BINDS_MAX: Final = 20
"""Refused binds of one pod within a minute: with a back-off that doubles there are about ten. The scheduler
refuses a configuration that exceeds it."""

LOST_MEMBERS_S: Final = 60.0
"""Seconds beyond its gang's grace until a member on a lost node is evicted where the gang asks for it."""
