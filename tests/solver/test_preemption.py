"""The choice of victims against brute force on small clusters."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.solver.preemption.engine import choose_victims
from phalanx.solver.preemption.exact import ExactResult, cheapest
from phalanx.solver.preemption.greedy import cheapest_first, most_for_the_cost
from phalanx.solver.preemption.limit_bounds import allow_too_little
from phalanx.solver.preemption.presolve import cost_bound, reduced_scope
from phalanx.solver.preemption.problem import (
    EvictionLimit,
    EvictionUnit,
    PodDemand,
    PreemptionProblem,
    QuotaLimit,
    SoftEvictionLimit,
    TargetNode,
    VictimSet,
    check,
)
from phalanx.solver.preemption.scopes import scopes_of, whole

from tests.examples import holds


def _cheapest(problem: PreemptionProblem) -> int | None:
    """The least cost of all sufficient sets of units; every set is tried."""
    best: int | None = None
    for count in range(len(problem.units) + 1):
        for chosen in combinations(range(len(problem.units)), count):
            cost = sum(problem.units[unit].cost for unit in chosen)
            for soft_limit in problem.soft_limits:
                cost += problem.violation_cost * max(
                    0, sum(c for u, c in soft_limit.pods if u in chosen) - soft_limit.most
                )
            if (best is None or cost < best) and _is_enough(problem, set(chosen)):
                best = cost
    return best


def _is_enough(problem: PreemptionProblem, chosen: set[int]) -> bool:
    if any(not set(problem.units[unit].requires) <= chosen for unit in chosen):
        return False
    for limit in problem.eviction_limits:
        taken = [
            sum(vector[i] for unit, vector in limit.amounts if unit in chosen)
            for i in range(len(limit.limit))
        ]
        for i in range(len(limit.limit)) if limit.groups else ():
            evicted = [
                (group, vector[i])
                for (unit, vector), group in zip(limit.amounts, limit.groups, strict=True)
                if unit in chosen
            ]
            taken[i] -= max((sum(a for g, a in evicted if g == group) for group, _ in evicted), default=0)
        if any(amount > most for amount, most in zip(taken, limit.limit, strict=True)):
            return False
    for quota in problem.quota_limits:
        for position, index in enumerate(quota.resources):
            requested = sum(demand.request[index] * demand.count for demand in problem.demands)
            freed = sum(vector[position] for unit, vector in quota.frees if unit in chosen)
            if requested > quota.limit[position] + freed:
                return False
    free = [
        tuple(
            have
            + sum(vector[i] for unit in chosen for node, vector in problem.units[unit].frees if node == p)
            for i, have in enumerate(each.free)
        )
        for p, each in enumerate(problem.nodes)
    ]
    return any(
        _has_place(
            problem,
            [free[p] for p, each in enumerate(problem.nodes) if each.domain == domain],
            [each.max_pods for each in problem.nodes if each.domain == domain],
        )
        for domain in {each.domain for each in problem.nodes}
    )


def _has_place(problem: PreemptionProblem, free: list[tuple[int, ...]], takes: list[tuple[int, ...]]) -> bool:
    """Whether all pods fit; every assignment is tried."""
    pods = [index for index, demand in enumerate(problem.demands) for _ in range(demand.count)]
    seen: set[object] = set()

    def go(position: int, free: tuple[tuple[int, ...], ...], used: tuple[tuple[int, ...], ...]) -> bool:
        if position == len(pods):
            return True
        if (position, free, used) in seen:
            return False
        seen.add((position, free, used))
        demand = pods[position]
        request = problem.demands[demand].request
        for node, have in enumerate(free):
            is_fit = all(a >= b or b == 0 for a, b in zip(have, request, strict=True))
            if is_fit and used[node][demand] < takes[node][demand]:
                left = tuple(a - b for a, b in zip(have, request, strict=True))
                more = tuple(count + (index == demand) for index, count in enumerate(used[node]))
                if go(
                    position + 1,
                    (*free[:node], left, *free[node + 1 :]),
                    (*used[:node], more, *used[node + 1 :]),
                ):
                    return True
        return False

    return go(0, tuple(free), tuple((0,) * len(problem.demands) for _ in free))


@st.composite
def problems(draw: st.DrawFn, *, demands: int = 1) -> PreemptionProblem:
    """Up to four nodes in one or two domains, and up to six units, some of which require another."""
    number = st.integers(0, 4)
    nodes = draw(
        st.lists(
            st.builds(
                TargetNode,
                free=st.tuples(st.integers(-1, 3), number),
                max_pods=st.tuples(*[st.integers(0, 3)] * demands),
                domain=st.integers(0, 1),
            ),
            min_size=1,
            max_size=4,
        )
    )
    vectors = st.tuples(number, number)
    at = st.integers(0, len(nodes) - 1)
    units = []
    for index in range(draw(st.integers(0, 6))):
        frees = draw(st.dictionaries(at, vectors, max_size=3))
        requires = draw(st.sets(st.integers(0, index - 1), max_size=1)) if index else set()
        units.append(
            EvictionUnit(draw(st.integers(1, 9)), tuple(sorted(frees.items())), tuple(sorted(requires)))
        )
    some = st.lists(
        st.tuples(st.integers(0, max(0, len(units) - 1)), st.tuples(number)),
        max_size=4,
        unique_by=lambda e: e[0],
    )
    quota_limits = [QuotaLimit((0,), (draw(st.integers(0, 6)),), tuple(draw(some)))] if units else []
    eviction_limits = [EvictionLimit((draw(st.integers(0, 8)),), tuple(draw(some)))] if units else []
    if eviction_limits and draw(st.booleans()):
        groups = tuple(draw(st.integers(0, 2)) for _ in eviction_limits[0].amounts)
        eviction_limits = [replace(eviction_limits[0], groups=groups)]
    counts = st.dictionaries(st.integers(0, max(0, len(units) - 1)), st.integers(1, 4), max_size=4)
    soft_limit = st.builds(
        SoftEvictionLimit,
        most=st.integers(0, 3),
        pods=counts.map(lambda takes: tuple(sorted(takes.items()))),
    )
    soft_limits = draw(st.lists(soft_limit, max_size=2)) if units else []
    return PreemptionProblem(
        demands=tuple(
            PodDemand(draw(st.tuples(st.integers(1, 3), number)), draw(st.integers(1, 3)))
            for _ in range(demands)
        ),
        nodes=tuple(nodes),
        units=tuple(units),
        quota_limits=tuple(quota_limits) if draw(st.booleans()) else (),
        eviction_limits=tuple(eviction_limits) if draw(st.booleans()) else (),
        soft_limits=tuple(soft_limits),
        violation_cost=draw(st.sampled_from((1, 60))),
    )


def test_a_unit_counted_for_two_nodes_frees_its_capacity_once() -> None:
    """The second unit requires the first one, which frees nothing on the node of the second."""
    nodes = tuple(TargetNode(free=(free, 0), max_pods=(free,), domain=0) for free in (2, 1))
    first = EvictionUnit(1, ((0, (0, 2)),))
    second, third = EvictionUnit(1, ((1, (0, 2)),), requires=(0,)), EvictionUnit(1, ((0, (0, 2)),))
    problem = PreemptionProblem((PodDemand((1, 2), 3),), nodes, (first, second, third))
    for found in (most_for_the_cost(problem, whole(problem)), choose_victims(problem).choice):
        assert found is not None
        assert found.units == (0, 1, 2)


@given(problems())
@holds(80)
def test_one_demand_gets_the_cheapest_victims_with_a_proof(problem: PreemptionProblem) -> None:
    choice, least = choose_victims(problem).choice, _cheapest(problem)
    if least is None:
        assert choice is None
        return
    assert choice is not None
    assert choice.cost == least
    assert choice.proven
    assert _is_enough(problem, set(choice.units))


@given(problems(demands=2))
@holds(80)
def test_the_bound_is_valid_for_two_demands(problem: PreemptionProblem) -> None:
    choice, least = choose_victims(problem).choice, _cheapest(problem)
    if least is not None:
        assert choice is not None
        assert choice.bound <= least


@given(problems())
@holds(90)
def test_greedy_victims_are_sufficient(problem: PreemptionProblem) -> None:
    for scope in scopes_of(problem):
        for rule in (cheapest_first, most_for_the_cost):
            choice = rule(problem, scope)
            assert choice is None or _is_enough(problem, set(choice.units))


@given(problems() | problems(demands=2))
@holds(200)
def test_limits_that_allow_too_little_exclude_every_choice(problem: PreemptionProblem) -> None:
    if all(allow_too_little(problem, scope) for scope in scopes_of(problem)):
        assert _cheapest(problem) is None


@pytest.mark.parametrize(
    ("most", "groups", "excludes"), [(3, (), True), (4, (), False), (0, (0, 1, 2), False)]
)
def test_limits_are_compared_with_what_must_be_freed(
    most: int, groups: tuple[int, ...], excludes: bool
) -> None:
    """A pod of 8 needs 4 of a node with 4 free, or 8 of a full one."""
    nodes = tuple(TargetNode((free,), max_pods=(1,)) for free in (4, 4, 0))
    units = tuple(EvictionUnit(1, frees=((node, (amount,)),)) for node, amount in enumerate((4, 4, 8)))
    limit = EvictionLimit((most,), tuple((unit, (units[unit].frees[0][1])) for unit in range(3)), groups)
    problem = PreemptionProblem((PodDemand((8,), 1),), nodes, units, eviction_limits=(limit,))
    assert allow_too_little(problem, whole(problem)) is excludes
    two = replace(problem, demands=(PodDemand((8,), 3),))
    assert allow_too_little(two, whole(two)) is (most + bool(groups) * 8 < 16)


def test_one_victim_instead_of_ten() -> None:
    """Volcano #5984: to evict ten small gangs of one node is not better than one large gang of another."""
    small = [EvictionUnit(cost=3, frees=((0, (1,)),)) for _ in range(10)]
    problem = PreemptionProblem(
        demands=(PodDemand((10,), 1),),
        nodes=(TargetNode((0,), (1,)), TargetNode((0,), (1,))),
        units=(*small, EvictionUnit(cost=20, frees=((1, (10,)),))),
    )
    choice = choose_victims(problem).choice
    assert choice is not None
    assert choice.units == (10,)
    assert choice.proven


