"""Lower bounds on the capacity of opened domains against all choices of domains."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.rules.anchors import Anchor
from phalanx.rules.levels import FewestDomains
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.arrays import class_rows, node_table
from phalanx.solver.single import tightness_bounds as module
from phalanx.solver.single.scopes import Scope
from phalanx.solver.single.tightness_bounds import Need, TightnessBounds

from tests.solver.problems import bounded, node, role

RACKS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 1 << 20), st.integers(0, 9)), min_size=1, max_size=7
)
"""The capacity of each rack, and how many pods of two kinds it holds."""

Racks = list[tuple[int, int, int]]


def bounds_of(racks: Racks, running: int) -> tuple[TightnessBounds, Scope]:
    """Racks of one node each; the gang runs in the first `running` racks."""
    nodes = [
        replace(node(f"n{index}", (1,), (f"r{index}",)), domain_capacity=capacity)
        for index, (capacity, *_) in enumerate(racks)
    ]
    problem = PlacementProblem(
        ("gpu",),
        ("rack",),
        (role("work", (1,), 1),),
        tuple(nodes),
        (FewestDomains("preferred", "rack"),),
        anchors=tuple(Anchor((f"r{index}",)) for index in range(running)),
    )
    rows = class_rows(problem)
    return TightnessBounds(rows), Scope(nodes=node_table(rows).everything, depth=0, domain=0, fits=(1,))


def least_of_all(racks: Racks, running: int, amounts: tuple[int, int], count: int) -> int | None:
    """The oracle: every choice of `count` racks in which the gang does not run."""
    sums = [
        sum(capacity for capacity, *_ in chosen)
        for chosen in combinations(racks[running:], count)
        if all(
            sum(held[kind] for held in (*racks[:running], *chosen)) >= amount
            for kind, amount in enumerate(amounts, 1)
        )
    ]
    return min(sums, default=None)


def needs_of(racks: Racks, amounts: tuple[int, int]) -> list[Need]:
    columns = [np.array([rack[kind] for rack in racks], dtype=np.int64) for kind in (1, 2)]
    return [Need(column, amount) for column, amount in zip(columns, amounts, strict=True)]


AMOUNTS = st.tuples(st.integers(0, 3 << 20), st.integers(0, 25))


@bounded(110)
@given(racks=RACKS, running=st.integers(0, 1), amounts=AMOUNTS, count=st.integers(1, 4))
def test_the_bound_is_exact_when_all_choices_are_enumerated(
    racks: Racks, running: int, amounts: tuple[int, int], count: int
) -> None:
    bounds, scope = bounds_of(racks, running)
    least = least_of_all(racks, running, amounts, count)
    assert bounds.least(scope, needs_of(racks, amounts), count) == (least or 0)


@bounded(210)
@given(racks=RACKS, running=st.integers(0, 1), amounts=AMOUNTS, count=st.integers(1, 4))
def test_the_lagrangian_bound_is_not_above_any_choice(
    racks: Racks, running: int, amounts: tuple[int, int], count: int
) -> None:
    bounds, scope = bounds_of(racks, running)
    needs, least = needs_of(racks, amounts), least_of_all(racks, running, amounts, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DOMAIN_CHOICES_MAX", 0)
        bound = bounds.least(scope, needs, count)
    if least is not None:
        assert bounds.least(scope, needs) <= least
        assert bound <= least


def test_the_lagrangian_bound_of_an_example() -> None:
    """Two of the four racks that hold 10 have at least capacity 11; the two smallest racks hold only 4."""
    racks = [(2, 2, 0), (2, 2, 0), (6, 5, 0), (6, 6, 0)]
    bounds, scope = bounds_of(racks, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DOMAIN_CHOICES_MAX", 0)
        assert bounds.least(scope, needs_of(racks, (10, 0)), 2) == 11
    assert bounds.least(scope, needs_of(racks, (10, 0)), 2) == 12
