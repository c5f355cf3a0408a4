"""Bounds that several modules share, or that somebody meets who runs Phalanx or writes its objects.

Each has its unit and its reason. Bounds that matter to one module only are in that module.
"""

from typing import Final

# --- cycle --------------------------------------------------------------------------------------------------

CYCLE_STUCK_S: Final = 120.0
"""Seconds after which a cycle counts as stuck and /healthz fails. The slowest cycle should take far less."""

PARTIAL_GANG_GRACE_MS: Final = 10_000
"""Milliseconds that a gang that has not started may stay partially bound before it is released."""

MAX_MIN_RUNTIME_DEFAULT_MS: Final = 600_000
"""Milliseconds of `disruption.minRuntime` that count where no queue sets a maximum: enough for a gang to load
its data, and an owner of reclaimed capacity waits hardly longer than for the grace periods of pods."""

RUN_TIME_NOTICE_MS: Final = 60_000
"""Milliseconds from the condition that a gang runs longer than its `runtime.max`, because of which it was
placed before a reserved start, to its eviction for that start: time to save its work, and for alerts."""

PAST_USAGE_REPORT_PERIOD_MS: Final = 300_000
"""Milliseconds between two writes of the average usage of a queue. A restart loses at most this much, and
usage is averaged over hours."""

# --- API server: reads --------------------------------------------------------------------------------------

CONNECT_TIMEOUT_S: Final = 3.0
"""Seconds for a connection including TLS. A working network needs far less; a write may take longer."""

READ_TIMEOUT_S: Final = 30.0
"""Seconds for a read or for one page of a list: half of the request timeout of the API server."""

LIST_PAGE_OBJECTS: Final = 500
"""Objects in one page of a list, as in kubectl and client-go. A page of pods is about 3 MB."""

WATCH_LINE_MAX_BYTES: Final = 16 << 20
"""Bytes of one watch event. etcd's default limit is 1.5 MiB per object, and JSON is larger than stored."""

# --- conversion of API objects ------------------------------------------------------------------------------

AMOUNT_MAX: Final = 2**63 - 1
"""Largest amount of a resource, in its unit: an int64 as in Kubernetes. Larger values are capped."""

POD_REQUEST_MAX: Final = 2**52
"""Largest request of a pod for one resource, in its unit (4 PiB of bytes). It is more than any node has, and
2,000 such pods on a node still add up to a 64-bit integer."""

HOST_PORTS_MAX: Final = 256
"""Host ports of a pod. Each is compared with every node, as its resources are."""

POD_TERMS_MAX: Final = 100
"""Terms of one field of a pod: of node affinity, pod affinity and pod anti-affinity, each required or
preferred, and spread constraints. Real pods have up to ten, and a term can list many values. Each term is
compared with every node, or with the pods there, in cycles that all tenants share."""

NAMESPACE_TERMS_MAX: Final = 1000
"""Different terms of pod affinity and spread of the pods of a namespace. A new one takes 20 us of a cycle for
each known one."""

ATTACHED_VOLUMES_MAX: Final = 1 << 20
"""Volumes of one driver that can be attached to a node. A higher limit counts as this one."""

VOLUME_SPACE_MAX: Final = POD_REQUEST_MAX
"""Bytes that a node has for new volumes where nothing limits it."""

NUMA_CACHE_ENTRIES_MAX: Final = 1 << 15
"""Cached results about NUMA zones, per pod kind, pair of pod kinds, or kind and state of the zones. Each
takes up to a quarter of a millisecond to compute and a kilobyte of memory."""

NUMA_DISPLACED_MAX: Final = 1 << 20
"""Number of pods that a pod which may span NUMA zones can displace there. It is more than any node holds."""

QUANTITY_LENGTH_MAX: Final = 64
"""Characters of a quantity. Longer ones are mistakes, and parsing digits takes quadratic time."""