@given(problems(demands=2))
@holds(100)
def test_the_cost_bound_is_never_above_the_optimum(problem: PreemptionProblem) -> None:
    least = _cheapest(problem)
    if least is not None:
        assert min(cost_bound(problem, scope) for scope in scopes_of(problem)) <= least


@given(problems())
@holds(100)
def test_without_effort_victims_are_sufficient_and_the_bound_is_valid(problem: PreemptionProblem) -> None:
    choice, least = choose_victims(problem, effort=0.0).choice, _cheapest(problem)
    if choice is not None:
        assert least is not None
        assert choice.bound <= least <= choice.cost
        assert _is_enough(problem, set(choice.units))


@given(problems(), st.integers(1, 3))
@holds(100)
def test_presolve_never_excludes_units_of_a_cheaper_choice(problem: PreemptionProblem, more: int) -> None:
    least = _cheapest(problem)
    if least:
        found = [
            cheapest(
                problem, reduced_scope(problem, scope, least + more), below=least + more, effort=1.0
            ).choice
            for scope in scopes_of(problem)
        ]
        assert min(each.cost for each in found if each is not None) == least


def _rows(*gangs: tuple[int, tuple[int, ...]], nodes: int, pods: int) -> PreemptionProblem:
    """Nodes of 8 devices, gangs by cost and the whole nodes that they hold, pods that need a whole node."""
    units = tuple(EvictionUnit(cost, tuple((node, (8,)) for node in held)) for cost, held in gangs)
    return PreemptionProblem((PodDemand((8,), pods),), (TargetNode((0,), (1,)),) * nodes, units)


