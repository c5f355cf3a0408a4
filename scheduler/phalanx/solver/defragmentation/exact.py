"""The fewest moves with CP-SAT: a boolean per unit, a count per pod set and node, a boolean per domain.

Two solves: the fewest pods, then the least cost with as few pods.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.cp_sat import ROUNDING, confirmed_empty, one_worker
from phalanx.solver.defragmentation.problem import (
    MovePlan,
    MoveProblem,
    MoveResult,
    Placements,
    PodSet,
    move_cost,
    nodes_by_domain,
)
from phalanx.solver.limits import VICTIM_AMOUNTS_MAX

Count = cp_model.IntVar
PodCounts = list[dict[int, Count]]
"""Per pod set, variables for its pods by node."""


def fewest(problem: MoveProblem, *, known: MovePlan | None, effort: float) -> MoveResult:
    """Return the plan that moves the fewest pods, then the cheapest; the known one where none is better."""
    model = _Model(problem)
    if model.declined:
        return MoveResult(known)
    search = _Search(problem, model, known, effort)
    least_pods, is_settled = search.minimize(model.pods, None if known is None else known.pods)
    if search.best is None or not is_settled or search.best.pods > least_pods:
        return MoveResult(search.best, least_pods, 0, search.spent)
    model.cp.add(model.pods <= least_pods)
    least_cost, _ = search.minimize(model.cost, search.best.cost)
    return MoveResult(search.best, least_pods, least_cost, search.spent)


class _Search:
    """State of the two solves: the best plan, and the effort spent."""

    def __init__(self, problem: MoveProblem, model: "_Model", known: MovePlan | None, effort: float) -> None:
        self._problem = problem
        self._model = model
        self._effort = effort
        self.best = known
        self.spent = 0.0
        if known is not None:
            model.hint(known)

    def minimize(self, goal: cp_model.LinearExprT, at_most: int | None) -> tuple[int, bool]:
        """Return a proven lower bound, and whether the search was conclusive."""
        if at_most is not None:
            self._model.cp.add(goal <= at_most)
        self._model.cp.minimize(goal)
        solver = one_worker(self._problem.seed, self._effort - self.spent)
        status = solver.solve(self._model.cp)
        self.spent += solver.deterministic_time
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self.best = self._model.plan(solver)
            self._model.hint(self.best)
        if status == cp_model.INFEASIBLE:
            agrees, spent = confirmed_empty(
                self._model.cp, seed=self._problem.seed, effort=self._effort - self.spent
            )
            self.spent += spent
            return (at_most or 0, True) if agrees else (0, False)
        if status == cp_model.UNKNOWN:
            return 0, False
        return max(0, math.ceil(solver.best_objective_bound - ROUNDING)), status == cp_model.OPTIMAL


class _Whole(Struct, frozen=True):
    """The demand or a unit in the model."""

    counts: PodCounts
    domains: Mapping[int, Count]


class _Model:
    """The CP-SAT model; `declined` where sums of amounts could overflow."""

    def __init__(self, problem: MoveProblem) -> None:
        self.cp = cp_model.CpModel()
        self._problem = problem
        self.declined = _largest_sum(problem) > VICTIM_AMOUNTS_MAX
        if self.declined:
            return
        self._moved = [self.cp.new_bool_var("") for _ in problem.units]
        units = problem.units
        self.pods = cp_model.LinearExpr.weighted_sum(self._moved, [unit.pods for unit in units])
        self.cost = cp_model.LinearExpr.weighted_sum(self._moved, [unit.cost for unit in units])
        self._demand = self._add_whole(problem.demand, problem.domains, None)
        self._units = [
            self._add_whole(unit.pod_sets, unit.domains, moved)
            for unit, moved in zip(units, self._moved, strict=True)
        ]
        self.cp.add(cp_model.LinearExpr.sum(self._moved) <= problem.moves_max)
        self.cp.add(cp_model.LinearExpr.sum(self._moved) >= 1)
        self._keep_capacity()

    def _add_whole(
        self, pod_sets: Sequence[PodSet], domains: Mapping[int, int] | None, moved: Count | None
    ) -> _Whole:
        """Place a unit in one domain if it is moved; the demand always."""
        within = nodes_by_domain(pod_sets, domains)
        chosen = {domain: self.cp.new_bool_var("") for domain in within}
        self.cp.add(cp_model.LinearExpr.sum(list(chosen.values())) == (1 if moved is None else moved))
        counts: PodCounts = []
        for pod_set in pod_sets:
            here: dict[int, Count] = {}
            for domain, nodes in within.items():
                takes = {node: min(pod_set.takes.get(node, 0), pod_set.count) for node in nodes}
                own = {node: self.cp.new_int_var(0, most, "") for node, most in takes.items() if most}
                self.cp.add(cp_model.LinearExpr.sum(list(own.values())) == pod_set.count * chosen[domain])
                here.update(own)
            counts.append(here)
        return _Whole(counts, chosen)

    def _keep_capacity(self) -> None:
        users = self._users()
        frees: dict[int, list[tuple[Count, Sequence[int]]]] = {}
        for unit, moved in zip(self._problem.units, self._moved, strict=True):
            for node, vector in unit.frees:
                frees.setdefault(node, []).append((moved, vector))
        for node, wanted in users.items():
            free = self._problem.free[node]
            is_used = self._is_used(wanted) if min(free) < 0 else None
            for resource, have in enumerate(free):
                freed = [(moved, -vector[resource]) for moved, vector in frees.get(node, ())]
                terms = [(count, pod_set.request[resource]) for count, pod_set in wanted] + freed
                terms = [(each, amount) for each, amount in terms if amount]
                variables, amounts = [each for each, _ in terms], [amount for _, amount in terms]
                rule = self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= have)
                if is_used is not None:
                    rule.only_enforce_if(is_used)

    def _users(self) -> dict[int, list[tuple[Count, PodSet]]]:
        """Per node, the pods that may be placed there."""
        wholes = [(self._problem.demand, self._demand)]
        wholes += [
            (unit.pod_sets, whole) for unit, whole in zip(self._problem.units, self._units, strict=True)
        ]
        users: dict[int, list[tuple[Count, PodSet]]] = {}
        for pod_sets, whole in wholes:
            for pod_set, counts in zip(pod_sets, whole.counts, strict=True):
                for node, count in counts.items():
                    users.setdefault(node, []).append((count, pod_set))
        return users

    def _is_used(self, wanted: Sequence[tuple[Count, PodSet]]) -> Count:
        """A boolean for whether pods are placed on an over-committed node."""
        is_used = self.cp.new_bool_var("")
        for count, _ in wanted:
            self.cp.add(count == 0).only_enforce_if(~is_used)
        return is_used

    def hint(self, plan: MovePlan) -> None:
        """Hint the variables of a plan."""
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        placements = dict(zip(plan.units, plan.moved, strict=True))
        for index, moved in enumerate(self._moved):
            self.cp.add_hint(moved, index in placements)
        wholes = [(self._demand, plan.placements)]
        wholes += [(self._units[unit], where) for unit, where in placements.items()]
        for whole, where in wholes:
            for counts, nodes in zip(whole.counts, where, strict=True):
                placed = dict(nodes)
                for node, count in counts.items():
                    self.cp.add_hint(count, placed.get(node, 0))

    def plan(self, solver: cp_model.CpSolver) -> MovePlan:
        """Read the solver's plan."""
        units = tuple(index for index, moved in enumerate(self._moved) if solver.boolean_value(moved))
        pods, cost = move_cost(self._problem, units)
        return MovePlan(
            units=units,
            placements=_placements(self._demand, solver),
            moved=tuple(_placements(self._units[unit], solver) for unit in units),
            pods=pods,
            cost=cost,
        )


def _placements(whole: _Whole, solver: cp_model.CpSolver) -> Placements:
    return tuple(
        tuple((node, solver.value(count)) for node, count in sorted(counts.items()) if solver.value(count))
        for counts in whole.counts
    )


def _largest_sum(problem: MoveProblem) -> int:
    """The largest sum that any constraint could reach."""
    pod_sets = [*problem.demand, *(pod_set for unit in problem.units for pod_set in unit.pod_sets)]
    demanded = sum(amount * pod_set.count for pod_set in pod_sets for amount in pod_set.request)
    freed = sum(amount for unit in problem.units for _, vector in unit.frees for amount in vector)
    cost = sum(unit.cost for unit in problem.units)
    return max(demanded + freed, cost)
