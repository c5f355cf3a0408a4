"""Bounds of what actions do and remember; those that other rooms know too are in
`scheduler/phalanx/limits.py`.
"""

from typing import Final

VICTIM_PRIORITIES_MAX: Final = 8
"""Steps in which victims of higher priority are looked at, each a choice of its own."""

VICTIM_TRIALS_MAX: Final = 16
"""Victims chosen by trial of which is tried whether they may stay, each a solve."""

SURPLUS_UNITS_MAX: Final = 64
"""Parts of a gang that may be evicted one by one: a member beyond its minimum, of larger gangs several."""

SHOWN_VICTIMS: Final = 5
"""Pods that a verdict names of those which must end first."""

PREEMPTORS_PER_CYCLE_MAX: Final = 16
"""Gangs for which one cycle evicts; the others' turn comes in the next one."""

CLASS_TABLES_KEPT: Final = 8
"""Tables of classes that the next cycle takes up: one is 0.5 kB a node, 5 MB on 10,000 nodes."""

CLASS_TABLE_CHANGES_PART: Final = 4
"""A table of which more than one node in so many has changed is made anew: quicker than node by node."""

GRACE_PERIOD_MS_MAX: Final = 14_400_000
"""Milliseconds that are waited for that end; room that takes longer to come is not kept."""

TYPICAL_SHAPES_MAX: Final = 512
"""Shapes of pods by which fragmentation is measured, the most frequent: a large GPU cluster has 151, and 447
where a third of its pods ask for certain models."""

TYPICAL_REQUIREMENTS_MAX: Final = 32
"""Different selectors, tolerations and the like among these pods: each is asked of every node, 10 ms on
10,000 of them."""

TYPICAL_WEIGHT_MAX: Final = 1 << 16
"""Pods that count as typical in all; of more, each shape's part counts. Costs stay within 64 bits."""

FRAGMENT_CORES_MAX: Final = 1 << 24
"""Thousandths of cores of a node, or a pod, that make a difference to fragmentation: 16,777 cores."""

FRAGMENT_DEVICES_MAX: Final = 256
"""Devices of a node that make a difference to fragmentation: no server has as many."""

SUBGROUP_CHOICES_MAX: Final = 32
"""Choices of subgroups that are tried where the first choice of those to start with finds no room: problems
to solve for one gang, each as large as the gang's minimum at most. A cycle may solve as many above its own
bounds, once."""

ENDINGS_TRIED_MAX: Final = 16
"""Gangs of which each is tried, by a solve, as the one whose end would let another start: what cannot free
enough is ruled out by counting before."""

ENDING_PAIRS_TRIED_MAX: Final = 4
"""Pairs of gangs that are tried by a solve where no single end is enough."""

ENDING_PAIRS_COUNTED_MAX: Final = 64
"""Pairs that are counted before: each costs about 0.2 ms."""

ENDING_PAIRED_MAX: Final = 12
"""Gangs that are paired in one domain, those that give back most: 66 pairs to be counted."""

ENDING_DOMAINS_MAX: Final = 4
"""Domains in which pairs are looked for, those that lack least."""

ENDINGS_NEEDED_MAX: Final = 16
"""Gangs that must end at most for a verdict to name them: of more, the missing room says more."""

ENDING_SOLVES_MAX: Final = 32
"""Solves for finding them, of the size of an explanation's: the tries above, and as many to leave out those
that are not needed."""

CYCLE_JOINT_LIMIT: Final = 0.5
"""CP-SAT's deterministic time units for looking at the starts of one cycle together: about a second at most,
since all other placements of the cycle wait for it."""

CYCLE_JOINT_GANGS_MAX: Final = 100
"""Gangs placed in a cycle that may be moved, and gangs that may be helped by it: all of them together."""

CYCLE_VALUE_QUEUES_MAX: Final = 8
"""Queues in which a cycle weighs the starts by value: they share one such effort, and each builds a model."""

RESERVATIONS_PER_QUEUE_MAX: Final = 10
"""Gangs of one queue with a reserved start where nobody ahead may be delayed: each takes some solves."""

RESERVATIONS_TRIED_MAX: Final = 32
"""Gangs for which a start is looked for in one cycle, beyond those that had one already."""

RESERVATION_GAPS_MAX: Final = 4
"""Moments tried, each by a solve, for a gang that may start and end again before a reserved start."""

RESERVATION_SOLVES_MAX: Final = 24
"""Solves for one reservation, of the size of an explanation's: one per binary digit of the ends, and gaps."""

RESERVATION_ENDS_SHOWN_MAX: Final = 8
"""Gangs that are named as those which must end before a reserved start: the last ones tell most."""

FEWEST_VICTIMS_LIMIT: Final = 0.1
"""Deterministic units to prove how many victims are needed at least: a tenth of a second or two."""

CYCLE_FEWEST_VICTIMS_LIMIT: Final = 0.3
"""Deterministic units for all such proofs of one cycle."""

FEWEST_VICTIMS_UNITS_MAX: Final = 1_000
"""Units that may be evicted, up to which that is worked out."""

CYCLE_VICTIMS_LIMIT: Final = 2.0
"""Deterministic units that one cycle may spend on choosing victims; beyond it simple rules choose."""

CONSOLIDATIONS_TRIED_MAX: Final = 2
"""Gangs for which one cycle looks for moves: seconds each in a large cluster. The next cycle goes on."""

CYCLE_MOVES_LIMIT: Final = 2.0
"""Deterministic units that one cycle may spend on plans of moves; beyond it simple rules plan."""

PREEMPTIONS_TRIED_MAX: Final = 32
"""Gangs for which one cycle looks for victims; the others' turn comes in the next one."""

CYCLE_SOLVES_MAX: Final = 20_000
"""Problems solved in one cycle at most, so that placements are sent in time; the next cycle goes on."""

CYCLE_SEARCHES_MAX: Final = 16
"""Of these, problems that need CP-SAT: each may take a second, and a cycle should end in a few."""

CYCLE_EXPLANATIONS_MAX: Final = 10
"""Refusals explained in one cycle at most: each takes about 30 ms on 1,000 nodes. Later cycles explain the
others, those first that wait longest for it."""

FAILURE_SCORE_MIN: Final = 100
"""Thousandths of a failure below which a node's score is forgotten: it moves no price."""

SCORED_NODES_MAX: Final = 20_000
"""Nodes with a score of failures: more than a cluster has; nodes that are gone decay."""