EXPLANATION_DETERMINISTIC_LIMIT: Final = 0.2
"""Deterministic time of CP-SAT to decide whether a gang fits the empty cluster. Each other solve of an
explanation gets a part of it."""

OWNER_CHAIN_MAX: Final = 8
"""Controllers above a pod that are followed. Known chains have up to four; owners could own each other."""

GANG_PROBLEMS_MAX: Final = 8
"""Problems that are reported for one gang. Enough to correct it, however many of its pods are invalid."""

GANG_SHAPES_MAX: Final = 1000
"""Shapes of the waiting members of a gang. Each is compared with every node, in cycles that all share."""

# --- API server: writes -------------------------------------------------------------------------------------

WRITE_CONCURRENCY: Final = 64
"""Binds in flight. This is the measured optimum: 256 connections only add latency."""

WRITES_PER_SECOND: Final = 5000.0
"""Average binds per second. One API server handles fewer, so only a lower setting has an effect."""

WRITE_BURST: Final = 500
"""Binds that may be sent at once after a pause: half a second of work for a fast API server."""

BIND_ATTEMPTS_MAX: Final = 10
"""Attempts of one bind. With the delays below they take about half a minute; then the gang is planned
again."""

BIND_BACKOFF_FIRST_S: Final = 0.05
"""Seconds before the second attempt of a bind, or before it is read back."""

BIND_BACKOFF_LONGEST_S: Final = 5.0
"""Seconds at most between two attempts for one pod."""

CLAIM_BIND_TIMEOUT_S: Final = 600.0
"""Seconds in which all claims of a placement must be bound, as in kube-scheduler (bindTimeoutSeconds)."""

CLAIM_CHECK_PERIOD_S: Final = 0.2
"""Seconds between two looks at the claims of a placement. Provisioning takes seconds."""

STATUS_WAITING_MAX: Final = 50_000
"""Objects with a pending status write: about 1 KiB each."""

EVENTS_WAITING_MAX: Final = 10_000
"""Pending events. The oldest are dropped; kube-scheduler keeps 1,000."""

EVENT_SERIES_MAX: Final = 10_000
"""Remembered events, so that a repetition becomes a series. The least recently seen one is dropped."""

CONDITION_MESSAGE_MAX_BYTES: Final = 4096
"""Bytes of the message of a condition. Enough for a verdict in a small status."""

STATUS_SENT_KEPT: Final = 50_000
"""Objects whose last written status is remembered, so that it is not written again."""

THROTTLED_WAIT_S: Final = 1.0
"""Seconds to wait after a 429 without Retry-After: the usual value of the API server."""

POD_BUSY_RETRY_S: Final = 0.01
"""Seconds between two attempts of a bind to acquire a pod during a status write, which takes as long."""

WRITE_TIMEOUT_S: Final = 5.0
"""Seconds after which the outcome of a write is unknown and the object is read. Shorter than the Lease."""

EVICT_STOP_GRACE_S: Final = WRITE_TIMEOUT_S
"""Seconds of it to complete started evictions. The next leader finds the remaining ones on the pods."""

REPORT_PERIOD_S: Final = 0.25
"""Seconds between two reports. Many changes of a gang become one status write."""

REPORT_FLUSH_S: Final = 3.0
"""Seconds that a stopping scheduler waits for pending events and status writes."""

# --- Lease --------------------------------------------------------------------------------------------------

LEASE_DURATION_S: Final = 15.0
"""Seconds that a Lease is valid without renewal: the default of Kubernetes."""

LEASE_RENEW_DEADLINE_S: Final = 10.0
"""Seconds after the last renewal when a leader stops writing, by its own monotonic clock."""

LEASE_ATTEMPT_TIMEOUT_S: Final = 3.0
"""Seconds for one request about the Lease. Three of them fit before the renew deadline."""

# --- solver -------------------------------------------------------------------------------------------------

