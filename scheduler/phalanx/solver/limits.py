"""Limits of the searches of the solver, each with its reason.

Limits that other packages share are in `phalanx/limits.py`.
"""

from typing import Final

OBJECTIVE_COEFFICIENT_MAX: Final = 1 << 40
"""Largest coefficient in a model. Sums of 2^20 of them stay below the limit of the solver, 2^62."""

MODEL_SUM_MAX: Final = 1 << 53
"""Largest sum of a row of a model. It is exact in a double and far below the limit of the solver, 2^62."""

ARRAY_AMOUNT_MAX: Final = 1 << 50
"""Largest amount in arrays. 2^50 bytes is a pebibyte, and products with small counts stay below 2^63."""

FRAGMENT_COST_MAX: Final = 1 << 24
"""Largest expected demand per device, in thousandths of devices. Costs stay within 64 bits."""

FRAGMENT_RATIO_MAX: Final = 1 << 38
"""Largest term of the mean cores per GPU. Its product with the cores of a node stays within 64 bits."""

SOLVE_EFFORT_MIN: Final = 0.01
"""Minimum deterministic time that is charged for one CP-SAT solve. Building its model takes time too."""

SCOPES_SEARCHED_MAX: Final = 256
"""Domains that the greedy search examines for one problem. Most problems need fewer than ten."""

ROOTS_SEARCHED_MAX: Final = 2_048
"""The same while no domain was found that holds the gang. A gang is not refused because the search was too
short."""

SUBGROUP_TRIES_MAX: Final = 256
"""Domains that the greedy search tries for all subgroups of one gang. Beyond it CP-SAT takes over."""

DOMAINS_TRIED_MAX: Final = 16
"""Domains of one level that are tried alone, tightest first. The first one that could hold all pods usually
does."""

TABLE_WORK_MAX: Final = 20_000_000
"""Additions of the dynamic program for one level, about 0.1 s. Above it a simpler bound is used."""

PATTERN_CELLS_MAX: Final = 4_000_000
"""Entries of the largest array during the enumeration of patterns of pods on one node: 32 MB."""

PATTERNS_MAX: Final = 256
"""Patterns of pods on one node. With more, counting patterns is slower than examining each node."""

EXPLANATION_SOLVES_MAX: Final = 64
"""Solves for one explanation: one per constraint, per relaxation, and per binary digit of the number of pods
that fit."""

SOLVER_CACHE_ENTRIES_MAX: Final = 512
"""Cached results of such solves, the most recent ones: those of some cycles with a few hundred each. A result
takes as much memory as its placement: 100 kB for a gang on 1,000 nodes, otherwise a few hundred bytes."""

EXPLANATION_EFFORT_PART: Final = 0.1
"""Fraction of the deterministic time of an explanation for each of its solves."""

JOINT_VALUE_PART: Final = 0.75
"""Fraction of the deterministic time of joint admission for the value of the admitted gangs. The rest is for
few domains."""

JOINT_PAIRS_MAX: Final = 1 << 15
"""Pairs of a rule and a domain in the joint model: 80 gangs that require one of 400 racks. Building it takes
about a second."""

JOINT_FEWEST_PAIRS_MAX: Final = 1 << 8
"""Pairs of a gang and a domain of its preferred level up to which few of them are searched together, which
takes some tenths of a second. With more, only few domains of the widest level are."""

MOVE_ASSIGNMENTS_MAX: Final = 20_000
"""Pairs of a pod and a node in an exact search for moves: about 100 single pods on 200 nodes. With more,
building the model alone takes seconds."""

MOVE_DOMAINS_MAX: Final = 32
"""Domains that the heuristic tries to free for one plan, those with the smallest shortage: some milliseconds
each."""

CELL_OPTIONS_MAX: Final = 20_000
"""Pairs of a guarantee of cells and a possible domain in an exact choice of cells."""

CELLS_DETERMINISTIC_LIMIT: Final = 0.2
"""Deterministic time for this choice, once per cycle in which the heuristic reserves too few cells."""

VICTIM_STAGE_MAX: Final = 1 << 40
"""Objectives for victims are minimised together as one number up to this size, else one after the other."""

VICTIM_AMOUNTS_MAX: Final = 1 << 60
"""Largest sum in a model for the choice of victims. Nothing overflows 64 bits."""
