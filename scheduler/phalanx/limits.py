"""Every bound of the scheduler, with its unit and reason. Nothing in Phalanx grows or waits without one."""

from typing import Final

# --- the cycle ----------------------------------------------------------------------------------------------

CYCLE_PERIOD_MIN_S: Final = 0.02
"""Seconds between the starts of two cycles at least: lets a burst of events become one snapshot."""

CYCLE_PAUSE_MAX_S: Final = 0.1
"""Seconds from one cycle to the next that has a reason, at most; below that as long as the first one took."""

VERDICT_DELAY_S: Final = 0.5
"""Seconds until a cycle runs for nothing but new words: gangs that still lack members often come in a row."""

CYCLE_STUCK_S: Final = 120.0
"""Seconds after which a cycle counts as stuck and /healthz fails: far more than the slowest should take."""

NODE_JOIN_GRACE_S: Final = 120
"""Seconds after its creation in which a node that turns only joins: Kubernetes waits 60 for its kubelet."""

PARTIAL_GANG_GRACE_MS: Final = 10_000
"""Milliseconds that a gang which has not started may stay partly bound before it is released whole."""

PAST_USAGE_REPORT_PERIOD_MS: Final = 300_000
"""Milliseconds between two writes of what a queue used on average: a restart loses no more than this, and use
is averaged over hours."""

WATER_LEVEL_BITS_MAX: Final = 2048
"""Bits of the common denominator when shares are divided: enough for 50 siblings whose largest wishes are odd
numbers of bytes, or 1,000 of devices. Beyond, fractions are kept to 64 bits, or a division takes seconds."""

# --- speaking to the API server -----------------------------------------------------------------------------

HTTP_CONNECTIONS_MAX: Final = 128
"""Connections to the API server: the binds in flight, a watch per kind, and room for events and status."""

CONNECT_TIMEOUT_S: Final = 3.0
"""Seconds for a connection incl. TLS: far more than a working network needs, less than a write may take."""

READ_TIMEOUT_S: Final = 30.0
"""Seconds for a read or one page of a list: half of the API server's own request timeout."""

WATCH_IDLE_TIMEOUT_S: Final = 90.0
"""Seconds of silence until a watch counts as dead: the API server sends a bookmark about every minute."""

WATCH_SECONDS_MIN: Final = 300
"""Seconds that a watch asks to last at least, at most twice of it: what client-go asks for."""

WATCH_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before a failed list or watch is tried again for the first time."""

WATCH_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds between two attempts at most: a kind whose CRD has just been installed is seen that soon."""

OPTIONAL_KIND_RETRY_S: Final = 60.0
"""Seconds until a kind of another project that is not served is asked for again: CRDs are installed once."""

LIST_PAGE_OBJECTS: Final = 500
"""Objects in one page of a list: what kubectl and client-go ask for; a page of pods is about 3 MB."""

TCP_KEEPALIVE_IDLE_S: Final = 15
"""Seconds of silence before TCP asks whether the peer lives."""

TCP_KEEPALIVE_INTERVAL_S: Final = 5
"""Seconds between such questions."""

TCP_KEEPALIVE_PROBES: Final = 3
"""Unanswered questions until a connection counts as dead: 30 s of silence in all."""

HTTP_READ_BUFFER_BYTES: Final = 1 << 20
"""Bytes of a watch that are buffered before reading from the socket pauses: one wake-up takes many events."""

WATCH_LINE_MAX_BYTES: Final = 16 << 20
"""Bytes of one watch event: etcd holds 1.5 MiB an object by default, JSON is larger than its stored form."""

TIMEOUT_OBJECTS_KEPT: Final = 16
"""Timeouts whose aiohttp form is kept: callers use a handful of constants."""

RETRY_AFTER_MAX_S: Final = 300.0
"""Seconds that a server may ask us to wait: beyond, what it says is a mistake."""

CREDENTIAL_CHECK_PERIOD_S: Final = 60.0
"""Seconds between looks at token files and expiry times: service-account tokens change at least hourly."""