def test_a_gang_on_many_nodes_is_valued_for_all_of_them() -> None:
    """Per node, it seems to cost more than the small gangs."""
    small = [(10, (node,)) for node in range(4)]
    problem = _rows(*small, (24, (4, 5, 6, 7)), nodes=8, pods=4)
    choice = most_for_the_cost(problem, whole(problem))
    assert choice is not None
    assert choice.units == (4,)


def test_the_eager_order_notices_a_node_that_becomes_cheaper() -> None:
    """After the second unit is evicted for the last node, the first and third clear two nodes for 11."""
    problem = PreemptionProblem(
        demands=(PodDemand((8,), 3),),
        nodes=(TargetNode((0,), (1,)),) * 4,
        units=(
            EvictionUnit(10, ((0, (4,)), (1, (4,)))),
            EvictionUnit(1, ((1, (4,)), (3, (8,)))),
            EvictionUnit(1, ((0, (4,)),)),
            EvictionUnit(7, ((2, (8,)),)),
        ),
    )
    eager = most_for_the_cost(problem, whole(problem))
    lazy = most_for_the_cost(problem, whole(problem), is_eager=False)
    assert eager is not None
    assert lazy is not None
    assert (eager.units, lazy.units) == ((0, 1, 2), (0, 1, 3))


