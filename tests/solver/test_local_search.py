"""Local search: every step is a valid placement that is better than the previous one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.rules.levels import FewestDomains
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.arrays import NodeTable, Placement, assignments_of, class_rows, node_table
from phalanx.solver.checker import check
from phalanx.solver.objective import Scorer, certify
from phalanx.solver.single.greedy import search
from phalanx.solver.single.local_search import improvements
from phalanx.solver.single.scopes import Scope, scopes_of

from tests.solver.problems import bounded, node, problems, role, tight_problems

Score = tuple[int, ...]


def scores(problem: PlacementProblem, table: NodeTable, scope: Scope, found: Placement) -> list[Score]:
    """The scores of a placement and of each improvement; each must be valid."""
    scorer = Scorer(problem)
    steps = [assignments_of(table, one) for one in (found, *improvements(table, scope, found))]
    for step in steps:
        assert check(problem, certify(scorer, step, bound=None, by="test")) == ()
    return [scorer.score(step) for step in steps]


def from_greedy(problem: PlacementProblem) -> list[list[Score]]:
    table = node_table(class_rows(problem))
    scopes = scopes_of(table, table.rows.rules.required_depth)
    pairs = [(scope, found) for scope in scopes if (found := search(table, scope)) is not None]
    return [scores(problem, table, scope, found) for scope, found in pairs]


@bounded(80)
@given(st.one_of(tight_problems(), problems()))
def test_every_step_improves_the_objective(problem: PlacementProblem) -> None:
    for steps in from_greedy(problem):
        assert sorted(set(steps), reverse=True) == steps


def racks(free: dict[str, list[int]], *sizes: tuple[int, int]) -> PlacementProblem:
    """Racks with these free GPUs per node; roles as pairs of GPUs per pod and number of pods."""
    classes = [
        replace(node(f"{rack}{index}", (gpus,), (rack,), roles=len(sizes)), domain_capacity=sum(nodes))
        for rack, nodes in free.items()
        for index, gpus in enumerate(nodes)
    ]
    roles = tuple(role(f"{gpus}-gpu", (gpus,), pods) for gpus, pods in sizes)
    return PlacementProblem(("gpu",), ("rack",), roles, tuple(classes), (FewestDomains("preferred", "rack"),))


def improved(problem: PlacementProblem, placed: dict[str, tuple[int, ...]]) -> list[Score]:
    """The scores from a placement that is given as pods of each role per node."""
    table = node_table(class_rows(problem))
    (scope,) = scopes_of(table, 0)
    nothing = (0,) * len(problem.roles)
    counts = [placed.get(name, nothing) for name in table.names]
    return scores(problem, table, scope, Placement(scope.nodes, np.array(counts, dtype=np.int64)))


def test_a_rack_is_vacated_when_its_pods_fit_in_the_others() -> None:
    """The pod of rack c fits in b; the racks with the most pods are kept."""
    problem = racks({"a": [4], "b": [4], "c": [4]}, (2, 4))
    assert improved(problem, {"a0": (2,), "b0": (1,), "c0": (1,)}) == [(3, 12), (2, 8)]


def test_all_pods_are_placed_again_when_those_of_one_rack_do_not_fit_elsewhere() -> None:
    """The large pod of c fits elsewhere only when the small pods of a and b share a node."""
    problem = racks({"a": [4], "b": [4], "c": [4]}, (4, 1), (2, 2))
    assert improved(problem, {"a0": (0, 1), "b0": (0, 1), "c0": (1, 0)}) == [(3, 12), (2, 8)]


def test_a_rack_is_exchanged_for_a_tighter_one() -> None:
    """The tightest rack, c, is too small for the pods of b."""
    problem = racks({"a": [4, 4], "b": [4, 4], "c": [2], "d": [4]}, (2, 6))
    assert improved(problem, {"a0": (2,), "a1": (2,), "b0": (2,)}) == [(2, 16), (2, 12)]


def test_no_rack_is_exchanged_when_that_costs_more() -> None:
    """The cost of nodes comes before tightness in the objective."""
    problem = racks({"a": [4], "b": [2]}, (2, 1))
    expensive = tuple(replace(one, cost=(int(one.path == ("b",)),)) for one in problem.classes)
    assert improved(problem, {"a0": (1,)}) == [(1, 4), (1, 2)]
    assert improved(replace(problem, classes=expensive), {"a0": (1,)}) == [(1, 0, 4)]