# --- reading ------------------------------------------------------------------------------------------------

AMOUNT_MAX: Final = 2**63 - 1
"""Largest amount of a resource, in its unit: Kubernetes' own int64. What is written larger counts as this."""

POD_REQUEST_MAX: Final = 2**52
"""Most that a pod counts as requesting of a resource, in its unit (4 PiB of bytes): more than a node has, and
2,000 such pods on a node still add up to a 64-bit integer."""

POD_RESOURCES_MAX: Final = 256
"""Resources that a pod asks for by name: real ones name about ten, and each is compared with every node."""

SHARED_DEVICES_MAX: Final = 64
"""GPUs of one node that are shared; no machine has more, and each is a resource of its own."""

NUMA_ZONES_MAX: Final = 64
"""NUMA zones of one node that are looked at; the largest machines have 32."""

NUMA_MEMORY_STEP_BYTES: Final = 256 << 20
"""Bytes to a multiple of which the memory of a NUMA zone is rounded down: nodes of one kind differ by less,
and those that are alike are counted once."""

NUMA_MEMORY_ROUNDED_BYTES: Final = 16 << 30
"""Bytes of a NUMA zone from which they are rounded: of less a step would be more than a sixtieth."""

NUMA_CONTAINERS_MAX: Final = 16
"""Containers of a pod that are told apart where each needs a NUMA zone; more count as so
many of the largest."""

NUMA_CACHE_ENTRIES_MAX: Final = 1 << 15
"""Answers about NUMA zones that are kept, per kind of pods, pair of kinds, or kind and state of zones: each
takes up to a quarter of a millisecond to find anew, and a kilobyte to keep."""

NUMA_DISPLACED_MAX: Final = 1 << 20
"""Pods that a pod which may span NUMA zones counts as costing there: more than any node takes."""

QUANTITY_LENGTH_MAX: Final = 64
"""Characters of a quantity: a longer one is nobody's intent, and parsing digits takes quadratic time."""

JSON_DEPTH_MAX: Final = 100
"""Objects and lists inside each other that are read of an object which is nested too deep for a decoder to
take as it is: Kubernetes' own kinds have about 15."""

QUANTITY_EXPONENT_MAX: Final = 30
"""Powers of ten in a quantity's exponent, either sign: 1e30 bytes and 1e-30 cores are beyond any machine."""

EXPLANATION_DETERMINISTIC_LIMIT: Final = 0.2
"""CP-SAT's deterministic time units for whether a gang fits the empty cluster; each other question of an
explanation gets a part."""

GANG_PROBLEMS_MAX: Final = 8
"""Problems told of one gang: enough to correct it, however many of its pods are wrong."""

# --- writing ------------------------------------------------------------------------------------------------

WRITE_CONCURRENCY: Final = 64
"""Binds in flight at once: measured optimum, 256 connections only add latency."""

WRITES_PER_SECOND: Final = 5000.0
"""Binds a second on average: more than one API server takes, so that only a smaller setting is felt."""

WRITE_BURST: Final = 500
"""Binds at once after a pause: half a second's work of a fast API server."""

BIND_ATTEMPTS_MAX: Final = 10
"""Times that one bind is sent: with the delays below about half a minute, then the gang is planned anew."""

BIND_BACKOFF_FIRST_S: Final = 0.05
"""Seconds before a bind is tried, or read back, for the second time."""

BIND_BACKOFF_LONGEST_S: Final = 5.0
"""Seconds between two attempts for one pod at most."""

BACKGROUND_WRITES_PER_SECOND: Final = 300.0
"""Events a second, and status writes a second: 10,000 verdicts take half a minute and spare the server."""

BACKGROUND_BURST: Final = 50
"""Such writes at once after a pause: what a user does by hand shows up immediately."""

BACKGROUND_ATTEMPTS_MAX: Final = 5
"""Times that one such write is tried; whoever wants it compares with the cluster and asks again."""

