"""The cheapest victims with CP-SAT: a boolean per unit, a count per demand and node.

Objectives are minimised one after the other (`stages_of`). The linear relaxation decides the speed. Each
unit gets its own inequality (how many pods fit on a node while the unit stays) beside the sum over all units.
Where these imply the sum, nodes with equal inequalities are aggregated. `presolve` removes units and nodes
that no cheaper choice uses.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.cp_sat import ROUNDING, confirmed_empty, one_worker
from phalanx.solver.limits import VICTIM_AMOUNTS_MAX
from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.presolve import reduced_scope
from phalanx.solver.preemption.problem import EvictionLimit, PreemptionProblem, TargetNode, Vector, VictimSet
from phalanx.solver.preemption.scopes import Scope

VICTIM_STAGE_MAX: Final = 1 << 40
"""Objectives for victims are minimised together as one number up to this size, else one after the other."""


class ExactResult(Struct, frozen=True):
    """The outcome of one search."""

    choice: VictimSet | None
    """A choice cheaper than the known one, if any."""
    bound: int | None
    """Least cost of all choices. None: there is no cheaper one, or none at all as two configurations
    agree."""
    spent: float
    """Deterministic time units."""


def cheapest(problem: PreemptionProblem, scope: Scope, *, below: int | None, effort: float) -> ExactResult:
    """Return the cheapest choice within the scope that costs less than `below`."""
    model = _Model(problem, reduced_scope(problem, scope, below))
    if model.declined:
        return ExactResult(choice=None, bound=0, spent=0.0)
    return _Search(problem, model, below, effort).run()


class _Search:
    """Minimises one part of the objective after the other, the most important first."""

    def __init__(self, problem: PreemptionProblem, model: "_Model", below: int | None, effort: float) -> None:
        self._problem, self._model, self._below, self._effort = problem, model, below, effort
        self._spent = 0.0
        self._least = 0
        """Of the parts so far."""
        self._found: tuple[int, ...] | None = None
        self._as_low = below is not None
        """Whether the parts so far are equal to those of `below`."""

    def run(self) -> ExactResult:
        """Return the cheapest choice, or what is known when the effort is spent."""
        stages = stages_of(self._problem)
        for number, stage in enumerate(stages):
            part = self._model.part(stage)
            below = stage.of(self._below or 0)
            if self._as_low:
                is_last = number == len(stages) - 1
                self._model.cp.add(part <= below - is_last)
            status, bound = self._minimize(part)
            if status == cp_model.INFEASIBLE:
                return self._nothing_found()
            if status != cp_model.OPTIMAL:
                return self._result(self._least + bound * stage.scale)
            self._model.cp.add(part <= bound)
            self._least += bound * stage.scale
            self._as_low = self._as_low and bound == below
        return self._result(self._least)

    def _minimize(self, part: cp_model.LinearExprT) -> tuple[cp_model.CpSolverStatus, int]:
        """The status and a lower bound. Parts after the first one only decide between equals."""
        model, is_first = self._model, self._found is None
        left = self._effort - self._spent
        model.cp.minimize(part)
        solver = one_worker(self._problem.seed, left if is_first else min(left, self._effort / 4))
        status = solver.solve(model.cp)
        self._spent += solver.deterministic_time
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            values = {unit: solver.boolean_value(variable) for unit, variable in model.units.items()}
            self._found = tuple(sorted(unit for unit, is_chosen in values.items() if is_chosen))
            model.cp.clear_hints()  # type: ignore[no-untyped-call]
            for unit, is_chosen in values.items():
                model.cp.add_hint(model.units[unit], is_chosen)
        bound = solver.best_objective_bound
        return status, max(0, math.ceil(bound - ROUNDING)) if math.isfinite(bound) else 0

    def _nothing_found(self) -> ExactResult:
        if self._below is not None:
            return ExactResult(choice=None, bound=None, spent=self._spent)
        seed, left = self._problem.seed, self._effort
        agrees, spent = confirmed_empty(self._model.cp, seed=seed, effort=left)
        return ExactResult(choice=None, bound=None if agrees else 0, spent=self._spent + spent)

    def _result(self, least: int) -> ExactResult:
        """The best choice found, if it is cheaper than the known one."""
        if self._found is None:
            return ExactResult(choice=None, bound=least, spent=self._spent)
        cost = self._problem.cost_of(self._found)
        least = min(cost, least)
        if self._below is not None and cost >= self._below:
            return ExactResult(choice=None, bound=least, spent=self._spent)
        return ExactResult(VictimSet(self._found, cost, least), least, self._spent)


class Stage(Struct, frozen=True):
    """A part of the objective that is minimised at once."""

    scale: int
    end: int | None
    """The scale of the next more important part."""

    def of(self, cost: int) -> int:
        """The value of this part."""
        return (cost if self.end is None else cost % self.end) // self.scale


def stages_of(problem: PreemptionProblem) -> list[Stage]:
    """The parts of the objective, the most important first, each as large as is handled at once."""
    cuts, last = [1], 1
    for scale in problem.scales[1:]:
        if scale // cuts[-1] > VICTIM_STAGE_MAX and last != cuts[-1]:
            cuts.append(last)
        last = scale
    return [Stage(scale, end) for scale, end in zip(cuts, [*cuts[1:], None], strict=True)][::-1]


class _NodeGroup(Struct, frozen=True):
    """One node, or several with the same inequalities."""

    takes: tuple[tuple[int, int], ...]
    """Demands that fit here and the most pods of each."""
    while_it_stays: tuple[tuple[int, int, int], ...]
    """Demand, unit, and the pods that fit while the unit is not evicted."""
    rows: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
    """Resource, free amount, and freed amounts by unit, where the others do not imply it."""


class _Model:
    """The CP-SAT model; `declined` where sums of amounts could overflow."""

    def __init__(self, problem: PreemptionProblem, scope: Scope) -> None:
        self.cp = cp_model.CpModel()
        self._problem = problem
        self.units = {unit: self.cp.new_bool_var("") for unit in scope.frees}
        self.declined = _sum_of_amounts(problem) > VICTIM_AMOUNTS_MAX
        if not self.declined:
            self._costs = self._all_costs()
            self._require_others()
            self._keep_eviction_limits()
            self._place_demands(scope)
            self._keep_quota_limits()

    def part(self, stage: Stage) -> cp_model.LinearExprT:
        """This part of the cost."""
        parts = [(variable, stage.of(cost)) for variable, cost in self._costs]
        counted = [(variable, amount) for variable, amount in parts if amount]
        return cp_model.LinearExpr.weighted_sum(
            [variable for variable, _ in counted], [amount for _, amount in counted]
        )

    def _all_costs(self) -> list[tuple[cp_model.IntVar, int]]:
        """The costs of the units, and of pods beyond soft limits."""
        found = [(variable, self._problem.units[unit].cost) for unit, variable in self.units.items()]
        for soft_limit in self._problem.soft_limits:
            takes = [(self.units[unit], count) for unit, count in soft_limit.pods if unit in self.units]
            over = self.cp.new_int_var(0, sum(count for _, count in takes), "")
            evicted, counts = (
                [*(variable for variable, _ in takes), over],
                [*(count for _, count in takes), -1],
            )
            self.cp.add(cp_model.LinearExpr.weighted_sum(evicted, counts) <= soft_limit.most)
            found.append((over, self._problem.violation_cost))
        return found

    def _require_others(self) -> None:
        for unit, variable in self.units.items():
            for other in self._problem.units[unit].requires:
                self.cp.add_implication(variable, self.units[other])

    def _keep_eviction_limits(self) -> None:
        for limit in self._problem.eviction_limits:
            for position, capacity in enumerate(limit.limit):
                terms = [(self.units[u], vector[position]) for u, vector in limit.amounts if u in self.units]
                terms += self._exempt_group(limit, position)
                variables, amounts = [variable for variable, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, capacity))

    def _exempt_group(self, limit: EvictionLimit, position: int) -> list[tuple[cp_model.IntVar, int]]:
        """Negative amounts of the one group that an eviction limit does not count."""
        groups: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
        for group, (unit, vector) in zip(limit.groups, limit.amounts, strict=bool(limit.groups)):
            if unit in self.units and vector[position]:
                groups.setdefault(group, []).append((self.units[unit], vector[position]))
        found: list[tuple[cp_model.IntVar, int]] = []
        is_left_out = [self.cp.new_bool_var("") for _ in groups]
        self.cp.add_at_most_one(is_left_out)
        for left_out, members in zip(is_left_out, groups.values(), strict=True):
            for evicted, amount in members:
                both = self.cp.new_bool_var("") if len(members) > 1 else left_out
                self.cp.add_implication(both, evicted)
                self.cp.add_implication(both, left_out)
                found.append((both, -amount))
        return found

    def _place_demands(self, scope: Scope) -> None:
        """Count equal nodes together where no unit frees them; a relaxation for several demands."""
        counts: list[list[cp_model.IntVar]] = [[] for _ in self._problem.demands]
        frees_on = scope.by_node()
        unchanged: dict[TargetNode, int] = {}
        group: dict[_NodeGroup, int] = {}
        for node in scope.nodes:
            target = self._problem.nodes[node]
            if node in frees_on:
                found = node_group_of(self._problem, target, frees_on[node])
                group[found] = group.get(found, 0) + 1
            else:
                unchanged[target] = unchanged.get(target, 0) + 1
        for found, number in group.items():
            together = number if not found.rows else 1
            for _ in range(number // together):
                self._add_group(found, together, counts)
        for target, number in unchanged.items():
            self._add_unchanged_nodes(target, number, counts)
        for demand, variables in zip(self._problem.demands, counts, strict=True):
            self.cp.add(cp_model.LinearExpr.sum(variables) >= demand.count)

    def _add_group(self, group: _NodeGroup, number: int, counts: list[list[cp_model.IntVar]]) -> None:
        """Add so many equal nodes."""
        here = {demand: self.cp.new_int_var(0, most * number, "") for demand, most in group.takes}
        most_of = dict(group.takes)
        for demand, variable in here.items():
            counts[demand].append(variable)
        for demand, unit, still in group.while_it_stays:
            more = (most_of[demand] - still) * number
            self.cp.add(here[demand] - more * self.units[unit] <= still * number)
        for resource, free, freed in group.rows:
            asked = [(here[demand], self._problem.demands[demand].request[resource]) for demand in here]
            terms = [*asked, *((self.units[unit], -amount) for unit, amount in freed)]
            if free < 0:
                users = [variable for variable, amount in asked if amount]
                terms.append((self._any_of(users, max(most_of.values())), -free))
            variables, amounts = [variable for variable, _ in terms], [amount for _, amount in terms]
            self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= max(0, free))

    def _any_of(self, counts: Sequence[cp_model.IntVar], most: int) -> cp_model.IntVar:
        """A boolean for whether pods are placed on an over-committed node."""
        is_used = self.cp.new_bool_var("")
        for count in counts:
            self.cp.add(count <= most * is_used)
        return is_used

    def _add_unchanged_nodes(
        self, node: TargetNode, number: int, counts: list[list[cp_model.IntVar]]
    ) -> None:
        demands = self._problem.demands
        takes = [
            number * pods_that_fit(node.free, demand.request, min(most, demand.count))
            for demand, most in zip(demands, node.max_pods, strict=True)
        ]
        here = [(index, self.cp.new_int_var(0, most, "")) for index, most in enumerate(takes) if most]
        for index, variable in here:
            counts[index].append(variable)
        for resource, free in enumerate(node.free) if len(here) > 1 else ():
            variables = [variable for _, variable in here]
            amounts = [demands[index].request[resource] for index, _ in here]
            self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= free * number)

    def _keep_quota_limits(self) -> None:
        for quota in self._problem.quota_limits:
            for position, index in enumerate(quota.resources):
                asked = sum(demand.request[index] * demand.count for demand in self._problem.demands)
                missing = asked - quota.limit[position]
                if missing <= 0:
                    continue
                terms = [
                    (self.units[unit], min(vector[position], missing))
                    for unit, vector in quota.frees
                    if unit in self.units
                ]
                variables, amounts = [variable for variable, _ in terms], [amount for _, amount in terms]
                self.cp.add(cp_model.LinearExpr.weighted_sum(variables, amounts) >= missing)


def node_group_of(
    problem: PreemptionProblem, node: TargetNode, frees: Sequence[tuple[int, Vector]]
) -> _NodeGroup:
    """Derive the inequalities of a node that these units free."""
    demands = problem.demands
    if_empty = [sum(amounts) for amounts in zip(node.free, *(vector for _, vector in frees), strict=True)]
    takes = [
        pods_that_fit(if_empty, demand.request, min(most, demand.count))
        for demand, most in zip(demands, node.max_pods, strict=True)
    ]
    stays: list[tuple[int, int, int]] = []
    for unit, vector in frees:
        left = [have - amount for have, amount in zip(if_empty, vector, strict=True)]
        for index, most in enumerate(takes):
            still = pods_that_fit(left, demands[index].request, most) if most else most
            if still < most:
                stays.append((index, unit, still))
    here = tuple((index, most) for index, most in enumerate(takes) if most)
    if len(here) == 1 and _is_implied(here[0][1], stays, frees, if_empty, demands[here[0][0]].request):
        return _NodeGroup(here, tuple(stays), ())
    return _NodeGroup(here, tuple(stays), tuple(_rows(problem, node, frees, here)))


def _is_implied(
    most: int,
    stays: Sequence[tuple[int, int, int]],
    frees: Sequence[tuple[int, Vector]],
    if_empty: Sequence[int],
    request: Vector,
) -> bool:
    """Whether the inequalities per unit imply the sum: there is one unit, or all or nothing fits."""
    if len(frees) == 1:
        return True
    required = {unit for _, unit, _ in stays}
    without_row = [vector for unit, vector in frees if unit not in required]
    left = [have - sum(amounts) for have, *amounts in zip(if_empty, *without_row, strict=True)]
    return most == 1 and pods_that_fit(left, request, 1) == 1


def _rows(
    problem: PreemptionProblem,
    node: TargetNode,
    frees: Sequence[tuple[int, Vector]],
    here: Sequence[tuple[int, int]],
) -> Iterator[tuple[int, int, tuple[tuple[int, int], ...]]]:
    for resource, free in enumerate(node.free):
        most = sum(problem.demands[index].request[resource] * count for index, count in here)
        if most > free and most:
            missing = most - free
            freed = ((unit, min(vector[resource], missing)) for unit, vector in frees)
            yield resource, free, tuple((unit, amount) for unit, amount in freed if amount)


def _sum_of_amounts(problem: PreemptionProblem) -> int:
    """The largest sum that any constraint could reach."""
    asked = sum(amount * demand.count for demand in problem.demands for amount in demand.request)
    violations = sum(count for soft_limit in problem.soft_limits for _, count in soft_limit.pods)
    cost = max(
        sum(stage.of(unit.cost) for unit in problem.units) + stage.of(problem.violation_cost) * violations
        for stage in stages_of(problem)
    )
    taken = sum(
        amount for limit in problem.eviction_limits for _, vector in limit.amounts for amount in vector
    )
    return max(asked * (1 + len(problem.units)), cost, taken)
