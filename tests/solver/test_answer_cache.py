"""A cached answer equals the answer of the solver."""

import pytest
from hypothesis import given
from msgspec import structs
from phalanx.rules.problem import PlacementProblem
from phalanx.solver import answer_cache
from phalanx.solver.answer import Answer, SolveLimits
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.engine import DEFAULT_LIMITS, GREEDY_ONLY, place

from tests.examples import holds
from tests.solver.problems import node, problems, role

ASKED = PlacementProblem(
    resources=("nvidia.com/gpu",),
    levels=(),
    roles=(role("worker", (8,), 2),),
    classes=(node("n1", (8,), ()), node("n2", (8,), ())),
)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[PlacementProblem]:
    """The problems that reach the solver."""
    found: list[PlacementProblem] = []

    def counted(problem: PlacementProblem, *, limits: SolveLimits) -> Answer:
        found.append(problem)
        return place(problem, limits=limits)

    monkeypatch.setattr(answer_cache, "place", counted)
    return found


@given(problems())
@holds(80)
def test_a_cached_answer_equals_the_first_answer(problem: PlacementProblem) -> None:
    cache = AnswerCache()
    expected = place(problem, limits=GREEDY_ONLY)
    assert [cache.place(problem, limits=GREEDY_ONLY) for _ in range(2)] == [expected, expected]


def test_an_equal_problem_is_solved_once(solved: list[PlacementProblem]) -> None:
    cache = AnswerCache()
    for _ in range(3):
        cache.place(structs.replace(ASKED), limits=DEFAULT_LIMITS)
    assert len(solved) == 1


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(ASKED, seed=1),
        structs.replace(ASKED, roles=(role("worker", (8,), 1),)),
        structs.replace(ASKED, classes=(node("n1", (8,), ()), node("n3", (8,), ()))),
    ],
    ids=["seed", "minimum", "node"],
)
def test_a_different_problem_is_solved(solved: list[PlacementProblem], other: PlacementProblem) -> None:
    cache = AnswerCache()
    for problem in (ASKED, other):
        assert cache.place(problem, limits=DEFAULT_LIMITS) == place(problem, limits=DEFAULT_LIMITS)
    assert solved == [ASKED, other]


def test_the_effort_is_part_of_the_cache_key(solved: list[PlacementProblem]) -> None:
    cache = AnswerCache()
    cache.place(ASKED, limits=GREEDY_ONLY)
    cache.place(ASKED, limits=DEFAULT_LIMITS)
    assert len(solved) == 2


def test_the_least_recently_used_answer_is_evicted(solved: list[PlacementProblem]) -> None:
    cache = AnswerCache(size=2)
    first, second, third = (structs.replace(ASKED, seed=seed) for seed in range(3))
    for problem in (first, second, first, third, first, second):
        cache.place(problem, limits=DEFAULT_LIMITS)
    assert [problem.seed for problem in solved] == [0, 1, 2, 1]