BACKGROUND_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before such a write is tried for the second time."""

BACKGROUND_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds between two attempts of such a write at most."""

BACKGROUND_YIELD_MAX_S: Final = 2.0
"""Seconds that such a write waits for a pause in binding; then it is sent all the same."""

STATUS_CONCURRENCY: Final = 8
"""Status writes in flight at once: a fraction of the binds'."""

STATUS_WAITING_MAX: Final = 50_000
"""Objects whose status waits to be written: about 1 KiB each."""

EVENT_CONCURRENCY: Final = 4
"""Events in flight at once: less than anything else, they are the first that may be late."""

EVENTS_WAITING_MAX: Final = 10_000
"""Events that wait to be written; the oldest are dropped: kube-scheduler keeps 1,000."""

EVENT_SERIES_MAX: Final = 10_000
"""Events remembered so that a repetition becomes a series; the longest unseen is forgotten."""

EVENT_REPEAT_PERIOD_S: Final = 360.0
"""Seconds until an event that keeps repeating is written again: what client-go's recorder takes."""

EVENT_NAME_MAX: Final = 253
"""Characters of an event's name: the API server refuses more, and a pod's name alone may be as long."""

EVENT_NOTE_MAX_BYTES: Final = 1024
"""Bytes of an event's note: the API server refuses more."""

CONDITION_MESSAGE_MAX_BYTES: Final = 4096
"""Bytes of a condition's message: enough for a verdict, and a status stays small."""

STATUS_RETRY_S: Final = 2.0
"""Seconds until a PodGroup's status that could not be written is computed and written anew."""

POD_MESSAGE_REPEAT_S: Final = 60.0
"""Seconds until a waiting pod is told new figures of the reason it knows; its PodGroup has them at once."""

STATUS_ECHO_S: Final = 30.0
"""Seconds that the cluster has to show a written status; then somebody has undone it, and it is repeated."""

STATUS_SENT_KEPT: Final = 50_000
"""Objects of which it is remembered what was written last, so that it is not written again."""

GANG_BACKOFF_FIRST_MS: Final = 100
"""Milliseconds that a gang rests after a failed bind: the cluster has changed, and it is decided anew."""

GANG_BACKOFF_LONGEST_MS: Final = 30_000
"""Milliseconds that it rests at most: what refuses binds for good is asked twice a minute."""

GANG_BACKOFF_DOUBLINGS_MAX: Final = 10
"""Times that the rest doubles: beyond, it is at its longest anyway."""

THROTTLED_WAIT_S: Final = 1.0
"""Seconds to wait after a 429 that does not say how long: what the API server says when it does."""

POD_BUSY_RETRY_S: Final = 0.01
"""Seconds until a bind looks again whether a status write on its pod has ended: a write takes about that."""

WRITE_TIMEOUT_S: Final = 5.0
"""Seconds until a write counts as unknown and is read back; ends before the Lease does."""

STOP_GRACE_S: Final = 15.0
"""Seconds that a stopping scheduler takes to finish begun gangs: half of a pod's usual grace period."""

EVICT_STOP_GRACE_S: Final = WRITE_TIMEOUT_S
"""Seconds that it takes at most to end begun evictions: what is left the next leader finds on the pods."""

REPORT_PERIOD_S: Final = 0.25
"""Seconds between two looks at what is to be reported: one status write for many changes of a gang."""

REPORT_FLUSH_S: Final = 3.0
"""Seconds that a stopping scheduler gives to events and status that still wait."""

SYNC_LOG_PERIOD_S: Final = 5.0
"""Seconds between two log lines about what start-up still waits for."""

# --- the Lease ----------------------------------------------------------------------------------------------

LEASE_DURATION_S: Final = 15.0
"""Seconds a Lease is valid without renewal: Kubernetes' own default."""

LEASE_RENEW_DEADLINE_S: Final = 10.0
"""Seconds after the last renewal when a leader stops writing, by its own monotonic clock."""