SOLVE_DETERMINISTIC_LIMIT: Final = 0.4
"""Deterministic time of CP-SAT for one gang, equal on every machine. With the rest about a second."""

JOINT_DETERMINISTIC_LIMIT: Final = 10.0
"""Deterministic time of CP-SAT for the joint admission of gangs. Enough for 200 gangs on 10,000 nodes."""

# --- HTTP endpoints -----------------------------------------------------------------------------------------

HTTP_SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Seconds that open requests to our HTTP endpoints may take when the scheduler stops."""

METRIC_SERIES_MAX: Final = 10_000
"""Children of one metric, by its labels: 2,500 queues with four resources. Prometheus may be configured to
drop all metrics of a target that has too many."""

# --- command line -------------------------------------------------------------------------------------------

DECIDE_CYCLES_MAX: Final = 100
"""Cycles of one `phalanx decide`. A cluster in which nothing ends converges in a handful."""

BAD_INPUT_LINES_MAX: Final = 20
"""Input errors that are printed at once: as many as a user corrects before the next try."""

MANIFEST_VALUES_MAX: Final = 10_000_000
"""Values in one manifest file; aliases count as often as they are used. 10,000 pods of 300 values are 3
million."""

SHOWN_VALUE_CHARACTERS: Final = 60
"""Characters of an invalid value in an error message. Enough to find it in the file."""

SHOWN_QUEUES: Final = 16
"""Queues of a cycle in the queue tree that a message lists."""

INCONCLUSIVE_KEPT_S: Final = 600.0
"""Seconds before another cycle is recorded in which the solver found neither a placement nor a proof."""

NOMINATED_PODS_NAMED_MAX: Final = 3
"""Names of nominated pods of other schedulers that verdicts show per node and priority."""

SHOWN_NODES: Final = 8
"""Nodes of one placement that a table lists. More would fill a screen with names."""

# --- recovery, preemption, moves ----------------------------------------------------------------------------

CHECKED_NODES_KEPT: Final = 20_000
"""Nodes whose eligibility for pods is cached until they change: about 0.5 KiB each."""

NODE_LOSS_GRACE_MS: Final = 30_000
"""Milliseconds between the loss of a node and the eviction of its members, unless their gang sets another
value. A restarted kubelet is back by then, and Kubernetes itself would wait ten times as long."""

CAPACITY_HOLD_MS: Final = 600_000
"""Milliseconds that capacity is held for lost members of a started gang, or for members that it reserved when
it started. Controllers create new pods in seconds, or in minutes if a lost node is detected late. A driver
does it once its image is pulled and it runs. After this time new pods are no longer expected."""

RECORDED_KINDS_MAX: Final = 256
"""Kinds of members in the record of a gang: more than all subgroups with several roles each. Members of
further kinds are not replaced ahead of other work."""

PLACEHOLDERS_MAX: Final = 10_000
"""Missing members of one gang for which capacity is held: a large gang. They cost about 0.1 s per cycle."""

PARTIAL_GANG_RELEASED_S: Final = 60
"""Seconds after which a gang that never was complete is released: its grace period, a new leader, the
evictions."""

VICTIM_DETERMINISTIC_LIMIT: Final = 1.0
"""Deterministic time of CP-SAT to choose the victims for one demand: at most two or three seconds of CPU."""

MOVE_DETERMINISTIC_LIMIT: Final = 1.0
"""Deterministic time of CP-SAT for one move plan: about a second."""

AVOIDED_NODES_MAX: Final = 256
"""Nodes that one gang avoids. A gang that fails on more nodes does not fail because of the nodes."""

AVOIDED_GANGS_MAX: Final = 10_000
"""Gangs whose avoided nodes are remembered: about 100 bytes per node."""

RECORDING_BYTES_MAX: Final = 1 << 30
"""Bytes of an unpacked recording of a cycle. One of 100,000 pods has about 120 MB. A larger file may be made
to exhaust the memory of its reader."""
