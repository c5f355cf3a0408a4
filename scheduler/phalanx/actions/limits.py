"""Limits of what the actions do in one cycle, each with its reason.

Limits that other packages share are in `phalanx/limits.py`; delays before another try are in
`phalanx/framework/retry.py`.
"""

from typing import Final

VICTIM_CLASSES_MAX: Final = 8
"""Steps in which more important victims are added; each step is a choice of its own."""

VICTIM_TRIALS_MAX: Final = 16
"""Solves that check whether victims chosen by trial are unnecessary."""

SURPLUS_UNITS_MAX: Final = 64
"""Units of a gang that may be evicted one by one: members beyond its minimum, several together in larger
gangs."""

STARTS_GIVEN_UP_MAX: Final = 500
"""Starts of one cycle that may be given up, the last ones; each surplus member is one. All together they cost
less than one eviction."""

SHOWN_VICTIMS: Final = 5
"""Victims that a verdict names."""

SHOWN_DEVICES: Final = 8
"""Devices of claims that a verdict names."""

SHOWN_MEMBERS: Final = 8
"""Members of one shape that a verdict names."""

EVIDENCE_BATCHES_MAX: Final = 32
"""Shapes of pods for which a verdict says which nodes are excluded. Each looks at all nodes."""

EVIDENCE_LINES_MAX: Final = 12
"""Different findings about nodes in one verdict. More would hide the others."""

PREEMPTORS_PER_CYCLE_MAX: Final = 16
"""Gangs for which one cycle evicts. The next cycle continues with the others."""

CLASS_TABLES_KEPT: Final = 8
"""Node class tables that the next cycle reuses: one is 0.5 kB per node, 5 MB on 10,000 nodes."""

CLASS_TABLE_CHANGES_PART: Final = 4
"""A table is built again if more than one node in this many has changed: faster than node by node."""

GRACE_PERIOD_MS_MAX: Final = 14_400_000
"""Milliseconds of a grace period during which capacity is held. Capacity that is freed later is not held."""

TYPICAL_SHAPES_MAX: Final = 512
"""Most frequent pod shapes by which fragmentation is measured: a large GPU cluster has 151, or 447 if a third
of its pods request certain models."""

TYPICAL_REQUIREMENTS_MAX: Final = 32
"""Different selectors, tolerations and the like among these pods. Each is matched with every node, which
takes 10 ms on 10,000 nodes."""

TYPICAL_WEIGHT_MAX: Final = 1 << 16
"""Pods that count as typical in total; of more, the share of each shape counts. Costs stay within 64 bits."""

FRAGMENT_CORES_MAX: Final = 1 << 24
"""Thousandths of cores of a node or a pod that matter to fragmentation: 16,777 cores."""

FRAGMENT_DEVICES_MAX: Final = 256
"""Devices of a node that matter to fragmentation. No server has that many."""

DECLINED_NODES_MAX: Final = 8
"""Nodes of a placement whose claims lack volumes or devices that are left out, one at a time, in another try.
Each is a solve."""

DEVICE_DIVISIONS_MAX: Final = 12
"""Corrections of a placement whose nodes are short of devices for members that differ. Each is a solve, and
for each node some searches for devices."""

SUBGROUP_CHOICES_MAX: Final = 32
"""Choices of subgroups to try if the first one does not fit. Each is a solve at most as large as the minimum
of the gang. A cycle may do that once beyond its limits of solves."""

MEMBER_CHOICES_MAX: Final = 32
"""Sets of members to try if the first one does not fit, each by a solve like that of the first one. One more
solve shows before whether enough members fit at all."""

MEMBER_CHOICES_OF_SUBGROUPS_MAX: Final = 4
"""Such sets for each choice of subgroups."""

MEMBER_SETS_STEPS_MAX: Final = 2048
"""Steps of the enumeration of such sets. Each takes about a tenth of a millisecond for a thousand members."""