LEASE_ATTEMPT_TIMEOUT_S: Final = 3.0
"""Seconds for one request about the Lease: three of them fit before the renew deadline."""

LEASE_WRITE_MARGIN_S: Final = 1.0
"""Seconds before the renew deadline when no new write begins: each write has so long for its answer."""

LEASE_CONNECTIONS: Final = 2
"""Connections for the Lease alone: one at work, one more while a hanging one is given up."""

LEASE_RETRY_PERIOD_S: Final = 2.0
"""Seconds between two attempts to take or renew the Lease."""

LEASE_FAILED_PAUSE_S: Final = 0.25
"""Seconds after a renewal that failed: an API server that restarts should not cost the leader its Lease."""

# --- the solver ---------------------------------------------------------------------------------------------

SOLVE_DETERMINISTIC_LIMIT: Final = 0.4
"""CP-SAT's deterministic units for one gang, the same on every machine; about a second with the rest."""

OBJECTIVE_COEFFICIENT_MAX: Final = 1 << 40
"""Largest coefficient that may enter a model: sums of 2^20 of them stay below the solver's 2^62."""

MODEL_SUM_MAX: Final = 1 << 53
"""Largest sum that a row of a model can reach: exact in a double, far below the solver's own 2^62."""

ARRAY_AMOUNT_MAX: Final = 1 << 50
"""Largest amount in arrays: 2^50 bytes is a pebibyte, and products with small counts stay below 2^63."""

NODE_KINDS_MAX: Final = 32
"""Kinds of nodes that these pods tell apart: each has tables of its own, 2 MB at most, and mostly 20 kB."""

FRAGMENT_COST_MAX: Final = 1 << 24
"""Thousandths of devices that are expected to be wanted per device at most: costs stay within 64 bits."""

FRAGMENT_RATIO_MAX: Final = 1 << 38
"""Largest term of the mean cores per GPU: times the cores of a node it stays within 64 bits."""

SOLVE_EFFORT_MIN: Final = 0.01
"""Deterministic units that a question to CP-SAT costs at least: building its model takes time too."""

SCOPES_SEARCHED_MAX: Final = 256
"""Domains that greedy search looks into for one problem; most problems need fewer than ten."""

ROOTS_SEARCHED_MAX: Final = 2_048
"""The same while none was found that holds the gang: it is not refused for want of looking."""

SUBGROUP_TRIES_MAX: Final = 256
"""Domains that greedy search tries for the subgroups of one gang, all together; CP-SAT takes over then."""

DOMAINS_TRIED_MAX: Final = 16
"""Domains of one level tried by themselves, tightest first: the first that could hold all usually does."""

TABLE_WORK_MAX: Final = 20_000_000
"""Additions that the dynamic program may take for one level, about 0.1 s; above it the bound is simple."""

PATTERN_CELLS_MAX: Final = 4_000_000
"""Entries of the largest array while patterns of pods on one node are listed: 32 MB."""

PATTERNS_MAX: Final = 256
"""Patterns of pods on one node; with more, counting patterns is slower than looking at each node."""

EXPLANATION_SOLVES_MAX: Final = 64
"""Solves for one explanation: one per rule, per relaxation, per binary digit of the pods that fit."""

SOLVER_CACHE_ENTRIES_MAX: Final = 512
"""Answers to such questions that are remembered, the latest: those of some cycles, of which each asks a few
hundred. One is as large as what it places: 100 kB for a gang on 1,000 nodes, else a few hundred bytes."""

EXPLANATION_EFFORT_PART: Final = 0.1
"""Part of an explanation's deterministic units that each of its solves may take."""

JOINT_DETERMINISTIC_LIMIT: Final = 10.0
"""CP-SAT's deterministic time units for admitting many gangs together: enough for 200 on 10,000 nodes."""

JOINT_MASTER_PART: Final = 0.5
"""Part of these that one question to the master may take: the regions and a second round get theirs."""

