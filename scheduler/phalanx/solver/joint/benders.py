"""The Benders loop: master problem, subproblems, cuts, and again, within an effort limit."""

from collections.abc import Iterator, Sequence

from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import BendersCut, JointArrays, Plan, Share
from phalanx.solver.joint.master import maximize_value, minimize_regions
from phalanx.solver.joint.master_model import MasterData, master_data
from phalanx.solver.joint.problem import JointAssignment, total_value
from phalanx.solver.joint.sequential import one_by_one
from phalanx.solver.joint.subproblem import (
    IMPOSSIBLE,
    UNKNOWN,
    RegionPlacement,
    RegionResult,
    assign_pods,
    most_beside,
    solve_region,
)
from phalanx.solver.joint.symmetry import groups_at_least_as_hard
from phalanx.solver.limits import JOINT_MASTER_PART, JOINT_REGION_PART, JOINT_ROUNDS_MAX, SOLVE_EFFORT_MIN

Shares = tuple[Share, ...]


class BendersDecomposition:
    """State of the loop."""

    def __init__(self, arrays: JointArrays, start: JointAssignment, *, effort: float) -> None:
        self._arrays = arrays
        self._data: MasterData = master_data(arrays)
        self._effort = self._left = effort
        self.cuts: list[BendersCut] = []
        self.best = start
        self.bound = self._data.value_bound

    def run(self) -> None:
        """Iterate until a plan is feasible, the bound is reached, or the effort or the rounds are used up."""
        for _ in range(JOINT_ROUNDS_MAX):
            plan = self._plan() if self._left > 0 and self._value() < self.bound else None
            if plan is None or plan.value <= self._value():
                return
            solved = self._solved(plan)
            self._keep(solved)
            if all(isinstance(placement, RegionPlacement) for _, placement in solved):
                return

    def _value(self) -> int:
        return total_value(self._arrays.problem, self.best)

    def _plan(self) -> Plan | None:
        start = self._shares_of_best()
        effort = min(self._left, self._effort * JOINT_MASTER_PART)
        result = maximize_value(self._data, self.cuts, floor=self._value(), start=start, effort=effort)
        self._spend(result.spent)
        if all(cut.proven for cut in self.cuts):
            self.bound = min(self.bound, result.bound)
        if result.plan is None or result.plan.value <= self._value():
            return None
        effort = self._effort * JOINT_REGION_PART
        plan, spent = minimize_regions(self._data, self.cuts, result.plan, effort=effort)
        self._spend(spent)
        return plan

    def _solved(self, plan: Plan) -> list[tuple[Shares, RegionPlacement | str]]:
        solved: list[tuple[Shares, RegionPlacement | str]] = []
        for number, shares in enumerate(plan.shares):
            if not shares:
                continue
            result = self._solve(number, shares)
            if not isinstance(result.placement, RegionPlacement):
                self.cuts.append(self._cut(number, shares, result.placement == IMPOSSIBLE))
            solved.append((shares, result.placement))
        return solved

    def _solve(self, number: int, shares: Shares) -> RegionResult:
        """Solve one region. A plan is completed even beyond the effort limit, up to twice of it."""
        if self._left < -self._effort:
            return RegionResult(UNKNOWN, 0.0)
        region = self._arrays.regions[number]
        result = solve_region(self._arrays, region, shares, effort=self._effort * JOINT_REGION_PART)
        self._spend(result.spent)
        return result

    def _cut(self, number: int, shares: Shares, proven: bool) -> BendersCut:
        """Derive the strongest cut from an infeasible region that is known to be valid."""
        confined = tuple(share for share in shares if self._arrays.is_confined(share.component))
        inner = tuple(
            share for share in confined if self._arrays.components[share.component].depth > self._arrays.depth
        )
        for some in dict.fromkeys((inner, confined)):
            if proven and some and some != shares and self._solve(number, some).placement == IMPOSSIBLE:
                return BendersCut(number, groups_at_least_as_hard(self._arrays, some))
        if confined == shares or not self._data.inequalities:
            return BendersCut(number, groups_at_least_as_hard(self._arrays, confined), proven=proven)
        return self._at_most_beside(number, confined, shares)

    def _at_most_beside(self, number: int, confined: Shares, shares: Shares) -> BendersCut:
        """Limit the loose pods beside the confined components of the region."""
        arrays = self._arrays
        loose = [share for share in shares if share not in confined]
        index = max(
            range(len(self._data.inequalities)),
            key=lambda index: sum(
                _weigh(share, self._data.inequalities[index].weights) > 0 for share in loose
            ),
        )
        weights = self._data.inequalities[index].weights
        demanded = sum(_weigh(share, weights) for share in loose)
        fits = [
            sum(
                int(arrays.wanted[component, pod_class])
                for component in range(len(arrays.components))
                if not arrays.is_confined(component)
            )
            for pod_class in range(len(weights))
        ]
        effort = self._effort * JOINT_REGION_PART
        result = most_beside(
            arrays, arrays.regions[number], confined, loose=fits, weights=weights, effort=effort
        )
        self._spend(result.spent)
        proven = isinstance(result.placement, RegionPlacement) and result.rest < demanded
        rest = result.rest if proven else demanded - 1
        return BendersCut(number, groups_at_least_as_hard(arrays, confined), weights, rest, proven)

    def _keep(self, solved: Sequence[tuple[Shares, RegionPlacement | str]]) -> None:
        """Keep what the regions hold as the best assignment if it is worth more.

        Gangs of infeasible regions, and others, are tried one by one on the residual capacity.
        """
        placed = [
            (shares, placement) for shares, placement in solved if isinstance(placement, RegionPlacement)
        ]
        failed = {
            self._arrays.components[share.component].gang
            for shares, placement in solved
            if not isinstance(placement, RegionPlacement)
            for share in shares
        }
        found = {
            gang: assignments
            for gang, assignments in assign_pods(self._arrays, placed).items()
            if gang not in failed
        }
        if failed:
            found = dict(
                one_by_one(self._arrays, self._order(failed, found), limits=GREEDY_ONLY, start=found)
            )
        required = {index for index, gang in enumerate(self._arrays.problem.gangs) if gang.must_admit}
        if required <= found.keys() and total_value(self._arrays.problem, found) > self._value():
            self.best = dict(sorted(found.items()))

    def _order(self, failed: set[int], found: JointAssignment) -> Iterator[int]:
        """Order of the second try: gangs that must be admitted, gangs of the plan, then by value."""
        gangs = self._arrays.problem.gangs
        rest = [gang for gang in range(len(gangs)) if gang not in found]
        yield from sorted(
            rest, key=lambda gang: (not gangs[gang].must_admit, gang not in failed, -gangs[gang].value, gang)
        )

    def _shares_of_best(self) -> list[list[Share]]:
        region_of = {
            node: number for number, region in enumerate(self._arrays.regions) for node in region.table.names
        }
        counts: list[dict[int, list[int]]] = [{} for _ in self._arrays.regions]
        component_of = {
            (own.gang, role): component
            for component, own in enumerate(self._arrays.components)
            for role_set in own.role_sets
            for role in role_set
        }
        for gang, assignments in self.best.items():
            for assignment in assignments:
                pod_class = self._arrays.problem.gangs[gang].roles[assignment.role].pod_class
                component = component_of[gang, assignment.role]
                here = counts[region_of[assignment.node]].setdefault(
                    component, [0] * len(self._arrays.problem.pod_classes)
                )
                here[pod_class] += assignment.count
        return [
            [Share(component, tuple(counts_here)) for component, counts_here in region.items()]
            for region in counts
        ]

    def _spend(self, spent: float) -> None:
        self._left -= max(spent, SOLVE_EFFORT_MIN)


def _weigh(share: Share, weights: Sequence[int]) -> int:
    return sum(weight * count for weight, count in zip(weights, share.counts, strict=True))
