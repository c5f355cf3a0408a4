"""Bounds hold and nothing false is proven when the search is cut short, against all placements.

Small problems never reach the limits of the search, so these are lowered.
"""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.rules.problem import PlacementProblem
from phalanx.solver import engine
from phalanx.solver.answer import Placed, SolveLimits
from phalanx.solver.checker import check
from phalanx.solver.counting import node_groups
from phalanx.solver.engine import place
from phalanx.solver.single import branch_and_bound, fewest_domains, tightness_bounds, tree_knapsack

from tests.solver.oracle import optimum
from tests.solver.problems import (
    affinity_problems,
    bounded,
    problems,
    subgroup_problems,
    tight_problems,
    two_tree_problems,
)

LIMITS: tuple[tuple[ModuleType, str], ...] = (
    (fewest_domains, "TABLE_WORK_MAX"),
    (fewest_domains, "OUTER_SWAPS_MAX"),
    (tree_knapsack, "TIGHTEST_CELLS_MAX"),
    (tightness_bounds, "DOMAIN_CHOICES_MAX"),
    (branch_and_bound, "SCOPES_SEARCHED_MAX"),
    (branch_and_bound, "ROOTS_SEARCHED_MAX"),
    (branch_and_bound, "TIGHTNESS_STEPS_MAX"),
    (branch_and_bound, "TIGHTNESS_NODES_MAX"),
    (engine, "TIGHTNESS_NODES_MAX"),
    (node_groups, "PATTERN_CELLS_MAX"),
    (node_groups, "PATTERNS_MAX"),
)

LOWERED = st.lists(st.tuples(st.sampled_from(range(len(LIMITS))), st.integers(0, 2)), min_size=1, max_size=4)
EFFORT = st.sampled_from((0.0, 0.0, 0.0001, 0.001, 0.4))


def compare(problem: PlacementProblem, lowered: list[tuple[int, int]], effort: float) -> None:
    """The answer is valid, its bound holds, and what it calls proven is so."""
    best = optimum(problem)
    with pytest.MonkeyPatch.context() as patch:
        for number, limit in lowered:
            patch.setattr(*LIMITS[number], limit)
        answer = place(problem, limits=SolveLimits(deterministic=effort))
    assert answer.errors == ()
    if not isinstance(answer, Placed):
        assert best is None or not answer.proven
        return
    assert best is not None
    assert check(problem, answer) == ()
    assert answer.certificate.bound <= best <= answer.certificate.objective


@bounded(90)
@given(problem=problems(roles=1) | problems() | tight_problems(), lowered=LOWERED, effort=EFFORT)
def test_roles_and_topology(problem: PlacementProblem, lowered: list[tuple[int, int]], effort: float) -> None:
    compare(problem, lowered, effort)


@bounded(60)
@given(
    problem=subgroup_problems() | two_tree_problems() | affinity_problems(), lowered=LOWERED, effort=EFFORT
)
def test_subgroups_and_affinity(
    problem: PlacementProblem, lowered: list[tuple[int, int]], effort: float
) -> None:
    compare(problem, lowered, effort)
