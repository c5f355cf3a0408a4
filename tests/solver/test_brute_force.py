"""The solver against an oracle that lists every placement."""

import pytest
from hypothesis import given
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.checker import check
from phalanx.solver.engine import place
from phalanx.solver.single import greedy

from tests.solver.oracle import optimum
from tests.solver.problems import (
    affinity_problems,
    bounded,
    problems,
    subgroup_problems,
    tight_problems,
    two_tree_problems,
)


def compare(problem: PlacementProblem) -> None:
    """The solver finds and proves the optimum, or proves that there is no placement."""
    best = optimum(problem)
    answer = place(problem)
    assert answer.errors == ()
    if not isinstance(answer, Placed):
        assert answer.proven
        assert best is None
        return
    assert best is not None
    assert check(problem, answer) == ()
    assert answer.certificate.proven
    assert answer.certificate.objective == best


@bounded(70)
@given(problems(roles=1))
def test_one_role(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(60)
@given(problems())
def test_several_roles(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(50)
@given(subgroup_problems())
def test_subgroups_with_topology_constraints(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(45)
@given(subgroup_problems())
def test_subgroups_where_greedy_search_finds_nothing(problem: PlacementProblem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "search_subgroups", lambda table, scope: None)
        compare(problem)


@bounded(30)
@given(two_tree_problems())
def test_subgroups_of_other_topologies(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(45)
@given(affinity_problems())
def test_pod_affinity_and_anti_affinity(problem: PlacementProblem) -> None:
    compare(problem)


@bounded(30)
@given(affinity_problems())
def test_pod_affinity_where_greedy_search_finds_nothing(problem: PlacementProblem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "with_affinity", lambda table, scope, found: None)
        compare(problem)


@bounded(40)
@given(tight_problems())
def test_roles_that_share_tight_nodes(problem: PlacementProblem) -> None:
    compare(problem)
