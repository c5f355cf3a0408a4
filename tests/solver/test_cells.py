"""The choice of cells against brute force on small trees."""

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from phalanx.solver.cells import CellCandidate, CellDemand, Selection, choose_cells

from tests.examples import holds


def _most(demands: Sequence[CellDemand], taken: frozenset[int] = frozenset()) -> int:
    """The most cells that are disjoint from the taken nodes; every combination is tried."""
    if not demands:
        return 0
    first, *rest = demands
    best = 0
    for count in range(first.count + 1):
        for some in combinations(first.candidates, count):
            nodes = [node for candidate in some for node in candidate.nodes]
            if len(nodes) == len({*nodes}) and taken.isdisjoint(nodes):
                best = max(best, count + _most(rest, taken.union(nodes)))
    return best


def _nodes(demands: Sequence[CellDemand], choice: Selection) -> list[int]:
    return [
        node
        for demand, taken in zip(demands, choice, strict=True)
        for index in taken
        for node in demand.candidates[index].nodes
    ]


@st.composite
def trees(draw: st.DrawFn) -> list[CellDemand]:
    """Up to three racks of up to three hosts; each queue demands racks or hosts and may use only some."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    racks: list[tuple[int, ...]] = []
    for size in sizes:
        first = racks[-1][-1] + 1 if racks else 0
        racks.append(tuple(range(first, first + size)))
    hosts = [(node,) for rack in racks for node in rack]
    demands = []
    for _ in range(draw(st.integers(1, 3))):
        level = draw(st.sampled_from([racks, hosts]))
        open_ = draw(st.lists(st.sampled_from(level), unique=True))
        candidates = [
            CellCandidate(nodes, used_nodes=draw(st.integers(0, len(nodes)))) for nodes in sorted(open_)
        ]
        demands.append(CellDemand(draw(st.integers(1, 3)), tuple(candidates)))
    return demands


@given(trees())
@holds(140)
def test_the_most_disjoint_cells_are_chosen(demands: list[CellDemand]) -> None:
    choice = choose_cells(demands)
    nodes = _nodes(demands, choice)
    assert sum(map(len, choice)) == _most(demands)
    assert len(nodes) == len({*nodes})
    assert all(len(taken) <= demand.count for demand, taken in zip(demands, choice, strict=True))


def test_cells_in_use_are_preferred_then_available_ones_then_small_ones() -> None:
    used, unavailable_nodes, large, small = (
        CellCandidate((0, 1), used_nodes=1),
        CellCandidate((2,), unavailable_nodes=1),
        CellCandidate((3, 4)),
        CellCandidate((5,)),
    )
    candidates = (unavailable_nodes, large, small, used)
    kept = [choose_cells([CellDemand(count, candidates)])[0] for count in range(1, 5)]
    assert kept == [(3,), (2, 3), (1, 2, 3), (0, 1, 2, 3)]


def test_the_exact_search_prefers_cells_in_use_too() -> None:
    """Greedy takes the used rack for the first demand and leaves no host for the second."""
    racks = (CellCandidate((0, 1), used_nodes=1), CellCandidate((2, 3)))
    hosts = (CellCandidate((0,)), CellCandidate((1,)))
    assert choose_cells([CellDemand(1, racks), CellDemand(2, hosts)]) == ((1,), (0, 1))
    assert choose_cells([CellDemand(1, racks), CellDemand(3, hosts)]) == ((1,), (0, 1))
