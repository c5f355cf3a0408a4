"""Greedy choices first, then the exact search, domain by domain where one domain must hold all pods."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import QUESTION_EFFORT_MIN, VICTIM_DETERMINISTIC_LIMIT
from phalanx.solver.victims.bound import least_cost
from phalanx.solver.victims.greedy import greedy, most_for_the_cost
from phalanx.solver.victims.problem import Choice, Chosen, VictimProblem, wrong
from phalanx.solver.victims.room import Room
from phalanx.solver.victims.scope import Scope, scopes_of


class _Start(Struct, frozen=True):
    """A domain, the choice by simple rules, if there is one, and what any choice costs there at least."""

    scope: Scope
    found: Choice | None
    least: int


def choose(problem: VictimProblem, *, effort: float = VICTIM_DETERMINISTIC_LIMIT) -> Chosen:
    """The cheapest choice found, with the proven bound of its cost; effort in deterministic units.

    None is proven as far as the effort reaches: a domain of which nothing is known in the end is left out.
    """
    scopes = [scope for scope in scopes_of(problem) if _may_do(problem, scope)]
    starts = [_Start(scope, greedy(problem, scope), least_cost(problem, scope)) for scope in scopes]
    best = min((start.found for start in starts if start.found is not None), key=_order, default=None)
    if best is not None and best.cost == 0:
        return Chosen(best, 0.0)
    chosen = _refined(problem, starts, best, effort)
    return chosen if chosen.choice is None or chosen.choice.proven else _reordered(problem, scopes, chosen)


def fewest(problem: VictimProblem, *, effort: float) -> Chosen:
    """A choice of as few units as can be found, whatever they cost; its bound is how many go at least."""
    units = tuple(replace(unit, cost=1) for unit in problem.units)
    return choose(replace(problem, units=units, wishes=(), breach=0), effort=effort)


def _reordered(problem: VictimProblem, scopes: Sequence[Scope], chosen: Chosen) -> Chosen:
    """Where nothing is proven: maybe the simple rule does better in its other order."""
    assert chosen.choice is not None
    others = [most_for_the_cost(problem, scope, is_eager=False) for scope in scopes]
    best = min([chosen.choice, *(other for other in others if other is not None)], key=_order)
    choice = Choice(best.units, best.cost, min(best.cost, chosen.choice.bound))
    return Chosen(choice, chosen.spent, chosen.defects)


def _refined(problem: VictimProblem, starts: Sequence[_Start], best: Choice | None, effort: float) -> Chosen:
    """Exact search in each domain that may hold something cheaper, the most promising first."""
    bounds: list[int] = []
    defects: list[str] = []
    left = effort
    for start in sorted(starts, key=lambda start: (start.found is None, start.least, start.scope.places)):
        if best is not None and start.least >= best.cost:
            continue
        if left <= 0:
            bounds.append(start.least)
            continue
        from phalanx.solver.victims.exact import cheapest  # takes a quarter of a second, so only where needed

        answer = cheapest(problem, start.scope, below=None if best is None else best.cost, effort=left)
        left -= max(answer.spent, QUESTION_EFFORT_MIN)
        if answer.choice is not None and (found := [*wrong(problem, answer.choice)]):
            defects += found
            bounds.append(start.least)
            continue
        best = best if answer.choice is None else answer.choice
        if answer.bound is not None:
            bounds.append(max(answer.bound, start.least))
    choice = best and Choice(best.units, best.cost, min([best.cost, *bounds]))
    return Chosen(choice, effort - left, tuple(defects))


def _may_do(problem: VictimProblem, scope: Scope) -> bool:
    """Whether the wants would fit if everybody were gone, one want at a time."""
    room = Room(problem, scope)
    room.remove(scope.gives)
    return not any(room.missing())


def _order(choice: Choice) -> tuple[int, tuple[int, ...]]:
    return choice.cost, choice.units
