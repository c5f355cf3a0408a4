"""Leaves out what no choice can use that is cheaper than the best known one."""

from collections.abc import Collection, Iterator, Sequence

from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.problem import PreemptionProblem, TargetNode, Vector
from phalanx.solver.preemption.scopes import Scope, with_needed


def useful(problem: PreemptionProblem, scope: Scope, below: int | None) -> Scope:
    """The scope without units that cost `below` or more, and without what places free that take as much."""
    if below is None:
        return scope
    goes = {unit: gives for unit, gives in scope.gives.items() if _price(problem, [unit]) < below}
    left = {
        place: gives
        for place, gives in Scope(scope.places, goes).on_place().items()
        if _is_worth_it(problem, problem.places[place], gives, below)
    }
    freed = {unit: [give for give in gives if give[0] in left] for unit, gives in goes.items()}
    payers = [unit for allowance in problem.allowances for unit, _ in allowance.gives if unit in goes]
    return Scope(
        scope.places, with_needed(problem, {unit: each for unit, each in freed.items() if each}, payers)
    )


def _is_worth_it(
    problem: PreemptionProblem, place: TargetNode, gives: Sequence[tuple[int, Vector]], below: int
) -> bool:
    """Whether more may fit there for less: where several wants share a place, that is known of empty ones."""
    wants = problem.wants
    now = [
        pods_that_fit(place.free, want.request, most) for want, most in zip(wants, place.takes, strict=True)
    ]
    if len(wants) > 1 and any(now):
        return True
    return any(_price(problem, needed) < below for needed in _needed(problem, place, gives, now))


def _needed(
    problem: PreemptionProblem, place: TargetNode, gives: Sequence[tuple[int, Vector]], now: Sequence[int]
) -> Iterator[Sequence[int]]:
    """Per want of which more would fit if all were gone, those without whom no more would."""
    vacant = [sum(amounts) for amounts in zip(place.free, *(vector for _, vector in gives), strict=True)]
    for want, most, count in zip(problem.wants, place.takes, now, strict=True):
        if pods_that_fit(vacant, want.request, most) > count:
            yield [
                unit
                for unit, vector in gives
                if pods_that_fit(_less(vacant, vector), want.request, most) <= count
            ]


def _less(free: Sequence[int], vector: Vector) -> list[int]:
    return [have - amount for have, amount in zip(free, vector, strict=True)]


def _price(problem: PreemptionProblem, units: Collection[int]) -> int:
    """Of the units and all that must go with them."""
    found, open_ = set(units), list(units)
    while open_:
        more = [other for other in problem.units[open_.pop()].needs if other not in found]
        found.update(more)
        open_ += more
    return sum(problem.units[unit].cost for unit in found)