ENDINGS_TRIED_MAX: Final = 16
"""Solves that try whether the completion of one gang lets another start. Gangs that cannot free enough are
excluded by counting before."""

ENDING_PAIRS_TRIED_MAX: Final = 4
"""Pairs of gangs tried by a solve if no single completion is enough."""

ENDING_PAIRS_COUNTED_MAX: Final = 64
"""Pairs whose gain is counted before any is solved: each takes about 0.2 ms."""

ENDING_PAIRED_MAX: Final = 12
"""Gangs to pair in one domain, those that free the most: 66 pairs to count."""

ENDING_DOMAINS_MAX: Final = 4
"""Domains in which pairs are searched, those that lack the least capacity."""

ENDINGS_NEEDED_MAX: Final = 16
"""Completions that a verdict names at most. If more are needed, it names the missing capacity instead."""

ENDING_SOLVES_MAX: Final = 32
"""Solves to find completions: the tries above, and as many to exclude unnecessary ones."""

ADVICE_SOLVES_MAX: Final = 64
"""Solves to verify the advice of one verdict: each kind of advice takes one to ten. As many again for several
actions together."""

ADVICE_KINDS_MAX: Final = 4096
"""Kinds of pods that all solves for the advice of one verdict read, on all nodes. A gang of up to 64 kinds
gets all solves, and one of 4,096 kinds a single one: all tenants share the cycle."""

ADVISED_NODES_MAX: Final = 3
"""Nodes on which an advice names the amounts to free; with more, the number of pods to fit is named."""

ADVISED_PLACES_MAX: Final = 4
"""Nodes that are tried for a pod that the pod affinity of a gang needs."""

CYCLE_JOINT_LIMIT: Final = 0.5
"""Deterministic time of CP-SAT for joint admission in one cycle: about a second at most, since all other
placements of the cycle wait for it."""

CYCLE_JOINT_GANGS_MAX: Final = 100
"""Placed gangs that joint admission may move, and waiting gangs that it may help."""

UNREPAIRED_TRIED_MAX: Final = 8
"""Gangs that cannot be repaired in their domain and are tried elsewhere in one cycle; each solves twice."""

JOINT_STEPS_HELPED_MAX: Final = 8
"""Waiting gangs that are tried before the placed ones, if a joint proposal fails because of rules that its
model does not state. Each one solves all placements that may change again."""

JOINT_STEPS_MAX: Final = 200
"""Placements that one cycle tries for such proposals: as many as the gangs of one proposal, which the cycle
has tried once before."""

CYCLE_VALUE_QUEUES_MAX: Final = 8
"""Queues in which one cycle admits by value. They share the effort, and each builds a model."""

RESERVATIONS_PER_QUEUE_MAX: Final = 10
"""Reservations of one queue with conservative backfill. Each takes some solves."""

RESERVATIONS_TRIED_MAX: Final = 32
"""Gangs for which one cycle searches a first reservation."""

RESERVATION_GAPS_MAX: Final = 4
"""Times tried, each by a solve, for a gang that may start and end before a reserved start."""

RESERVATION_SOLVES_MAX: Final = 24
"""Solves for one reservation: one per binary digit of the number of ends, and the gaps."""

RESERVATION_SHARED_SOLVES_MAX: Final = 96
"""The same for a gang whose members share claims: at a time, several choices of devices may be tried."""

RESERVATION_ENDS_SHOWN_MAX: Final = 8
"""Gangs that a verdict names as those that must end before a reserved start, the last ones."""

CYCLE_VICTIMS_LIMIT: Final = 2.0
"""Deterministic time that one cycle may spend on choosing victims. Beyond, the greedy heuristic chooses."""

CONSOLIDATIONS_TRIED_MAX: Final = 2
"""Gangs for which one cycle searches moves, in seconds each in a large cluster. The next cycle continues."""

CYCLE_MOVES_LIMIT: Final = 2.0
"""Deterministic time that one cycle may spend on plans of moves. Beyond, the greedy heuristic plans."""

