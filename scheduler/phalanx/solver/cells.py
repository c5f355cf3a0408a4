"""Chooses the domains that are reserved as cells: as many as demanded, disjoint, and the best of these.

A weighted set packing. The greedy rule takes demands with the largest domains first; if a demand remains
open, CP-SAT searches for more.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

CELL_OPTIONS_MAX: Final = 20_000
"""Pairs of a guarantee of cells and a possible domain in an exact choice of cells."""

CELLS_DETERMINISTIC_LIMIT: Final = 0.2
"""Deterministic time for this choice, once per cycle in which the heuristic reserves too few cells."""

_NODES_PER_POINT: Final = 2


class CellCandidate(Struct, frozen=True):
    """A domain that could be a cell."""

    nodes: tuple[int, ...]
    """Indices, ascending."""
    used_nodes: int = 0
    """Nodes on which the queue already runs pods."""
    unavailable_nodes: int = 0
    """Nodes that take no new pods."""


class CellDemand(Struct, frozen=True):
    """So many of these candidates; a domain may be a candidate of several demands."""

    count: int
    candidates: tuple[CellCandidate, ...]


Selection = tuple[tuple[int, ...], ...]
"""Per demand, the indices of the chosen candidates, ascending."""


def choose_cells(demands: Sequence[CellDemand], *, seed: int = 0) -> Selection:
    """Return as many candidates as possible, no node in two of them.

    Ties: domains in which the queue already runs, then domains without unavailable nodes, then small ones.
    The choice of the greedy rule is kept if it meets all demands, or if there are too many candidates to
    search.
    """
    simple = _by_greedy_rule(demands)
    is_enough = all(len(taken) == demand.count for demand, taken in zip(demands, simple, strict=True))
    if is_enough or sum(len(demand.candidates) for demand in demands) > CELL_OPTIONS_MAX:
        return simple
    return _by_search(demands, simple, seed)


def _by_greedy_rule(demands: Sequence[CellDemand]) -> Selection:
    taken: set[int] = set()
    chosen: dict[int, list[int]] = {index: [] for index in range(len(demands))}
    for index in sorted(chosen, key=lambda index: (-_width(demands[index]), index)):
        demand = demands[index]
        for candidate in sorted(
            range(len(demand.candidates)), key=lambda number: (_rank(demand.candidates[number]), number)
        ):
            nodes = demand.candidates[candidate].nodes
            if len(chosen[index]) < demand.count and taken.isdisjoint(nodes):
                chosen[index].append(candidate)
                taken.update(nodes)
    return tuple(tuple(sorted(chosen[index])) for index in range(len(demands)))


def _width(demand: CellDemand) -> int:
    return max((len(candidate.nodes) for candidate in demand.candidates), default=0)


def _rank(candidate: CellCandidate) -> tuple[int, int]:
    """Smaller is better."""
    return candidate.unavailable_nodes - candidate.used_nodes, len(candidate.nodes)


def _by_search(demands: Sequence[CellDemand], known: Selection, seed: int) -> Selection:
    from ortools.sat.python import cp_model  # takes a quarter of a second, so only where needed

    from phalanx.solver.cp_sat import one_worker

    model = cp_model.CpModel()
    total = 1 + max(
        (node for demand in demands for candidate in demand.candidates for node in candidate.nodes), default=0
    )
    most = 1 + _NODES_PER_POINT * total * (total + 2)
    taken = [[model.new_bool_var("") for _ in demand.candidates] for demand in demands]
    covering: dict[int, list[cp_model.IntVar]] = {}
    worth: list[tuple[cp_model.IntVar, int]] = []
    for demand, variables, first in zip(demands, taken, known, strict=True):
        model.add(cp_model.LinearExpr.sum(variables) <= demand.count)
        for index, (candidate, variable) in enumerate(zip(demand.candidates, variables, strict=True)):
            points = (candidate.used_nodes - candidate.unavailable_nodes) * (total + 1) - len(candidate.nodes)
            worth.append((variable, most + points))
            model.add_hint(variable, index in first)
            for node in candidate.nodes:
                covering.setdefault(node, []).append(variable)
    for alternatives in dict.fromkeys(map(tuple, covering.values())):
        model.add_at_most_one(alternatives)
    model.maximize(
        cp_model.LinearExpr.weighted_sum([variable for variable, _ in worth], [points for _, points in worth])
    )
    solver = one_worker(seed, CELLS_DETERMINISTIC_LIMIT)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return known
    found = tuple(
        tuple(index for index, variable in enumerate(variables) if solver.boolean_value(variable))
        for variables in taken
    )
    return found if _count(found) >= _count(known) and _is_disjoint(demands, found) else known


def _count(choice: Selection) -> int:
    return sum(map(len, choice))


def _is_disjoint(demands: Sequence[CellDemand], choice: Selection) -> bool:
    nodes = [
        node
        for demand, taken in zip(demands, choice, strict=True)
        for candidate in taken
        for node in demand.candidates[candidate].nodes
    ]
    return len(nodes) == len(set(nodes))
