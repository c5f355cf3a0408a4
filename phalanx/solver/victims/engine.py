"""Greedy choices first, then the exact search, domain by domain where one domain must hold all pods."""

from collections.abc import Sequence

from phalanx.limits import QUESTION_EFFORT_MIN, VICTIM_DETERMINISTIC_LIMIT
from phalanx.solver.victims.greedy import greedy
from phalanx.solver.victims.problem import Choice, Chosen, VictimProblem
from phalanx.solver.victims.room import Room, by_domain


def choose(problem: VictimProblem, *, effort: float = VICTIM_DETERMINISTIC_LIMIT) -> Chosen:
    """The cheapest choice found, with the proven bound of its cost; effort in deterministic units.

    None is proven as far as the effort reaches: a domain of which nothing is known in the end is left out.
    """
    domains = [places for places in by_domain(problem.places).values() if _may_do(problem, places)]
    starts = [(greedy(problem, places), places) for places in domains]
    best = min((found for found, _ in starts if found is not None), key=_order, default=None)
    if best is not None and best.cost == 0:
        return Chosen(best, 0.0)
    return _refined(problem, starts, best, effort)


def _refined(
    problem: VictimProblem,
    starts: Sequence[tuple[Choice | None, Sequence[int]]],
    best: Choice | None,
    effort: float,
) -> Chosen:
    """Exact search in each domain, those first in which greedy search found the cheapest."""
    bounds: list[int] = []
    left = effort
    ordered = sorted(starts, key=lambda start: (start[0] is None, start[0].cost if start[0] else 0, start[1]))
    for _, places in ordered:
        if left <= 0:
            bounds.append(0)
            continue
        from phalanx.solver.victims.exact import cheapest  # takes a quarter of a second, so only where needed

        answer = cheapest(problem, places, below=None if best is None else best.cost, effort=left)
        left -= max(answer.spent, QUESTION_EFFORT_MIN)
        best = best if answer.choice is None else answer.choice
        if answer.bound is not None:
            bounds.append(answer.bound)
    spent = effort - left
    return Chosen(best and Choice(best.units, best.cost, min([best.cost, *bounds])), spent)


def _may_do(problem: VictimProblem, places: Sequence[int]) -> bool:
    """Whether the wants would fit if everybody were gone, one want at a time."""
    room = Room(problem)
    room.remove(range(len(problem.units)))
    return all(
        sum(room.capacity(place, index) for place in places) >= want.count
        for index, want in enumerate(problem.wants)
    )


def _order(choice: Choice) -> tuple[int, tuple[int, ...]]:
    return choice.cost, choice.units
