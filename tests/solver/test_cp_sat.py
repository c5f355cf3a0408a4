"""CP-SAT without greedy search, relaxations or a hint finds and proves the optimum."""

from functools import partial

from hypothesis import assume, given
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.arrays import NodeTable, assignments_of, class_rows, node_table
from phalanx.solver.counting.exact import ScopeProblem, ScopeResult, solve_scope
from phalanx.solver.objective import Scorer
from phalanx.solver.single.bounds import RelaxationBounds
from phalanx.solver.single.scopes import Scope, scopes_of

from tests.solver.oracle import optimum
from tests.solver.problems import bounded, problems, subgroup_problems, tight_problems

Score = tuple[int, ...]


def ask(table: NodeTable, scope: Scope, limit: Score | None) -> ScopeResult:
    """Solve one scope; the only known bound is the least value of each objective term by itself."""
    scorer = Scorer(table.rows.problem)
    floor = partial(RelaxationBounds(table, scorer).floor, scope)
    lowest = tuple(min(0, value) for value in floor(0))
    question = ScopeProblem(
        nodes=scope.nodes, bound=lowest, limit=limit, hint=None, floor=floor, effort=10.0, tightness=10.0
    )
    return solve_scope(table, scorer, question)


def solved(problem: PlacementProblem) -> Score | None:
    """Return the best score of all scopes; each scope must be solved to optimality."""
    table = node_table(class_rows(problem))
    scores = []
    for scope in scopes_of(table, table.rows.rules.required_depth):
        answer = ask(table, scope, None)
        if answer.found is None:
            assert answer.empty
            continue
        score = Scorer(problem).score(assignments_of(table, answer.found))
        assert answer.bound == score
        scores.append(score)
    return min(scores, default=None)


@bounded(55)
@given(problems() | subgroup_problems())
def test_cp_sat_proves_the_optimum_of_any_problem(problem: PlacementProblem) -> None:
    """Problems without any minimum are skipped: no scope contains their empty placement."""
    assume(any(role.minimum for role in problem.roles))
    assert solved(problem) == optimum(problem)


@bounded(35)
@given(tight_problems())
def test_cp_sat_proves_the_optimum_of_tight_problems(problem: PlacementProblem) -> None:
    assert solved(problem) == optimum(problem)


@bounded(60)
@given(tight_problems())
def test_no_solution_is_found_below_a_limit_that_is_the_optimum(problem: PlacementProblem) -> None:
    """With the optimum as the limit, nothing is found and the bound equals the limit."""
    best = optimum(problem)
    table = node_table(class_rows(problem))
    for scope in scopes_of(table, 0) if best is not None else ():
        answer = ask(table, scope, best)
        assert answer.found is None
        assert answer.bound == best