PREEMPTIONS_TRIED_MAX: Final = 32
"""Gangs for which one cycle searches victims. The next cycle continues with the others."""

CYCLE_SOLVES_MAX: Final = 20_000
"""Solves of one cycle, so that placements are sent in time. The next cycle continues."""

CYCLE_SEARCHES_MAX: Final = 16
"""Solves of one cycle with CP-SAT: each may take a second, and a cycle should take a few seconds."""

CYCLE_EXPLANATIONS_MAX: Final = 10
"""Refusals that one cycle explains. Later cycles explain the others, first those that have waited longest."""

EXPLAINED_KINDS_MAX: Final = 8
"""Kinds of lost or surplus members, of which an explanation takes the first that fits the empty cluster. Each
is a solve for one pod."""

FITTING_KINDS_MAX: Final = 64
"""Kinds of pods, of those that a gang may start with, of which an explanation counts how many fit; of a gang
that needs more pods, as many kinds. They are one solve: 64 kinds take about as long as the rest."""

CYCLE_EXPLANATION_SOLVES: Final = 128
"""Solves after which a cycle begins no further explanation: six to ten explanations, each in about 40 ms on
1,000 nodes."""

FAILURE_SCORE_MIN: Final = 100
"""Thousandths of a failure below which the score of a node is forgotten: it changes no cost."""

WORKLOADS_PER_SCORE_MAX: Final = 64
"""Workloads that are remembered for the score of a node. It has its full cost after ten."""

SCORED_NODES_MAX: Final = 20_000
"""Nodes with a failure score: more than a cluster has. Scores of deleted nodes decay."""

LONG_QUEUE_GANGS: Final = 64
"""Gangs of a queue that have not started beyond which pods larger than every node are refused without a
solve, which takes milliseconds."""

CROWDED_DUE_GANGS: Final = 64
"""New gangs of a queue, or such that a change of the cluster could help, beyond which one cycle looks at some
of them only: each takes up to 10 ms if it does not start."""

CROWDED_WORK: Final = 128
"""Work of one cycle on such gangs that do not start: 1 for each gang, about 0.1 ms."""

CROWDED_SOLVE_WORK: Final = 8
"""Work of a solve without a placement."""

CROWDED_WORK_BESIDE_OTHERS: Final = 16
"""The work while other queues have gangs to try, which wait for the end of the cycle."""

CROWDED_EXPLANATIONS: Final = 8
"""Refusals of a crowded queue that a cycle explains: each takes ten milliseconds or more."""

CROWDED_EXPLANATIONS_BESIDE_OTHERS: Final = 1
"""The same while other queues have gangs to try."""

CROWDED_UNEXPLAINED: Final = 16
"""Refusals of a crowded queue without an explanation beyond which a cycle tries one gang more only: every
cycle looks at these gangs."""

OPEN_GANGS_MAX: Final = 256
"""Gangs of a queue that were refused for capacity beyond which a cycle looks at some of them only: each takes
0.2 ms, and 1 ms after capacity became free."""

OPEN_GANGS_TRIED: Final = 16
"""The first of such gangs, at which each cycle looks: as many as one cycle evicts for, and more than a queue
has reservations."""

RESTING_TRIED: Final = 16
"""Others at which a cycle looks in turn, so that victims are searched for them."""

RESTING_EXPLANATIONS: Final = 2
"""Refusals that a cycle explains of a queue of which gangs rest, unless many are new."""

LET_IN_BEFORE_MAX: Final = 16
"""Gangs with reserved starts that the record of a gang names which was placed before them."""

EQUAL_GANGS_TRIED: Final = 16
"""Equal gangs of a long queue that a cycle looks at first, each in 0.3 ms; more when they are placed. As many
as one cycle evicts for, and more than a queue has reservations."""

EQUAL_GANG_MEMBERS_MAX: Final = 256
"""Members of a gang that is compared with others: reading them takes 2 ms."""