def _scattered(seed: int) -> PreemptionProblem:
    """Twenty nodes of four slots, gangs of one to six pods anywhere on them; six pods need a node each."""
    rng = random.Random(seed)
    slots = rng.sample([node for node in range(20) for _ in range(4)], 80)
    units = []
    while slots:
        held = [slots.pop() for _ in range(min(len(slots), rng.randint(1, 6)))]
        frees = tuple((node, (2 * held.count(node),)) for node in sorted(set(held)))
        units.append(EvictionUnit(rng.randint(1, 40), frees))
    return PreemptionProblem((PodDemand((8,), 6),), (TargetNode((0,), (1,)),) * 20, tuple(units))


@pytest.mark.parametrize("seed", [2, 10, 14, 40, 48, 55])
def test_without_effort_the_better_greedy_order_is_used(seed: int) -> None:
    """With some seeds the eager order is better, with others the lazy order."""
    problem = _scattered(seed)
    found = [most_for_the_cost(problem, whole(problem), is_eager=eager) for eager in (True, False)]
    choice = choose_victims(problem, effort=0.0).choice
    assert choice is not None
    assert choice.cost <= min(each.cost for each in found if each is not None)


def test_the_bound_shares_the_cost_of_a_gang_among_its_nodes() -> None:
    problem = _rows((10, (0,)), (24, (1, 2, 3, 4)), nodes=5, pods=3)
    assert cost_bound(problem, whole(problem)) == 18


def test_victims_that_cost_more_than_the_incumbent_are_excluded() -> None:
    problem = _rows((10, (0,)), (24, (1, 2)), (5, (2,)), nodes=3, pods=1)
    scope = reduced_scope(problem, whole(problem), 20)
    assert scope.frees == {0: ((0, (8,)),), 2: ((2, (8,)),)}
    assert reduced_scope(problem, whole(problem), None) == whole(problem)


def test_the_cheapest_victims_of_a_large_cluster_are_proven_with_little_effort() -> None:
    """A thousand nodes, held by gangs of eight nodes each."""
    gangs = [(100 + index % 7, tuple(range(8 * index, 8 * index + 8))) for index in range(125)]
    choice = choose_victims(_rows(*gangs, nodes=1000, pods=75), effort=0.2).choice
    assert choice is not None
    assert choice.proven
    assert choice.cost == 10 * 100


def test_the_linear_relaxation_proves_the_optimum_when_all_pods_cost_the_same() -> None:
    """Gangs share nodes at random: only the linear relaxation sees that each node needs 8 evicted pods."""
    rng = random.Random(1)
    slots = [node for node in range(600) for _ in range(8)]
    units = []
    while slots:
        held = [slots.pop() for _ in range(min(len(slots), rng.choice((1, 2, 4, 8, 16, 32))))]
        units.append(
            EvictionUnit(len(held), tuple((node, (held.count(node),)) for node in sorted(set(held))))
        )
    problem = PreemptionProblem((PodDemand((8,), 60),), (TargetNode((0,), (1,)),) * 600, tuple(units))
    choice = choose_victims(problem, effort=0.3).choice
    assert choice is not None
    assert (choice.cost, choice.bound) == (480, 480)


