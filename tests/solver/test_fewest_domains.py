"""The dynamic program for the fewest domains against all choices of domains on several levels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.solver.single import fewest_domains as module
from phalanx.solver.single.fewest_domains import fewest, needed_per_level, opened_capacity
from phalanx.solver.single.tree_knapsack import Forest

from tests.solver.problems import bounded

Leaves = list[tuple[tuple[int, ...], int, bool]]
"""Each leaf: its path of domain numbers, what it holds, whether the gang already runs in it."""


@st.composite
def trees(draw: st.DrawFn) -> Leaves:
    """At most 9 leaves on 2 or 3 levels."""
    depth = draw(st.integers(2, 3))
    paths = draw(st.lists(st.tuples(*[st.integers(0, 2)] * depth), min_size=1, max_size=9, unique=True))
    sizes = st.sampled_from((1, 1, 2, 3, 8, 9))
    return [(path, draw(sizes), draw(st.integers(0, 7)) == 0) for path in paths]


def forest_of(leaves: Leaves) -> Forest:
    depth = len(leaves[0][0])
    numbers = [
        {key: index for index, key in enumerate(sorted({path[: level + 1] for path, _, _ in leaves}))}
        for level in range(depth)
    ]
    held = [np.zeros(len(keys), dtype=np.int64) for keys in numbers]
    opened = [np.zeros(len(keys), dtype=np.bool_) for keys in numbers]
    inner: list[list[list[int]]] = [[[] for _ in keys] for keys in numbers[:-1]]
    for path, amount, is_open in leaves:
        for level in range(depth):
            held[level][numbers[level][path[: level + 1]]] += amount
            opened[level][numbers[level][path[: level + 1]]] |= is_open
    for level in range(1, depth):
        for key, index in numbers[level].items():
            inner[level - 1][numbers[level - 1][key[:-1]]].append(index)
    return Forest(
        held=tuple(held),
        open=tuple(opened),
        inner=tuple(tuple(np.array(one, dtype=np.int64) for one in level) for level in inner),
        capacity=held[-1],
    )


def racks_in_spines(held: list[list[int]]) -> Leaves:
    """Leaves by what the racks of each spine hold; the gang runs in none of them."""
    return [
        ((spine, rack), amount, False)
        for spine, racks in enumerate(held)
        for rack, amount in enumerate(racks)
    ]


def least_cost(leaves: Leaves, demand: int) -> tuple[int, ...] | None:
    """The oracle: every set of leaves. The last number is the capacity of the opened leaves."""
    depth = len(leaves[0][0])
    running = [{path[: level + 1] for path, _, is_open in leaves if is_open} for level in range(depth)]
    costs = [
        (
            *(len({path[: level + 1] for path, _, _ in chosen} - running[level]) for level in range(depth)),
            sum(amount for _, amount, is_open in chosen if not is_open),
        )
        for count in range(len(leaves) + 1)
        for chosen in itertools.combinations(leaves, count)
        if sum(amount for _, amount, _ in chosen) >= demand
    ]
    return min(costs, default=None)


@bounded(240)
@given(trees(), st.integers(1, 40))
def test_least_number_of_domains(leaves: Leaves, demand: int) -> None:
    forest = forest_of(leaves)
    top = np.arange(len(forest.held[0]), dtype=np.int64)
    choice = fewest(forest, top, demand)
    best = least_cost(leaves, demand)
    if choice is None or best is None:
        assert choice is best
        return
    assert choice.cost == choice.bound[:-1] == best[:-1]
    assert choice.bound[-1] <= best[-1] <= opened_capacity(forest, choice.domains)
    assert int(forest.held[-1][choice.domains].sum()) >= demand
    assert needed_per_level(forest, top, demand, level=0)[0] == choice.cost[0]


@bounded(260)
@given(trees(), st.integers(1, 40))
def test_the_chosen_deepest_domains_are_the_tightest_within_their_parents(
    leaves: Leaves, demand: int
) -> None:
    forest = forest_of(leaves)
    choice = fewest(forest, np.arange(len(forest.held[0]), dtype=np.int64), demand)
    if choice is None:
        return
    held = forest.held[-1]
    chosen = set(choice.domains.tolist())
    outer_domains = [inner.tolist() for inner in forest.inner[-1] if chosen & set(inner.tolist())]
    closed = [one for parent in outer_domains for one in parent if not forest.open[-1][one]]
    opened = sum(int(held[one]) for parent in outer_domains for one in parent if forest.open[-1][one])
    sums = [opened + sum(held[list(each)]) for each in itertools.combinations(closed, choice.cost[-1])]
    assert sum(held[list(chosen)]) == min(each for each in sums if each >= demand)


def test_the_tightest_racks_of_the_chosen_spines_are_used() -> None:
    """The largest spine has nine small racks; the rack of 16 with that of 9 or 8 would be enough."""
    forest = forest_of(racks_in_spines([[2] * 9, [9, 8], [16, 1]]))
    choice = fewest(forest, np.arange(3, dtype=np.int64), 20)
    assert choice is not None
    assert choice.cost == (2, 2)
    assert int(forest.held[-1][choice.domains].sum()) == 16 + 8


def test_another_spine_beside_the_largest_has_tighter_racks() -> None:
    """Three racks hold 20: at least 21 with the tightest spine, exactly 20 with the second one."""
    forest = forest_of(racks_in_spines([[8, 8], [6, 6], [5, 5]]))
    choice = fewest(forest, np.arange(3, dtype=np.int64), 20)
    assert choice is not None
    assert choice.cost == (2, 3)
    assert opened_capacity(forest, choice.domains) == choice.bound[-1] == 20


def test_the_largest_spines_are_not_the_best_ones() -> None:
    """Two spines are needed: the largest has ten small racks, the two others one large rack each."""
    small: Leaves = [((0, rack), 1, False) for rack in range(10)]
    leaves: Leaves = [*small, ((1, 0), 9, False), ((2, 0), 9, False)]
    choice = fewest(forest_of(leaves), np.arange(3, dtype=np.int64), 18)
    assert choice is not None
    assert choice.bound == least_cost(leaves[8:], 18) == (2, 2, 18)
    assert sorted(choice.domains.tolist()) == [10, 11]


def test_best_domains_on_three_levels() -> None:
    """Two zones are needed; the fewest spines and racks depend on both zones together."""
    ragged: Leaves = [((0, spine, 0), 3, False) for spine in range(4)]
    even: Leaves = [((1, 0, rack), 5, False) for rack in range(2)]
    other: Leaves = [((2, 0, 0), 6, False), ((2, 0, 1), 4, False), ((2, 1, 0), 1, True)]
    leaves = ragged + even + other
    forest = forest_of(leaves)
    for demand in range(13, 34):
        choice = fewest(forest, np.arange(3, dtype=np.int64), demand)
        best = least_cost(leaves, demand)
        assert (choice.cost if choice else None) == (best[:-1] if best else None)


@bounded(150)
@given(trees(), st.integers(1, 40))
def test_too_large_tables_give_a_valid_bound(leaves: Leaves, demand: int) -> None:
    forest = forest_of(leaves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TABLE_WORK_MAX", 0)
        choice = fewest(forest, np.arange(len(forest.held[0]), dtype=np.int64), demand)
    if choice is not None:
        best = least_cost(leaves, demand)
        assert best is not None
        assert choice.bound <= best <= (*choice.cost, opened_capacity(forest, choice.domains))
        assert int(forest.held[-1][choice.domains].sum()) >= demand


@bounded(150)
@given(trees(), st.integers(1, 40))
def test_a_rank_decides_between_equal_costs(leaves: Leaves, demand: int) -> None:
    """A rank changes the domains, never the cost."""
    forest = forest_of(leaves)
    top = np.arange(len(forest.held[0]), dtype=np.int64)
    ranked = fewest(forest, top, demand, rank=lambda domains: (-int(domains.sum()),))
    plain = fewest(forest, top, demand)
    assert (ranked is None) == (plain is None)
    if ranked is not None and plain is not None:
        assert ranked.cost == plain.cost
        if ranked.compared:
            assert int(ranked.domains.sum()) >= int(plain.domains.sum())
