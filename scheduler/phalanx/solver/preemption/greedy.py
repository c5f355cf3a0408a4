"""Victims by two simple rules, each with a second look: cheapest first, and most room for the cost.

Whatever the second look finds to be needless stays. The better of both is the start of the exact search, and
the answer where that comes to no end.
"""

from phalanx.solver.preemption.capacity import CapacityTracker
from phalanx.solver.preemption.market import Market
from phalanx.solver.preemption.problem import PreemptionProblem, VictimSet
from phalanx.solver.preemption.scopes import Scope


def greedy(problem: PreemptionProblem, scope: Scope) -> VictimSet | None:
    """The cheaper choice of both rules within the scope; None where neither finds one."""
    found = [
        choice
        for choice in (cheapest_first(problem, scope), most_for_the_cost(problem, scope))
        if choice is not None
    ]
    return min(found, key=lambda choice: (choice.cost, choice.units), default=None)


def cheapest_first(problem: PreemptionProblem, scope: Scope) -> VictimSet | None:
    """Whoever costs least goes first, until all fits."""
    room = CapacityTracker(problem, scope)
    _remove_the_cheapest(problem, scope, room)
    return _second_look(problem, room)


def most_for_the_cost(problem: PreemptionProblem, scope: Scope, *, is_eager: bool = True) -> VictimSet | None:
    """The place is cleared that costs least for each pod that fits then, anywhere; again and again.

    Where places are cleared and allowances are not enough, whoever costs least goes until they are.
    `is_eager`: places that became cheaper are seen at once. That is better more often than not, not always.
    """
    room = CapacityTracker(problem, scope)
    market = Market(problem, scope, room, is_eager=is_eager)
    while not room.has_places():
        gone = market.best()
        if gone is None:
            break
        room.remove(gone)
        market.look_again(gone)
    _remove_the_cheapest(problem, scope, room)
    return _second_look(problem, room)


def _remove_the_cheapest(problem: PreemptionProblem, scope: Scope, room: CapacityTracker) -> None:
    """Until all fits, or nobody is left."""
    for unit in sorted(scope.gives, key=lambda unit: (problem.units[unit].cost, unit)):
        if room.fits():
            break
        more = room.with_needed(unit)
        if room.keeps_floors(more):
            room.remove(more)


def _second_look(problem: PreemptionProblem, room: CapacityTracker) -> VictimSet | None:
    """Those stay without whom it fits as well, the dearest first."""
    if not room.fits():
        return None
    for unit in sorted(room.chosen, key=lambda unit: (-problem.units[unit].cost, unit)):
        if room.is_needed(unit):
            continue
        room.restore([unit])
        if not room.fits():
            room.remove([unit])
    chosen = tuple(sorted(room.chosen))
    return VictimSet(units=chosen, cost=problem.cost_of(chosen), bound=0)
