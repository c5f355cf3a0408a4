"""The cheapest victims by CP-SAT: a boolean per unit, a count per want and place.

What counts most is how close the linear relaxation comes: that no more than so many fit on a place while a
unit stays is said of each unit by itself, beside what all of them free there together. Where that says all,
places that need the same units are counted together. Units and places that no choice cheaper than the best
known one can use are left out beforehand.
"""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.limits import VICTIM_AMOUNTS_MAX
from phalanx.solver.counting.exact import ROUNDING, confirmed_empty, one_worker
from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.presolve import useful
from phalanx.solver.preemption.problem import EvictionLimit, PreemptionProblem, TargetNode, Vector, VictimSet
from phalanx.solver.preemption.scopes import Scope


class Found(Struct, frozen=True):
    """What one search found: a choice cheaper than what was known, if any, and the least cost of all.

    `bound` None: there is no cheaper choice; where none at all is known, as two configurations of the solver
    say. `spent`: deterministic units.
    """

    choice: VictimSet | None
    bound: int | None
    spent: float


def cheapest(problem: PreemptionProblem, scope: Scope, *, below: int | None, effort: float) -> Found:
    """The cheapest choice for all wants within the scope that costs less than `below`."""
    model = _Model(problem, useful(problem, scope, below))
    if model.declined:
        return Found(choice=None, bound=0, spent=0.0)
    if below is not None:
        model.cp.add(model.cost <= below - 1)
    model.cp.minimize(model.cost)
    solver = one_worker(problem.seed, effort)
    status = solver.solve(model.cp)
    if status == cp_model.INFEASIBLE and below is not None:
        return Found(choice=None, bound=None, spent=solver.deterministic_time)
    if status == cp_model.INFEASIBLE:
        agrees, spent = confirmed_empty(model.cp, seed=problem.seed, effort=effort)
        return Found(choice=None, bound=None if agrees else 0, spent=solver.deterministic_time + spent)
    bound = solver.best_objective_bound
    least = max(0, math.ceil(bound - ROUNDING)) if math.isfinite(bound) else 0
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Found(choice=None, bound=least, spent=solver.deterministic_time)
    chosen_units = tuple(sorted(unit for unit, each in model.units.items() if solver.boolean_value(each)))
    cost = problem.cost_of(chosen_units)
    least = min(cost, least)
    return Found(VictimSet(chosen_units, cost, least), least, solver.deterministic_time)


class _Seats(Struct, frozen=True):
    """One place, or several alike: per want that fits there how many at most; how many while a unit stays.

    `rows`: what is free of a resource and who gives how much back, where the others do not say it already.
    """

    takes: tuple[tuple[int, int], ...]
    while_it_stays: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]


class _Model:
    """`declined`: amounts are so large that sums of them could overflow."""

    def __init__(self, problem: PreemptionProblem, scope: Scope) -> None:
        self.cp = cp_model.CpModel()
        self._problem = problem
        self.units = {unit: self.cp.new_bool_var("") for unit in scope.gives}
        self.declined = _sum_of_amounts(problem) > VICTIM_AMOUNTS_MAX
        if not self.declined:
            self.cost = self._cost()
            self._goes_with_the_unit()
            self._keeps_the_floors()
            self._fits(scope)
            self._stays_in_the_allowances()

    def _cost(self) -> cp_model.LinearExprT:
        variables = list(self.units.values())
        costs = [self._problem.units[unit].cost for unit in self.units]
        for wish in self._problem.wishes:
            takes = [(self.units[unit], count) for unit, count in wish.takes if unit in self.units]
            over = self.cp.new_int_var(0, sum(count for _, count in takes), "")
            gone, counts = [*(each for each, _ in takes), over], [*(count for _, count in takes), -1]
            self.cp.add(cp_model.LinearExpr.weighted_sum(gone, counts) <= wish.most)
            variables.append(over)
            costs.append(self._problem.breach)
        return cp_model.LinearExpr.weighted_sum(variables, costs)

    def _goes_with_the_unit(self) -> None:
        for unit, variable in self.units.items():
            for other in self._problem.units[unit].needs:
                self.cp.add_implication(variable, self.units[other])

    def _keeps_the_floors(self) -> None:
        for floor in self._problem.floors:
            for position, room in enumerate(floor.room):
                terms = [(self.units[u], vector[position]) for u, vector in floor.takes if u in self.units]
                terms += self._not_counted(floor, position)
                variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, room))

    def _not_counted(self, floor: EvictionLimit, position: int) -> list[tuple[cp_model.IntVar, int]]:
        """What one group loses, as negative amounts: that of one of its units is, if that goes."""
        groups: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
        for group, (unit, vector) in zip(floor.groups, floor.takes, strict=bool(floor.groups)):
            if unit in self.units and vector[position]:
                groups.setdefault(group, []).append((self.units[unit], vector[position]))
        found: list[tuple[cp_model.IntVar, int]] = []
        is_left_out = [self.cp.new_bool_var("") for _ in groups]
        self.cp.add_at_most_one(is_left_out)
        for left_out, members in zip(is_left_out, groups.values(), strict=True):
            for goes, amount in members:
                both = self.cp.new_bool_var("") if len(members) > 1 else left_out
                self.cp.add_implication(both, goes)
                self.cp.add_implication(both, left_out)
                found.append((both, -amount))
        return found

    def _fits(self, scope: Scope) -> None:
        """Places that no unit frees count together where they are alike: for several wants a relaxation."""
        counts: list[list[cp_model.IntVar]] = [[] for _ in self._problem.wants]
        on = scope.on_place()
        alike: dict[TargetNode, int] = {}
        seats: dict[_Seats, int] = {}
        for place in scope.places:
            each = self._problem.places[place]
            if place in on:
                found = seats_of(self._problem, each, on[place])
                seats[found] = seats.get(found, 0) + 1
            else:
                alike[each] = alike.get(each, 0) + 1
        for found, number in seats.items():
            together = number if not found.rows else 1
            for _ in range(number // together):
                self._seat(found, together, counts)
        for each, number in alike.items():
            self._fit_alike(each, number, counts)
        for want, variables in zip(self._problem.wants, counts, strict=True):
            self.cp.add(cp_model.LinearExpr.sum(variables) >= want.count)

    def _seat(self, seats: _Seats, number: int, counts: list[list[cp_model.IntVar]]) -> None:
        """So many places that are the same."""
        here = {want: self.cp.new_int_var(0, most * number, "") for want, most in seats.takes}
        most_of = dict(seats.takes)
        for want, variable in here.items():
            counts[want].append(variable)
        for want, unit, still in seats.while_it_stays:
            more = (most_of[want] - still) * number
            self.cp.add(here[want] - more * self.units[unit] <= still * number)
        for resource, free, back in seats.rows:
            asked = [(here[want], self._problem.wants[want].request[resource]) for want in here]
            terms = [*asked, *((self.units[unit], -amount) for unit, amount in back)]
            if free < 0:
                users = [variable for variable, amount in asked if amount]
                terms.append((self._any_of(users, max(most_of.values())), -free))
            variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
            self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, free))

    def _any_of(self, counts: Sequence[cp_model.IntVar], most: int) -> cp_model.IntVar:
        """Whether some are placed: where more is used than there is, that asks nothing of those elsewhere."""
        is_used = self.cp.new_bool_var("")
        for count in counts:
            self.cp.add(count <= most * is_used)
        return is_used

    def _fit_alike(self, place: TargetNode, number: int, counts: list[list[cp_model.IntVar]]) -> None:
        wants = self._problem.wants
        takes = [
            number * pods_that_fit(place.free, want.request, min(most, want.count))
            for want, most in zip(wants, place.takes, strict=True)
        ]
        here = [(index, self.cp.new_int_var(0, most, "")) for index, most in enumerate(takes) if most]
        for index, variable in here:
            counts[index].append(variable)
        for resource, free in enumerate(place.free) if len(here) > 1 else ():
            variables = [variable for _, variable in here]
            amounts = [wants[index].request[resource] for index, _ in here]
            self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= free * number)

    def _stays_in_the_allowances(self) -> None:
        for allowance in self._problem.allowances:
            for position, index in enumerate(allowance.resources):
                asked = sum(want.request[index] * want.count for want in self._problem.wants)
                lacking = asked - allowance.room[position]
                if lacking <= 0:
                    continue
                terms = [
                    (self.units[unit], min(vector[position], lacking))
                    for unit, vector in allowance.gives
                    if unit in self.units
                ]
                variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) >= lacking)


