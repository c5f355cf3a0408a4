"""The cheapest victims by CP-SAT: a boolean per unit, a count per want and place."""

import math
from collections.abc import Sequence

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.limits import VICTIM_AMOUNTS_MAX
from phalanx.solver.cpsat import one_worker
from phalanx.solver.victims.problem import Choice, Place, Vector, VictimProblem
from phalanx.solver.victims.room import pods_within

ROUNDING = 1e-6


class Found(Struct, frozen=True):
    """What one search found: a choice cheaper than what was known, if any, and the least cost of all.

    `bound` None: there is no cheaper choice, so what was known is the best. `spent` in deterministic units.
    """

    choice: Choice | None
    bound: int | None
    spent: float


def cheapest(problem: VictimProblem, places: Sequence[int], *, below: int | None, effort: float) -> Found:
    """The cheapest choice for all wants within these places that costs less than `below`."""
    model = _Model(problem, places)
    if model.declined:
        return Found(choice=None, bound=0, spent=0.0)
    if below is not None:
        model.cp.add(model.cost <= below - 1)
    model.cp.minimize(model.cost)
    solver = one_worker(problem.seed, effort)
    status = solver.solve(model.cp)
    if status == cp_model.INFEASIBLE:
        return Found(choice=None, bound=None, spent=solver.deterministic_time)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Found(choice=None, bound=0, spent=solver.deterministic_time)
    chosen_units = tuple(sorted(unit for unit, each in model.units.items() if solver.boolean_value(each)))
    cost = problem.cost_of(chosen_units)
    bound = min(cost, max(0, math.ceil(solver.best_objective_bound - ROUNDING)))
    return Found(Choice(chosen_units, cost, bound), bound, solver.deterministic_time)


class _Model:
    """`declined`: amounts are so large that sums of them could overflow."""

    def __init__(self, problem: VictimProblem, places: Sequence[int]) -> None:
        self.cp = cp_model.CpModel()
        self._problem = problem
        inside = frozenset(places)
        payers = {unit for allowance in problem.allowances for unit, _ in allowance.gives}
        self._gives = _gives(problem, inside)
        touching = payers.union(unit for gives in self._gives.values() for unit, _ in gives)
        self.units = {unit: self.cp.new_bool_var("") for unit in sorted(_closed(problem, touching))}
        self.declined = _sum_of_amounts(problem) > VICTIM_AMOUNTS_MAX
        if not self.declined:
            self.cost = self._cost()
            self._goes_with_the_unit()
            self._keeps_the_floors()
            self._fits(places)
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
                variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, room))

    def _fits(self, places: Sequence[int]) -> None:
        """Places that no unit frees count together where they are alike: for several wants a relaxation."""
        counts: list[list[cp_model.IntVar]] = [[] for _ in self._problem.wants]
        alike: dict[Place, int] = {}
        for place in places:
            if place in self._gives:
                self._fit_one(self._problem.places[place], self._gives[place], counts)
            else:
                each = self._problem.places[place]
                alike[each] = alike.get(each, 0) + 1
        for each, number in alike.items():
            self._fit_alike(each, number, counts)
        for want, variables in zip(self._problem.wants, counts, strict=True):
            self.cp.add(cp_model.LinearExpr.sum(variables) >= want.count)

    def _fit_one(
        self, place: Place, gives: Sequence[tuple[int, Vector]], counts: list[list[cp_model.IntVar]]
    ) -> None:
        wants = self._problem.wants
        vacant = [have + sum(vector[index] for _, vector in gives) for index, have in enumerate(place.free)]
        takes = [
            pods_within(vacant, want.request, min(most, want.count))
            for want, most in zip(wants, place.takes, strict=True)
        ]
        here = [(index, self.cp.new_int_var(0, most, "")) for index, most in enumerate(takes) if most]
        for index, variable in here:
            counts[index].append(variable)
        for resource, free in enumerate(place.free):
            asked = [(variable, wants[index].request[resource]) for index, variable in here]
            most = sum(wants[index].request[resource] * takes[index] for index, _ in here)
            if most <= free or not most:
                continue
            lacking = most - free
            back = [(self.units[unit], min(vector[resource], lacking)) for unit, vector in gives]
            terms = [*asked, *((variable, -amount) for variable, amount in back if amount)]
            if free < 0:
                terms.append((self._any_of([each for each, amount in asked if amount], takes), -free))
            variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
            self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, free))

    def _any_of(self, counts: Sequence[cp_model.IntVar], takes: Sequence[int]) -> cp_model.IntVar:
        """Whether some are placed: where more is used than there is, that asks nothing of those elsewhere."""
        is_used = self.cp.new_bool_var("")
        for count in counts:
            self.cp.add(count <= max(takes) * is_used)
        return is_used

    def _fit_alike(self, place: Place, number: int, counts: list[list[cp_model.IntVar]]) -> None:
        wants = self._problem.wants
        takes = [
            number * pods_within(place.free, want.request, min(most, want.count))
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
                    (self.units[unit], min(vector[position], lacking)) for unit, vector in allowance.gives
                ]
                variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) >= lacking)


def _gives(problem: VictimProblem, inside: frozenset[int]) -> dict[int, list[tuple[int, Vector]]]:
    """Per place, who frees what there."""
    found: dict[int, list[tuple[int, Vector]]] = {}
    for index, unit in enumerate(problem.units):
        for place, vector in unit.gives:
            if place in inside:
                found.setdefault(place, []).append((index, vector))
    return found


def _closed(problem: VictimProblem, units: set[int]) -> set[int]:
    """With all that must go with them."""
    found, open_ = set(units), sorted(units)
    while open_:
        more = [other for other in problem.units[open_.pop()].needs if other not in found]
        found.update(more)
        open_ += more
    return found


def _sum_of_amounts(problem: VictimProblem) -> int:
    """The largest sum that any constraint could reach."""
    asked = sum(amount * want.count for want in problem.wants for amount in want.request)
    breaches = sum(count for wish in problem.wishes for _, count in wish.takes)
    cost = sum(unit.cost for unit in problem.units) + problem.breach * breaches
    taken = sum(amount for floor in problem.floors for _, vector in floor.takes for amount in vector)
    return max(asked * (1 + len(problem.units)), cost, taken)
