"""Tie-breaking between equally good placements, against brute force."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.queues import Objective
from phalanx.rules.problem import NodeClass, PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.checker import check
from phalanx.solver.engine import place
from phalanx.solver.objective import FRAGMENTS

from tests.solver.oracle import best_placements
from tests.solver.problems import bounded, node, problems, role

OTHERS = (Objective.SPREAD, Objective.LARGEST_HOLE)


def _ordered(problem: PlacementProblem, ties: Objective) -> PlacementProblem:
    """Each node gets its position as its order key."""
    classes: list[NodeClass] = []
    position = 0
    for group in problem.classes:
        classes.append(replace(group, order=tuple((position + at,) for at in range(len(group.nodes)))))
        position += len(group.nodes)
    return replace(problem, classes=tuple(classes), ties=ties)


def _where(free: Sequence[int], pods: int, ties: Objective, *, size: int = 1) -> dict[str, int]:
    """The placed pods by node; nodes a, b, c… have these free devices, in this order."""
    classes = tuple(node(name, (amount,)) for name, amount in zip("abcdef", free, strict=False))
    problem = PlacementProblem(("gpu",), (), (role("worker", (size,), pods),), classes)
    answer = place(_ordered(problem, ties))
    assert isinstance(answer, Placed)
    return {one.node: one.count for one in answer.assignments}


def test_spread_uses_each_node_once_before_any_twice() -> None:
    assert _where((4, 2, 1), 5, Objective.SPREAD) == {"a": 2, "b": 2, "c": 1}


def _loads(domains: Sequence[Sequence[int]], counts: Mapping[str, int]) -> list[list[int]]:
    """Pods per node, and per domain of each level from the widest; each list in descending order."""
    sum_per_domain = []
    for depth in range(1, len(domains[0]) + 1):
        load = Counter({tuple(each[:depth]): 0 for each in domains})
        for name, each in zip("abcdef", domains, strict=False):
            load[tuple(each[:depth])] += counts.get(name, 0)
        sum_per_domain.append(sorted(load.values(), reverse=True))
    per_node = sorted((counts.get(name, 0) for name in "abcdef"[: len(domains)]), reverse=True)
    return [per_node, *sum_per_domain]


@bounded(150)
@given(
    nodes=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=6
    ),
    pods=st.integers(1, 8),
)
def test_spread_is_as_even_as_possible(nodes: list[tuple[int, int, int]], pods: int) -> None:
    """Pods are spread over nodes first, then over the domains of each level from the widest."""
    domains = [(zone, 2 + 3 * zone + rack) for zone, rack, _ in nodes]
    classes = tuple(node(name, (free,)) for name, (_, _, free) in zip("abcdef", nodes, strict=False))
    problem = _ordered(
        PlacementProblem(("gpu",), (), (role("worker", (1,), pods),), classes), Objective.SPREAD
    )
    numbered = tuple(
        replace(group, order=((*group.order[0], *each),))
        for group, each in zip(problem.classes, domains, strict=True)
    )
    answer = place(replace(problem, classes=numbered, spread=2))
    ways = [
        dict(zip("abcdef", counts, strict=False))
        for counts in itertools.product(*(range(free + 1) for _, _, free in nodes))
        if sum(counts) == pods
    ]
    assert isinstance(answer, Placed) == bool(ways)
    if isinstance(answer, Placed):
        found = {one.node: one.count for one in answer.assignments}
        assert _loads(domains, found) == min(_loads(domains, way) for way in ways)


def test_the_largest_hole_is_left_by_filling_nodes_in_order() -> None:
    assert _where((4, 2, 1), 5, Objective.LARGEST_HOLE) == {"a": 4, "b": 1}


def test_pack_takes_the_tightest() -> None:
    assert _where((4, 2, 1), 3, Objective.PACK) == {"b": 2, "c": 1}


def test_roles_are_spread_together() -> None:
    classes = tuple(node(name, (2,), roles=2) for name in "abcd")
    problem = PlacementProblem(("gpu",), (), (role("ps", (1,), 2), role("worker", (1,), 2)), classes)
    answer = place(_ordered(problem, Objective.SPREAD))
    assert isinstance(answer, Placed)
    assert sorted(one.node for one in answer.assignments) == ["a", "b", "c", "d"]


def test_a_placement_without_alternatives_is_kept() -> None:
    classes = (node("a", (4,), roles=2), node("b", (3,), roles=2))
    roles = (role("large", (3,), 1), role("small", (2,), 2))
    answer = place(_ordered(PlacementProblem(("gpu",), (), roles, classes), Objective.LARGEST_HOLE))
    assert isinstance(answer, Placed)
    assert answer.errors == ()
    assert {(one.role, one.node) for one in answer.assignments} == {(0, "b"), (1, "a")}


@pytest.mark.parametrize("ties", OTHERS)
@bounded(30)
@given(problem=problems())
def test_tie_breaking_keeps_the_certificate_valid(ties: Objective, problem: PlacementProblem) -> None:
    packed, other = place(problem), place(_ordered(problem, ties))
    assert isinstance(packed, Placed) == isinstance(other, Placed)
    if isinstance(packed, Placed) and isinstance(other, Placed):
        assert other.errors == packed.errors == ()
        assert other.certificate.objective == packed.certificate.objective
        assert other.certificate.bound == packed.certificate.bound
        assert check(problem, other) == ()


@bounded(150)
@given(
    free=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    cost=st.lists(st.integers(0, 1), min_size=4, max_size=4),
    pods=st.integers(1, 6),
)
def test_no_equally_good_placement_is_on_more_nodes(free: list[int], cost: list[int], pods: int) -> None:
    classes = tuple(
        node(name, (amount,), cost=(node_cost,))
        for name, amount, node_cost in zip("abcd", free, cost, strict=False)
        if amount
    )
    problem = _ordered(
        PlacementProblem(("gpu",), (), (role("worker", (1,), 1, pods),), classes), Objective.SPREAD
    )
    answer = place(problem)
    if isinstance(answer, Placed):
        most = max(sum(count > 0 for count in counts) for (counts,) in best_placements(problem))
        assert len({one.node for one in answer.assignments}) == most


@bounded(40)
@given(problem=problems(roles=1, pods=1))
def test_a_single_pod_takes_the_node_with_the_least_fragmentation_among_equal_ones(
    problem: PlacementProblem,
) -> None:
    ordered = _ordered(problem, Objective.LEAST_FRAGMENTATION)
    answer = place(ordered)
    if not isinstance(answer, Placed) or not answer.assignments:
        return
    (one,) = answer.assignments
    names = [name for group in ordered.classes for name in group.nodes]
    places = [counts.index(1) for (counts,) in best_placements(problem)]
    assert answer.errors == ()
    assert answer.certificate.terms[-1] == FRAGMENTS
    assert names.index(one.node) == answer.certificate.objective[-1] == min(places)
    assert answer.certificate.proven


def test_an_optional_pod_that_fits_nowhere_adds_no_fragmentation() -> None:
    problem = PlacementProblem(("gpu",), (), (role("late", (5,), 0, 1),), (node("a", (1,)),))
    ordered = _ordered(problem, Objective.LEAST_FRAGMENTATION)
    answer = place(ordered)
    assert isinstance(answer, Placed)
    assert check(ordered, answer) == answer.errors == ()
    assert answer.certificate.objective == (1, 0)