def seats_of(problem: PreemptionProblem, place: TargetNode, gives: Sequence[tuple[int, Vector]]) -> _Seats:
    """What the model says of a place that these units free."""
    wants = problem.wants
    vacant = [sum(amounts) for amounts in zip(place.free, *(vector for _, vector in gives), strict=True)]
    takes = [
        pods_that_fit(vacant, want.request, min(most, want.count))
        for want, most in zip(wants, place.takes, strict=True)
    ]
    stays: list[tuple[int, int, int]] = []
    for unit, vector in gives:
        left = [have - amount for have, amount in zip(vacant, vector, strict=True)]
        for index, most in enumerate(takes):
            still = pods_that_fit(left, wants[index].request, most) if most else most
            if still < most:
                stays.append((index, unit, still))
    here = tuple((index, most) for index, most in enumerate(takes) if most)
    if len(here) == 1 and _is_said(here[0][1], stays, gives, vacant, wants[here[0][0]].request):
        return _Seats(here, tuple(stays), ())
    return _Seats(here, tuple(stays), tuple(_rows(problem, place, gives, here)))


def _is_said(
    most: int,
    stays: Sequence[tuple[int, int, int]],
    gives: Sequence[tuple[int, Vector]],
    vacant: Sequence[int],
    request: Vector,
) -> bool:
    """Whether it says all how many fit while one unit stays: there is one, or all or nothing fits.

    Where one fits or none, those without whom it does not must be enough.
    """
    if len(gives) == 1:
        return True
    needed = {unit for _, unit, _ in stays}
    spared = [vector for unit, vector in gives if unit not in needed]
    left = [have - sum(amounts) for have, *amounts in zip(vacant, *spared, strict=True)]
    return most == 1 and pods_that_fit(left, request, 1) == 1


def _rows(
    problem: PreemptionProblem,
    place: TargetNode,
    gives: Sequence[tuple[int, Vector]],
    here: Sequence[tuple[int, int]],
) -> Iterator[tuple[int, int, tuple[tuple[int, int], ...]]]:
    for resource, free in enumerate(place.free):
        most = sum(problem.wants[index].request[resource] * count for index, count in here)
        if most > free and most:
            lacking = most - free
            back = ((unit, min(vector[resource], lacking)) for unit, vector in gives)
            yield resource, free, tuple((unit, amount) for unit, amount in back if amount)


def _sum_of_amounts(problem: PreemptionProblem) -> int:
    """The largest sum that any constraint could reach."""
    asked = sum(amount * want.count for want in problem.wants for amount in want.request)
    breaches = sum(count for wish in problem.wishes for _, count in wish.takes)
    cost = sum(unit.cost for unit in problem.units) + problem.breach * breaches
    taken = sum(amount for floor in problem.floors for _, vector in floor.takes for amount in vector)
    return max(asked * (1 + len(problem.units)), cost, taken)