def test_eviction_limits_hold_for_units_that_clear_a_node() -> None:
    """The cheapest way to clear a node evicts more of the queue than its eviction limit allows."""
    problem = PreemptionProblem(
        demands=(PodDemand((8,), 1),),
        nodes=(TargetNode((0,), (1,)), TargetNode((0,), (1,))),
        units=(EvictionUnit(1, ((0, (4,)),)), EvictionUnit(1, ((0, (4,)),)), EvictionUnit(9, ((1, (8,)),))),
        eviction_limits=(EvictionLimit((4,), ((0, (4,)), (1, (4,)))),),
    )
    for choice in (most_for_the_cost(problem, whole(problem)), choose_victims(problem).choice):
        assert choice is not None
        assert choice.units == (2,)


def test_an_eviction_limit_with_groups_does_not_count_the_largest_group() -> None:
    """With a limit of 3, two units of 3 may be evicted, or three if two of them are of one group."""
    large, small = EvictionUnit(1, ((0, (6,)),)), EvictionUnit(1, ((1, (3,)),))
    takes = ((0, (6,)), (1, (3,)), (2, (3,)), (3, (3,)))
    for pods, groups, units in ((2, (0, 1, 2, 3), 2), (3, (0, 1, 2, 3), None), (3, (0, 1, 1, 2), 3)):
        problem = PreemptionProblem(
            demands=(PodDemand((3,), pods),),
            nodes=(TargetNode((0,), (0,)), TargetNode((0,), (9,))),
            units=(large, small, small, small),
            eviction_limits=(EvictionLimit((3,), takes, groups),),
        )
        choice = choose_victims(problem).choice
        assert (len(choice.units) if choice is not None else None) == units


TWO = PreemptionProblem(
    demands=(PodDemand((8,), 1),),
    nodes=(TargetNode((0,), (1,)),),
    units=(EvictionUnit(1, ((0, (4,)),), requires=(1,)), EvictionUnit(2, ((0, (4,)),))),
    eviction_limits=(EvictionLimit((5,), ((0, (3,)), (1, (3,)))),),
)
"""Unit 0 requires unit 1; the eviction limit allows only one of them."""


@pytest.mark.parametrize(
    ("choice", "messages"),
    [
        (VictimSet((1,), 2, 2), []),
        (VictimSet((0,), 1, 1), ["unit 0 is chosen without the units that it requires"]),
        (VictimSet((0, 1), 3, 3), ["eviction limit 0 is exceeded"]),
        (VictimSet((1,), 1, 1), ["the cost is 2, not 1"]),
    ],
)
def test_the_checker_reports_invalid_victim_sets(choice: VictimSet, messages: list[str]) -> None:
    assert list(check(TWO, choice)) == messages


def test_an_invalid_result_of_the_exact_search_is_dropped_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The two cheapest of three victims are sufficient; the exact search claims that one is."""
    units = tuple(EvictionUnit(cost, ((0, (4,)),)) for cost in (3, 2, 2))
    problem = PreemptionProblem(
        (PodDemand((4,), 2),), (TargetNode((0,), (2,)),), units, eviction_limits=(EvictionLimit((1,), ()),)
    )
    found = ExactResult(VictimSet((0,), 1, 1), 1, 0.1)
    monkeypatch.setattr("phalanx.solver.preemption.exact.cheapest", lambda *_, **__: found)
    monkeypatch.setattr("phalanx.solver.preemption.engine.cost_bound", lambda *_: 0)
    chosen = choose_victims(problem)
    assert chosen.errors == ("the cost is 3, not 1",)
    assert chosen.choice is not None
    assert (chosen.choice.units, chosen.choice.proven) == ((1, 2), False)
