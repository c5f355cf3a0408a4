"""Solves the master problem: first the greatest value, then the fewest regions for these gangs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs
from ortools.sat.python import cp_model

from phalanx.solver.cp_sat import ROUNDING, one_worker
from phalanx.solver.joint.arrays import BendersCut, Plan, Share
from phalanx.solver.joint.master_model import MasterData, MasterModel
from phalanx.solver.joint.symmetry import earliest_first
from phalanx.solver.limits import JOINT_CEILING_PART

Shares = Sequence[Sequence[Share]]


class MasterResult(Struct, frozen=True):
    """The outcome of one solve."""

    plan: Plan | None
    """None where no plan reaches the floor, or none was found."""
    bound: int
    """No set of gangs is worth more, with or without a plan."""
    spent: float
    """Deterministic time units."""


def maximize_value(
    data: MasterData, cuts: Sequence[BendersCut], *, floor: int, start: Shares, effort: float
) -> MasterResult:
    """Return a plan of the greatest value, at least `floor`.

    The upper bound is reached most often, and a solve for feasibility at that value is faster than an
    optimisation.
    """
    result = _solve(data, cuts, data.value_bound, start, effort * JOINT_CEILING_PART, optimise=False)
    if result.plan is not None:
        return result
    rest = _solve(data, cuts, floor, start, effort - result.spent, optimise=True)
    return structs.replace(rest, spent=result.spent + rest.spent)


def _solve(
    data: MasterData,
    cuts: Sequence[BendersCut],
    floor: int,
    start: Shares,
    effort: float,
    *,
    optimise: bool,
) -> MasterResult:
    problem = data.arrays.problem
    master = MasterModel(data, cuts)
    values = [gang.value for gang in problem.gangs]
    value = master.total(zip(values, master.admitted, strict=True), sum(values))
    master.cp.add_linear_constraint(value, floor, data.value_bound)
    if optimise:
        _hint(master, start)
        master.cp.maximize(value)
    solver = one_worker(problem.seed, effort)
    status = solver.solve(master.cp)
    spent = solver.deterministic_time
    if status == cp_model.MODEL_INVALID:
        raise AssertionError(master.cp.validate())
    if status == cp_model.INFEASIBLE:
        return MasterResult(plan=None, bound=floor, spent=spent)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return MasterResult(plan=None, bound=data.value_bound, spent=spent)
    bound = math.floor(solver.best_objective_bound + ROUNDING) if optimise else data.value_bound
    admitted = tuple(gang for gang, variable in enumerate(master.admitted) if solver.value(variable))
    reached = sum(values[gang] for gang in admitted)
    plan = Plan(admitted, reached, _shares(master, solver, admitted))
    return MasterResult(earliest_first(data.arrays, plan), bound, spent)


def minimize_regions(
    data: MasterData, cuts: Sequence[BendersCut], plan: Plan, *, effort: float
) -> tuple[Plan, float]:
    """Move shares of the same gangs into fewer regions; return the plan and the effort spent."""
    master = MasterModel(data, cuts, plan.admitted)
    opened = _opened(master) if len(data.arrays.regions) > 1 else []
    if not opened:
        return plan, 0.0
    master.cp.minimize(cp_model.LinearExpr.sum(opened))
    _hint(master, plan.shares)
    solver = one_worker(data.arrays.problem.seed, effort)
    status = solver.solve(master.cp)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return plan, solver.deterministic_time
    return structs.replace(plan, shares=_shares(master, solver, plan.admitted)), solver.deterministic_time


def _opened(master: MasterModel) -> list[cp_model.IntVar]:
    """A boolean per region that a gang with several possible regions uses."""
    arrays, opened = master.arrays, []
    stream_of = {components[0]: stream for stream, components in enumerate(master.streams)}
    for components in arrays.components_of:
        if len(components) == 1 and arrays.is_confined(components[0]):
            continue
        streams = [stream_of[component] for component in components if component in stream_of]
        size = int(arrays.wanted[list(components)].sum())
        for region in range(len(arrays.regions)):
            pods = [
                variable
                for (stream, _, used), variable in master.pods.items()
                if stream in streams and used == region
            ]
            inside = [
                master.inside[component, region]
                for component in components
                if (component, region) in master.inside
            ]
            if pods or inside:
                is_open = master.cp.new_bool_var("")
                opened.append(is_open)
                if pods:
                    master.cp.add(cp_model.LinearExpr.sum(pods) <= size * is_open)
                for variable in inside:
                    master.cp.add_implication(variable, is_open)
    return opened


def _hint(master: MasterModel, shares: Shares) -> None:
    """Hint the values that the variables have in this plan."""
    here = {
        (share.component, region): share
        for region, region_shares in enumerate(shares)
        for share in region_shares
    }
    admitted = {master.arrays.components[component].gang for component, _ in here}
    for gang, variable in enumerate(master.admitted):
        master.cp.add_hint(variable, gang in admitted)
    for (component, region), variable in master.inside.items():
        master.cp.add_hint(variable, (component, region) in here)
    for (stream, pod_class, region), variable in master.pods.items():
        roles = [
            here[component, region] for component in master.streams[stream] if (component, region) in here
        ]
        master.cp.add_hint(variable, sum(role.counts[pod_class] for role in roles))
    for (component, region), variable in master.segments.items():
        count = sum(here[component, region].counts) if (component, region) in here else 0
        master.cp.add_hint(variable, count // master.arrays.components[component].segment)


def _shares(
    master: MasterModel, solver: cp_model.CpSolver, admitted: Iterable[int]
) -> tuple[tuple[Share, ...], ...]:
    wanted, components = master.arrays.wanted, master.arrays.components
    shares: list[list[Share]] = [[] for _ in master.arrays.regions]
    for (component, region), variable in master.inside.items():
        if solver.value(variable):
            shares[region].append(Share(component, tuple(wanted[component].tolist())))
    for stream, members in enumerate(master.streams):
        slots = [
            [
                solver.value(master.pods[stream, pod_class, region])
                if (stream, pod_class, region) in master.pods
                else 0
                for pod_class in range(wanted.shape[1])
            ]
            for region in range(len(master.arrays.regions))
        ]
        demands = {
            component: wanted[component].tolist()
            for component in members
            if components[component].gang in admitted
        }
        for region, share in distribute(slots, demands):
            shares[region].append(share)
    return tuple(tuple(sorted(region_shares, key=lambda share: share.component)) for region_shares in shares)


def distribute(
    slots: Sequence[Sequence[int]], demands: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, Share]]:
    """Distribute the slots of a merged stream to its components, the largest first.

    `slots` by [region, pod class]; `demands` are pods per pod class of each component. Yields regions and
    shares.
    """
    left = [list(slot) for slot in slots]
    for component in sorted(demands, key=lambda component: (-sum(demands[component]), component)):
        missing = list(demands[component])
        while any(missing):
            region = max(range(len(left)), key=lambda region: (_most(left[region], missing), -region))
            counts = tuple(map(min, left[region], missing))
            if not any(counts):
                raise AssertionError("the slots do not match the demands of the components")
            left[region] = [have - take for have, take in zip(left[region], counts, strict=True)]
            missing = [want - take for want, take in zip(missing, counts, strict=True)]
            yield region, Share(component, counts)


def _most(have: Sequence[int], missing: Sequence[int]) -> int:
    return sum(map(min, have, missing))
