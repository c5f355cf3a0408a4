"""The joint model in CP-SAT: which gangs are admitted, and the domains that hold their pods.

Pods of one class are the same to every node. So the model counts them per group of equal nodes, for all
gangs together. A gang has a boolean, and its role sets have pods per domain only down to the level of their
deepest rule. Domains are nested, so it suffices that each domain holds the sum of the demands on it and on
the domains inside it (Hall's theorem for nested sets).
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from ortools.sat.python import cp_model

from phalanx.rules.budget import budgets_in
from phalanx.solver.arrays import Placement, TooLarge
from phalanx.solver.counting.constraints import capacity_amounts, capacity_patterns
from phalanx.solver.counting.model import CountingModel, solution
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.cp_sat import ROUNDING, one_worker
from phalanx.solver.joint.arrays import DomainRule, JointArrays, RoleSet
from phalanx.solver.limits import MODEL_SUM_MAX

JOINT_FEWEST_PART: Final = 0.25
"""Fraction of the deterministic time of joint admission that may be spent in addition to put the chosen gangs
into few domains."""

JOINT_PAIRS_MAX: Final = 1 << 15
"""Pairs of a rule and a domain in the joint model: 80 gangs that require one of 400 racks. Building it takes
about a second."""

JOINT_FEWEST_PAIRS_MAX: Final = 1 << 8
"""Pairs of a gang and a domain of its preferred level up to which few of them are searched together, which
takes some tenths of a second. With more, only few domains of the widest level are."""

Inside = tuple[int, int]
"""A domain and a pod class."""


class Solution(Struct, frozen=True, eq=False):
    """Counts of pods for the admitted gangs."""

    admitted: tuple[int, ...]
    found: Placement
    """By [node, pod class]."""
    depths: tuple[int, ...]
    """Per role set, the depth of the domains of its demand; 0 where its pods may be anywhere."""
    demands: tuple[Mapping[Inside, int], ...]
    """Per role set."""


class JointResult(Struct, frozen=True, eq=False):
    """The outcome of the search."""

    best: Solution | None
    """None if no set of gangs of more value was found."""
    bound: int
    """No set of gangs is worth more."""


def most_valuable(arrays: JointArrays, *, above: int, effort: float) -> JointResult:
    """Search the set of gangs of the greatest value, more than `above`; then few domains for it."""
    values = [gang.value for gang in arrays.problem.gangs]
    if sum(len(arrays.domains(rule.depth)) for rule in arrays.rules) > JOINT_PAIRS_MAX:
        return JointResult(None, sum(values))
    model = _JointModel(arrays)
    value = model.total(values, model.admitted)
    model.cp.add(value > above)
    model.cp.maximize(value)
    solver = _solver(arrays, effort)
    status = solver.solve(model.cp)
    if status == cp_model.MODEL_INVALID:
        raise AssertionError(model.cp.validate())
    if status == cp_model.INFEASIBLE:
        return JointResult(None, above)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return JointResult(None, sum(values))
    best = _in_few_domains(arrays, model.solution(solver), effort=effort * JOINT_FEWEST_PART)
    return JointResult(best, math.floor(solver.best_objective_bound + ROUNDING))


def _in_few_domains(arrays: JointArrays, best: Solution, *, effort: float) -> Solution:
    """The same gangs in few of the domains that they prefer; the first solution where nothing is found."""
    model = _JointModel(arrays, best.admitted)
    if not model.opened:
        return best
    model.cp.minimize(model.fewest_then_tightest())
    solver = _solver(arrays, effort)
    if solver.solve(model.cp) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return best
    return model.solution(solver)


def _solver(arrays: JointArrays, effort: float) -> cp_model.CpSolver:
    """Without the steps of the presolve that take most of the effort here and help least."""
    solver = one_worker(arrays.problem.seed, effort)
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    return solver


class _JointModel:
    """The variables and constraints. With `only`, exactly these gangs are admitted, in few domains."""

    def __init__(self, arrays: JointArrays, only: Sequence[int] | None = None) -> None:
        self._arrays, self._only = arrays, only
        self._counting = CountingModel(arrays.table, groups_of(arrays.table, arrays.table.everything))
        self.cp = self._counting.cp
        capacity_patterns(self._counting)
        capacity_amounts(self._counting)
        self.admitted = [self._admission(index) for index in range(len(arrays.problem.gangs))]
        self._depths = [max(each.depth, self._few(each)) for each in arrays.role_sets]
        self._fits = {depth: arrays.fits(depth).tolist() for depth in self._all_depths()}
        self._chosen = [{} if rule.size else self._choices(rule) for rule in arrays.rules]
        self._decided_by = self._deciding_rules()
        self._demands = [self._demand(number) for number in range(len(arrays.role_sets))]
        self.opened: list[cp_model.IntVar] = []
        self._opened_fits: list[int] = []
        """Pods that fit in each of the opened domains."""
        for number, rule in enumerate(arrays.rules):
            self._keep_rule(number, rule)
        self._place_all()
        self._domains_hold_demands()
        self._keep_budgets()
        if only is None:
            self._admit_earlier_ones()
        else:
            self._open_domains()

    def solution(self, solver: cp_model.CpSolver) -> Solution:
        """Read the solver's solution."""
        return Solution(
            admitted=tuple(gang for gang, variable in enumerate(self.admitted) if solver.value(variable)),
            found=solution(self._counting, solver),
            depths=tuple(self._depths),
            demands=tuple(
                {inside: solver.value(pods) for inside, pods in demands.items()} for demands in self._demands
            ),
        )

    def fewest_then_tightest(self) -> cp_model.LinearExpr:
        """As few opened domains as possible, and of these such that hold few pods: others stay whole."""
        most = sum(self._opened_fits) + 1
        return self.total([most + fits for fits in self._opened_fits], self.opened)

    def total(self, weights: Sequence[int], variables: Sequence[cp_model.IntVar]) -> cp_model.LinearExpr:
        """The weighted sum of booleans. Raises TooLarge unless it stays exact."""
        if sum(weights) > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def _admission(self, gang: int) -> cp_model.IntVar:
        if self._only is not None:
            return self.cp.new_constant(int(gang in self._only))
        return self.cp.new_int_var(int(self._arrays.problem.gangs[gang].must_admit), 1, "")

    def _all_depths(self) -> range:
        return range(1, max([*self._depths, *(rule.depth for rule in self._arrays.rules)], default=0) + 1)

    # --- demands on domains ---------------------------------------------------------------------------------

    def _choices(self, rule: DomainRule) -> dict[int, cp_model.IntVar]:
        """A boolean per domain that could hold all pods of the rule; the gang chooses one of them."""
        counts = [self._arrays.role_sets[number].counts for number in rule.role_sets]
        wanted = [sum(column) for column in zip(*counts, strict=True)]
        chosen = {
            domain: self.cp.new_bool_var("")
            for domain in self._arrays.domains(rule.depth)
            if all(have >= want for have, want in zip(self._fits[rule.depth][domain], wanted, strict=True))
        }
        self.cp.add(cp_model.LinearExpr.sum(list(chosen.values())) == self.admitted[rule.gang])
        return chosen

    def _deciding_rules(self) -> dict[int, int]:
        """By role set, the rule by which its pods are in one domain of their deepest level, if any."""
        return {
            number: place
            for place, rule in reversed(list(enumerate(self._arrays.rules)))
            for number in rule.role_sets
            if not rule.size and rule.depth == self._depths[number]
        }

    def _demand(self, number: int) -> dict[Inside, cp_model.LinearExprT]:
        """The demand of a role set on domains of its depth; empty where its pods may be anywhere."""
        role_set, depth = self._arrays.role_sets[number], self._depths[number]
        counts = [(pod_class, count) for pod_class, count in enumerate(role_set.counts) if count]
        if number in self._decided_by:
            chosen = self._chosen[self._decided_by[number]].items()
            return {(domain, kind): count * here for domain, here in chosen for kind, count in counts}
        pods: dict[Inside, cp_model.LinearExprT] = {}
        for pod_class, count in counts if depth else ():
            here = {
                (domain, pod_class): self.cp.new_int_var(0, min(count, fits[pod_class]), "")
                for domain, fits in enumerate(self._fits[depth])
                if fits[pod_class]
            }
            pods |= here
            self.cp.add(cp_model.LinearExpr.sum(list(here.values())) == count * self.admitted[role_set.gang])
        return pods

    def _keep_rule(self, number: int, rule: DomainRule) -> None:
        real = set(self._arrays.domains(rule.depth))
        wanted = sum(sum(self._arrays.role_sets[each].counts) for each in rule.role_sets)
        others = [each for each in rule.role_sets if self._decided_by.get(each) != number]
        for domain, pods in self._inside(others, rule.depth):
            if rule.size and domain in real:
                times = self.cp.new_int_var(0, wanted // rule.size, "")
                self.cp.add(cp_model.LinearExpr.sum(pods) == rule.size * times)
            else:
                self.cp.add(cp_model.LinearExpr.sum(pods) <= wanted * self._chosen[number].get(domain, 0))

    def _inside(self, numbers: Iterable[int], depth: int) -> Iterator[tuple[int, list[cp_model.LinearExprT]]]:
        """Each domain of a depth with the demands of these role sets inside it."""
        found: dict[int, list[cp_model.LinearExprT]] = {}
        for number in numbers:
            for (domain, _), pods in self._demands[number].items():
                found.setdefault(self._arrays.outer(domain, self._depths[number], depth), []).append(pods)
        yield from found.items()

    def _few(self, role_set: RoleSet) -> int:
        """Depth down to which the model looks for few domains for these pods; 0 for none.

        Where there are many domains it is the widest level. Pods without a preference should leave whole
        domains of the widest level that another gang requires.
        """
        if self._only is None or role_set.gang not in self._only:
            return 0
        required = min((rule.depth for rule in self._arrays.rules), default=0)
        depth = role_set.preferred or (0 if role_set.depth else required)
        if not depth or len(self._arrays.domains(depth)) * len(self._only) <= JOINT_FEWEST_PAIRS_MAX:
            return depth
        return 1 if role_set.preferred else required

    def _open_domains(self) -> None:
        """A boolean for each domain that a gang uses, on each level of which it prefers few domains."""
        alike: dict[tuple[int, int], list[int]] = {}
        for number, role_set in enumerate(self._arrays.role_sets):
            for depth in range(1, self._few(role_set) + 1):
                alike.setdefault((role_set.gang, depth), []).append(number)
        for (_, depth), numbers in alike.items():
            most = sum(sum(self._arrays.role_sets[number].counts) for number in numbers)
            for domain, pods in self._inside(numbers, depth):
                self.opened.append(self.cp.new_bool_var(""))
                self._opened_fits.append(sum(self._fits[depth][domain]))
                self.cp.add(cp_model.LinearExpr.sum(pods) <= most * self.opened[-1])

    # --- capacity -------------------------------------------------------------------------------------------

    def _place_all(self) -> None:
        """The nodes hold the pods of the admitted gangs, class by class."""
        for pod_class in range(len(self._arrays.problem.pod_classes)):
            pods = self._counting.pods_of(pod_class, range(len(self._counting.groups)))
            wanted = [each.counts[pod_class] * self.admitted[each.gang] for each in self._arrays.role_sets]
            self.cp.add(cp_model.LinearExpr.sum(pods) == cp_model.LinearExpr.sum(wanted))

    def _domains_hold_demands(self) -> None:
        """Each domain holds at least the demands on it and on the domains inside it."""
        for depth in sorted(set(self._depths) - {0}):
            demanded: dict[Inside, list[cp_model.LinearExprT]] = {}
            for inner, demands in zip(self._depths, self._demands, strict=True):
                for (domain, pod_class), pods in demands.items() if inner >= depth else ():
                    outer = self._arrays.outer(domain, inner, depth)
                    demanded.setdefault((outer, pod_class), []).append(pods)
            members: dict[int, list[int]] = {}
            for index, group in enumerate(self._counting.groups):
                members.setdefault(group.domains[depth - 1], []).append(index)
            for (domain, pod_class), amounts in demanded.items():
                held = self._counting.pods_of(pod_class, members.get(domain, []))
                self.cp.add(cp_model.LinearExpr.sum(held) >= cp_model.LinearExpr.sum(amounts))

    def _keep_budgets(self) -> None:
        resources = self._arrays.problem.resources
        for limit in self._arrays.limits:
            for resource, name in enumerate(resources):
                needs = [self._need(gang, resource) for gang in limit.gangs]
                unit = math.gcd(*needs)
                if unit and name in limit.budget.remaining:
                    most = max(0, limit.budget.remaining[name])
                    used = self.total(
                        [need // unit for need in needs], [self.admitted[gang] for gang in limit.gangs]
                    )
                    self.cp.add(used <= min(most, sum(needs)) // unit)

    def _need(self, gang: int, resource: int) -> int:
        problem = self._arrays.problem
        return sum(
            role.count * problem.pod_classes[role.pod_class].request[resource]
            for role in problem.gangs[gang].roles
        )

    def _admit_earlier_ones(self) -> None:
        """Of equal gangs the earlier ones are admitted first; it also saves the search their exchanges."""
        last: dict[Hashable, int] = {}
        for gang in range(len(self.admitted)):
            kind = self._kind(gang)
            if kind in last:
                self.cp.add_implication(self.admitted[gang], self.admitted[last[kind]])
            last[kind] = gang

    def _kind(self, gang: int) -> Hashable:
        """Equal for gangs that the model cannot tell apart."""
        demand = self._arrays.problem.gangs[gang]
        numbers = [number for number, each in enumerate(self._arrays.role_sets) if each.gang == gang]
        sets = tuple(replace(self._arrays.role_sets[number], gang=0) for number in numbers)
        rules = tuple(
            (rule.depth, rule.size, tuple(numbers.index(number) for number in rule.role_sets))
            for rule in self._arrays.rules
            if rule.gang == gang
        )
        budgets = tuple(sorted(budget.name for budget in budgets_in(demand.rules)))
        return sets, rules, budgets, demand.value, demand.must_admit