JOINT_CEILING_PART: Final = 0.3
"""Part of one question's units that is spent on reaching the ceiling of value, before value is optimised."""

JOINT_REGION_PART: Final = 0.025
"""Part of these that one region, or putting gangs into fewer regions, may take; most take a hundredth."""

JOINT_ROUNDS_MAX: Final = 6
"""Times that the master is asked anew after regions refused its plan: most plans stand at once."""

JOINT_KNAPSACK_UNITS_MAX: Final = 1 << 18
"""Units of the knapsack that bounds the value: with 200 gangs about 0.1 s."""

JOINT_PAIRS_MAX: Final = 1 << 15
"""Pairs of gang and region in the master's model: about a second for building it."""

# --- serving ------------------------------------------------------------------------------------------------

HTTP_SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Seconds that open requests to our own endpoints may take to end when the scheduler stops."""

# --- the local control plane (demo, tests, benchmarks) ------------------------------------------------------

CONTROL_PLANE_BUILD_TIMEOUT_S: Final = 1800.0
"""Seconds for building one program from source: kube-apiserver takes about 180 s on two idle cores."""

CONTROL_PLANE_START_TIMEOUT_S: Final = 120.0
"""Seconds until a component must be ready: about 4 s on idle cores, far more when tests share them."""

CONTROL_PLANE_STOP_TIMEOUT_S: Final = 5.0
"""Seconds between asking a component to stop and killing it: an apiserver waits 60 s for open watches."""

CONTROL_PLANE_POLL_S: Final = 0.05
"""Seconds between two looks at a component that starts or stops."""

CONTROL_PLANE_PROBE_TIMEOUT_S: Final = 5.0
"""Seconds for one readiness request: an apiserver that starts answers within it or is asked again."""

CONTROL_PLANE_PORTS: Final = range(20_000, 30_000)
"""Port numbers to listen on: below the range from which Linux takes ports of outgoing connections."""

CONTROL_PLANE_MEMORY_FREE_MIN: Final = 2 << 30
"""Bytes that must be free in /dev/shm before etcd's data is put there: 10,000 pods take about 0.5 GiB."""

BULK_CREATE_CONCURRENCY: Final = 64
"""Create requests in flight at once when a fake cluster is filled: more connections only add latency."""

BULK_CREATE_TIMEOUT_S: Final = 60.0
"""Seconds for one such request: the API server's own request timeout."""

# --- the deciding process -----------------------------------------------------------------------------------

DECIDER_STOP_TIMEOUT_S: Final = 2.0
"""Seconds that the deciding process may take to end once its pipe is closed; then it is killed."""

# --- the command line ---------------------------------------------------------------------------------------

DECIDE_CYCLES_MAX: Final = 100
"""Cycles that `phalanx decide` runs at most: a cluster in which time stands still settles in a handful."""

BAD_INPUT_LINES_MAX: Final = 20
"""Mistakes in the input that are shown at once: as many as a reader corrects before trying again."""

MANIFEST_VALUES_MAX: Final = 10_000_000
"""Values in one text of manifests, aliases counted as often as used: 10,000 pods of 300 take 3 million."""

SHOWN_NAME_CHARACTERS: Final = 320
"""Characters of a name or a key that an error message shows: Kubernetes' longest label key has 317."""

SHOWN_VALUE_CHARACTERS: Final = 60
"""Characters of a wrong value that an error message shows: enough to find it in the file."""

DIFFERENCE_LINES_MAX: Final = 200
"""Lines of a difference that `phalanx replay` prints: the first of them tell where to look."""

CRD_ESTABLISHED_TIMEOUT_S: Final = 30.0
"""Seconds until the API server must serve an installed CRD: it takes well under one."""

CRD_ESTABLISHED_POLL_S: Final = 0.1
"""Seconds between two looks at a CRD that was installed."""

SHOWN_QUEUES: Final = 16
"""Queues of a circle that a message lists: enough to find it, and a message stays short."""

SHOWN_ERRORS: Final = 8
"""Wrong answers of the solver that one log line lists: the recorded cycle has them all."""

