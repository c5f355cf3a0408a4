"""The tightest domains against all choices of the same size."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.solver.single import tree_knapsack as module
from phalanx.solver.single.fewest_domains import fewest
from phalanx.solver.single.tree_knapsack import tightest

from tests.solver.problems import bounded
from tests.solver.test_fewest_domains import forest_of, racks_in_spines

Case = tuple[list[int], int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """The capacity of up to ten domains, many of them equal, and a demand that fits into all of them."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    held = draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=10))
    return held, draw(st.integers(1, sum(held)))


def fewest_count(held: list[int], demand: int) -> int:
    largest = sorted(held, reverse=True)
    return next(count for count in range(1, len(held) + 1) if sum(largest[:count]) >= demand)


@bounded(310)
@given(cases())
def test_no_choice_of_the_same_size_holds_less(case: Case) -> None:
    held, demand = case
    count = fewest_count(held, demand)
    found = tightest(np.array(held, dtype=np.int64), count, demand)
    chosen = found.chosen.tolist()
    sums = (sum(each) for each in itertools.combinations(held, count))
    assert len(set(chosen)) == count
    assert found.least == sum(held[one] for one in chosen) == min(each for each in sums if each >= demand)


@bounded(100)
@given(cases())
def test_a_table_above_its_bound_still_gives_a_choice_that_holds_the_demand(case: Case) -> None:
    held, demand = case
    count = fewest_count(held, demand)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TIGHTEST_CELLS_MAX", 0)
        found = tightest(np.array(held, dtype=np.int64), count, demand)
    chosen = found.chosen.tolist()
    assert found.least in (demand, sum(held[one] for one in chosen))
    assert len(set(chosen)) == count
    assert sum(held[one] for one in chosen) >= demand


def test_two_small_racks_are_chosen_before_a_large_and_a_small_one() -> None:
    """For a gang of 20, racks of 16 and 10 would leave six free in one rack and split a large rack."""
    found = tightest(np.array([16, 10, 16, 10], dtype=np.int64), 2, 20)
    assert sorted(found.chosen.tolist()) == [1, 3]
    assert found.least == 20


def test_the_spine_with_the_tightest_racks_is_chosen() -> None:
    forest = forest_of(racks_in_spines([[16, 16, 12], [16, 10, 10], [16, 16, 11]]))
    choice = fewest(forest, np.arange(3, dtype=np.int64), 20)
    assert choice is not None
    assert choice.cost == (1, 2)
    assert choice.domains.tolist() == [4, 5]
