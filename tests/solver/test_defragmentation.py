"""Defragmentation plans against brute force on small clusters."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from phalanx.solver.defragmentation.engine import plan_moves
from phalanx.solver.defragmentation.greedy import greedy
from phalanx.solver.defragmentation.problem import MovePlan, MoveProblem, MoveUnit, PodSet, check

from tests.examples import holds

Free = tuple[tuple[int, ...], ...]


def _fewest(problem: MoveProblem) -> tuple[int, int] | None:
    """Pods and cost of the best set of units; every set is tried."""
    found = [
        (sum(problem.units[unit].pods for unit in some), sum(problem.units[unit].cost for unit in some))
        for count in range(1, min(problem.moves_max, len(problem.units)) + 1)
        for some in combinations(range(len(problem.units)), count)
        if _is_possible(problem, some)
    ]
    return min(found, default=None)


def _is_possible(problem: MoveProblem, some: tuple[int, ...]) -> bool:
    free = [list(each) for each in problem.free]
    for unit in some:
        for node, vector in problem.units[unit].frees:
            free[node] = [a + b for a, b in zip(free[node], vector, strict=True)]
    states = {tuple(tuple(each) for each in free)}
    wholes = [(problem.demand, problem.domains)]
    wholes += [(problem.units[unit].pod_sets, problem.units[unit].domains) for unit in some]
    for pod_sets, domains in wholes:
        states = {after for state in states for after in _afterwards(state, pod_sets, domains)}
    return bool(states)


def _afterwards(
    free: Free, pod_sets: tuple[PodSet, ...], domains: Mapping[int, int] | None
) -> Iterator[Free]:
    """Yield the free capacity after each assignment of the pods."""
    everywhere = range(len(free))
    groups = (
        [[node for node in everywhere if domains.get(node) == domain] for domain in set(domains.values())]
        if domains is not None
        else [list(everywhere)]
    )
    pods = [pod_set for pod_set in pod_sets for _ in range(pod_set.count)]

    def go(left: Free, index: int, used: dict[tuple[int, int], int], nodes: list[int]) -> Iterator[Free]:
        if index == len(pods):
            yield left
            return
        pod_set = pods[index]
        for node in nodes:
            key = (id(pod_set), node)
            after = tuple(a - b for a, b in zip(left[node], pod_set.request, strict=True))
            if min(after) >= 0 and used.get(key, 0) < pod_set.takes.get(node, 0):
                more = {**used, key: used.get(key, 0) + 1}
                yield from go((*left[:node], after, *left[node + 1 :]), index + 1, more, nodes)

    for nodes in groups:
        yield from go(free, 0, {}, nodes)


@st.composite
def problems(draw: st.DrawFn) -> MoveProblem:
    """Up to four nodes, up to four units of one or two pods."""
    count = draw(st.integers(1, 4))
    at = st.integers(0, count - 1)
    number = st.integers(0, 3)
    domains = st.none() | st.dictionaries(at, st.integers(0, 1), min_size=1)

    def pod_set(most: int) -> PodSet:
        return PodSet(
            request=(draw(st.integers(1, 3)), draw(number)),
            count=draw(st.integers(1, most)),
            takes=draw(st.dictionaries(at, st.integers(1, 2))),
        )

    units = []
    for _ in range(draw(st.integers(1, 4))):
        pod_sets = tuple(pod_set(2) for _ in range(draw(st.integers(1, 2))))
        frees = draw(st.dictionaries(at, st.tuples(number, number), max_size=2))
        pods = sum(each.count for each in pod_sets)
        units.append(
            MoveUnit(pods, draw(st.integers(1, 9)), tuple(sorted(frees.items())), pod_sets, draw(domains))
        )
    return MoveProblem(
        free=tuple(draw(st.tuples(st.integers(-1, 4), st.integers(0, 4))) for _ in range(count)),
        demand=tuple(pod_set(3) for _ in range(draw(st.integers(1, 2)))),
        domains=draw(domains),
        units=tuple(units),
        moves_max=draw(st.integers(1, 3)),
    )


@given(problems())
@holds(90)
def test_plans_move_the_fewest_pods_at_the_least_cost_and_bounds_agree(problem: MoveProblem) -> None:
    planned, best = plan_moves(problem), _fewest(problem)
    if best is None:
        assert planned.plan is None
        return
    assert planned.plan is not None
    assert (planned.plan.pods, planned.plan.cost) == best == (planned.pods_bound, planned.cost_bound)
    assert not [*check(problem, planned.plan)]


@given(problems())
@holds(150)
def test_greedy_plans_are_feasible(problem: MoveProblem) -> None:
    plan = greedy(problem)
    if plan is not None:
        assert _is_possible(problem, plan.units)
        assert not [*check(problem, plan)]


def _rack(*, spare: int) -> MoveProblem:
    """Two racks of two nodes of 8, with a pod of 4 on one node each; `spare` is free on a fifth node."""
    takes = dict.fromkeys(range(5), 2)
    pod = PodSet((4,), 1, takes)
    return MoveProblem(
        free=((8,), (4,), (8,), (4,), (spare,)),
        demand=(PodSet((8,), 2, dict.fromkeys(range(4), 1)),),
        domains={0: 0, 1: 0, 2: 1, 3: 1},
        units=(MoveUnit(1, 20, ((1, (4,)),), (pod,)), MoveUnit(1, 10, ((3, (4,)),), (pod,))),
        moves_max=2,
    )


def test_the_cheaper_rack_is_cleared() -> None:
    planned = plan_moves(_rack(spare=4))
    assert planned.plan == MovePlan(
        units=(1,), placements=(((2, 1), (3, 1)),), moved=(planned.plan.moved[0],), pods=1, cost=10
    )
    assert (planned.pods_bound, planned.cost_bound) == (1, 10)


def test_pods_move_to_the_other_rack_when_no_other_node_has_free_capacity() -> None:
    planned = plan_moves(_rack(spare=0))
    assert planned.plan is not None
    assert planned.plan.moved[0][0][0][0] in (0, 1)


def test_without_effort_the_greedy_plan_is_returned_unproven() -> None:
    planned = plan_moves(_rack(spare=4), effort=0)
    assert planned.plan is not None
    assert planned.plan.units == (1,)
    assert (planned.pods_bound, planned.cost_bound) == (1, 0)


def test_a_move_may_free_the_capacity_that_another_move_needs() -> None:
    """The pod of 4 can move only when a smaller pod leaves its target node."""
    problem = MoveProblem(
        free=((0,), (2,), (1,)),
        demand=(PodSet((4,), 1, {0: 1}),),
        domains=None,
        units=(
            MoveUnit(1, 1, ((0, (4,)),), (PodSet((4,), 1, {1: 1}),)),
            MoveUnit(1, 1, ((1, (2,)),), (PodSet((1,), 1, {2: 1}),)),
        ),
        moves_max=2,
    )
    planned = plan_moves(problem)
    assert planned.plan is not None
    assert planned.plan.units == (0, 1)
    assert planned.pods_bound == 2


def test_the_exact_search_moves_fewer_pods_than_greedy_at_a_higher_cost() -> None:
    """Three pods free exactly enough; greedy takes two pairs. The free capacity of node 1 is negative."""
    everywhere = dict.fromkeys(range(3), 2)

    def unit(pods: int, cost: int, freed: int, other: int = 0) -> MoveUnit:
        return MoveUnit(pods, cost, ((0, (freed, other)),), (PodSet((1, 0), pods, everywhere),))

    problem = MoveProblem(
        free=((0, 1), (-1, 9), (9, 9)),
        demand=(PodSet((10, 1), 1, {0: 1}),),
        domains=None,
        units=(unit(1, 5, 4), unit(2, 5, 6), unit(2, 1, 5, 100), unit(2, 1, 5, 100)),
        moves_max=4,
    )
    heuristic, planned = greedy(problem), plan_moves(problem)
    assert heuristic is not None
    assert heuristic.units == (2, 3)
    assert planned.plan is not None
    assert planned.plan.units == (0, 1)
    assert (planned.pods_bound, planned.cost_bound) == (3, 10)


def test_greedy_clears_one_node_instead_of_parts_of_many() -> None:
    pod = PodSet((2,), 1, dict.fromkeys(range(6), 4))
    problem = MoveProblem(
        free=((2,),) * 6,
        demand=(PodSet((8,), 1, dict.fromkeys(range(6), 1)),),
        domains=None,
        units=tuple(
            MoveUnit(1, 1 + (number > 0), ((node, (2,)),), (pod,)) for node in range(6) for number in range(3)
        ),
        moves_max=3,
    )
    plan = greedy(problem)
    assert plan is not None
    assert plan.units == (0, 1, 2)