INCONCLUSIVE_KEPT_S: Final = 600.0
"""Seconds until another cycle is kept in which the solver found neither a placement nor a proof."""

IGNORED_HINTS_SHOWN: Final = 3
"""Hints that a verdict names as ignored: who wrote one wrongly wrote the others alike."""

SHOWN_NODES: Final = 8
"""Nodes of one placement that a table lists: more would fill a screen with names."""

DEMO_STEP_TIMEOUT_S: Final = 60.0
"""Seconds that one step of the demo may take: on idle cores each takes a few, and nobody watches longer."""

DEMO_POLL_S: Final = 0.1
"""Seconds between two looks of the demo when no change is heard: less than a viewer notices."""

DEMO_FRAME_S: Final = 0.1
"""Seconds between two pictures of act 1 on a terminal: it looks alive and costs little."""

# --- faults of nodes and gangs ------------------------------------------------------------------------------

CHECKED_NODES_KEPT: Final = 20_000
"""Nodes of which it is remembered which pods may run there, until they change: about 0.5 KiB each."""

NODE_LOSS_GRACE_MS: Final = 30_000
"""Milliseconds after the loss of a node until its members are evicted, unless their gang says otherwise: a
kubelet that restarts is back by then, and Kubernetes itself would wait ten times as long."""

MEMBER_FAILURE_GRACE_MS: Final = 0
"""Milliseconds after a member's failure until its gang is restarted, unless it says otherwise: nothing that
has failed comes back."""

CAPACITY_HOLD_MS: Final = 600_000
"""Milliseconds that room is kept for members that a started gang lost, or that it reserved when it started:
controllers make new pods in seconds, or in minutes where a lost node is found out late, and so does a driver
once its image is pulled and it runs; whoever has not by then is not going to."""

PLACEHOLDERS_MAX: Final = 10_000
"""Members of one gang that do not exist and for which room is kept: as many as a large gang has; they cost
about a tenth of a second per cycle."""

CAPACITY_HOLD_WITHOUT_MEMBERS_MS: Final = 60_000
"""Milliseconds of this where all members have failed: a Job makes new pods after 10 s, then 20 and 40; one
that has failed for good makes none."""

PARTIAL_GANG_RELEASED_S: Final = 60
"""Seconds after which a gang that never was whole is released: its grace, a new leader, the evictions."""

VICTIM_DETERMINISTIC_LIMIT: Final = 1.0
"""Deterministic units for the choice of the victims of one demand: two or three seconds of CPU at worst."""

MOVE_DETERMINISTIC_LIMIT: Final = 1.0
"""Deterministic units for one plan of moves: about a second."""

MOVE_ASSIGNMENTS_MAX: Final = 20_000
"""Pairs of pods and nodes in an exact search for moves: about 100 single pods on 200 nodes. Beyond it the
model alone takes seconds to build."""

MOVE_DOMAINS_MAX: Final = 32
"""Domains that simple rules try to clear for one plan, those that lack least: some milliseconds each."""

CELL_OPTIONS_MAX: Final = 20_000
"""Pairs of a guarantee of cells and a domain that could be one, in an exact search for what to keep."""

CELLS_DETERMINISTIC_LIMIT: Final = 0.2
"""Deterministic units for that search, once in each cycle in which simple rules keep too few cells."""

VICTIM_AMOUNTS_MAX: Final = 1 << 60
"""Largest sum in a model of victims, so that nothing overflows 64 bits."""

BUDGET_RECOUNT_MS: Final = 30_000
"""Milliseconds after which a PodDisruptionBudget's status has counted that a pod is being deleted: its
controller takes a second, and longer when it has much to do."""

AVOIDED_NODES_MAX: Final = 256
"""Nodes that one gang avoids: what failed it on more than these is not the nodes."""

AVOIDED_GANGS_MAX: Final = 10_000
"""Gangs of which it is remembered what they avoid: about 100 bytes a node."""
