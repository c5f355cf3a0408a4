"""Which domains are kept as cells: as many as are wished for, disjoint, and of those choices the best.

Widest wishes first, each with its best options, is tried before; where that leaves a wish open, CP-SAT looks
for more.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from phalanx.limits import CELL_OPTIONS_MAX, CELLS_DETERMINISTIC_LIMIT

_NODES_PER_POINT: Final = 2


class CellCandidate(Struct, frozen=True):
    """A domain that could be a cell: its nodes, by index, ascending, and on how many the queue has work.

    `faulty`: how many of them can take nothing new.
    """

    nodes: tuple[int, ...]
    own: int = 0
    faulty: int = 0


class CellDemand(Struct, frozen=True):
    """So many of these options; the same domain may be among those of several wishes."""

    count: int
    options: tuple[CellCandidate, ...]


Choice = tuple[tuple[int, ...], ...]
"""Per wish, the options that are taken, by index, ascending."""


def choose(wishes: Sequence[CellDemand], *, seed: int = 0) -> Choice:
    """As many options as possible, no node in two of them.

    Among equally many those where the queue has work already, without faulty nodes, and small; the simple
    rule's choice where it fulfils all wishes, or where there are too many options to search.
    """
    simple = _by_rule(wishes)
    is_enough = all(len(taken) == wish.count for wish, taken in zip(wishes, simple, strict=True))
    if is_enough or sum(len(wish.options) for wish in wishes) > CELL_OPTIONS_MAX:
        return simple
    return _by_search(wishes, simple, seed)


def _by_rule(wishes: Sequence[CellDemand]) -> Choice:
    taken: set[int] = set()
    chosen: dict[int, list[int]] = {index: [] for index in range(len(wishes))}
    for index in sorted(chosen, key=lambda index: (-_width(wishes[index]), index)):
        wish = wishes[index]
        for option in sorted(range(len(wish.options)), key=lambda each: (_rank(wish.options[each]), each)):
            nodes = wish.options[option].nodes
            if len(chosen[index]) < wish.count and taken.isdisjoint(nodes):
                chosen[index].append(option)
                taken.update(nodes)
    return tuple(tuple(sorted(chosen[index])) for index in range(len(wishes)))


def _width(wish: CellDemand) -> int:
    return max((len(option.nodes) for option in wish.options), default=0)


def _rank(option: CellCandidate) -> tuple[int, int]:
    """Smaller is better."""
    return option.faulty - option.own, len(option.nodes)


def _by_search(wishes: Sequence[CellDemand], known: Choice, seed: int) -> Choice:
    from ortools.sat.python import cp_model  # takes a quarter of a second, so only where needed

    from phalanx.solver.counting.exact import one_worker

    model = cp_model.CpModel()
    total = 1 + max((node for wish in wishes for option in wish.options for node in option.nodes), default=0)
    most = 1 + _NODES_PER_POINT * total * (total + 2)
    taken = [[model.new_bool_var("") for _ in wish.options] for wish in wishes]
    covering: dict[int, list[cp_model.IntVar]] = {}
    worth: list[tuple[cp_model.IntVar, int]] = []
    for wish, variables, first in zip(wishes, taken, known, strict=True):
        model.add(cp_model.LinearExpr.sum(variables) <= wish.count)
        for index, (option, variable) in enumerate(zip(wish.options, variables, strict=True)):
            points = (option.own - option.faulty) * (total + 1) - len(option.nodes)
            worth.append((variable, most + points))
            model.add_hint(variable, index in first)
            for node in option.nodes:
                covering.setdefault(node, []).append(variable)
    for alternatives in dict.fromkeys(map(tuple, covering.values())):
        model.add_at_most_one(alternatives)
    model.maximize(
        cp_model.LinearExpr.weighted_sum([each for each, _ in worth], [points for _, points in worth])
    )
    solver = one_worker(seed, CELLS_DETERMINISTIC_LIMIT)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return known
    found = tuple(
        tuple(index for index, variable in enumerate(variables) if solver.boolean_value(variable))
        for variables in taken
    )
    return found if _count(found) >= _count(known) and _is_disjoint(wishes, found) else known


def _count(choice: Choice) -> int:
    return sum(map(len, choice))


def _is_disjoint(wishes: Sequence[CellDemand], choice: Choice) -> bool:
    nodes = [
        node
        for wish, taken in zip(wishes, choice, strict=True)
        for option in taken
        for node in wish.options[option].nodes
    ]
    return len(nodes) == len(set(nodes))
