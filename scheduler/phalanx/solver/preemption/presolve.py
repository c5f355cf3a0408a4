"""A lower bound by counting, and the removal of what no cheaper choice can use.

The bound divides the cost of a unit among the nodes that the unit blocks. The parts on a node are then the
least that one more pod there adds to any choice, and so many pods need the cheapest of these. It is weak
where gangs are scattered, but it needs no search.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.problem import PreemptionProblem, TargetNode, Vector
from phalanx.solver.preemption.scopes import Scope, with_required


def reduced_scope(problem: PreemptionProblem, scope: Scope, below: int | None) -> Scope:
    """Return the scope without units, and nodes, that cost `below` or more."""
    if below is None:
        return scope
    kept = {
        unit: frees for unit, frees in scope.frees.items() if _cost_with_required(problem, [unit]) < below
    }
    left = {
        node: frees
        for node, frees in Scope(scope.nodes, kept).by_node().items()
        if _is_useful(problem, problem.nodes[node], frees, below)
    }
    freed = {unit: [give for give in frees if give[0] in left] for unit, frees in kept.items()}
    payers = [unit for quota in problem.quota_limits for unit, _ in quota.frees if unit in kept]
    return Scope(
        scope.nodes, with_required(problem, {unit: frees for unit, frees in freed.items() if frees}, payers)
    )


def _is_useful(
    problem: PreemptionProblem, node: TargetNode, frees: Sequence[tuple[int, Vector]], below: int
) -> bool:
    """Whether clearing the node may fit more for less; assumed where several demands share it."""
    demands = problem.demands
    now = [
        pods_that_fit(node.free, demand.request, most)
        for demand, most in zip(demands, node.max_pods, strict=True)
    ]
    if len(demands) > 1 and any(now):
        return True
    return any(
        _cost_with_required(problem, required) < below
        for required in _needed_units(problem, node, frees, now)
    )


def _needed_units(
    problem: PreemptionProblem, node: TargetNode, frees: Sequence[tuple[int, Vector]], now: Sequence[int]
) -> Iterator[Sequence[int]]:
    """Per demand that would fit more, the units that prevent it."""
    if_empty = [sum(amounts) for amounts in zip(node.free, *(vector for _, vector in frees), strict=True)]
    for demand, most, count in zip(problem.demands, node.max_pods, now, strict=True):
        if pods_that_fit(if_empty, demand.request, most) > count:
            yield [
                unit
                for unit, vector in frees
                if pods_that_fit(_less(if_empty, vector), demand.request, most) <= count
            ]


def _less(free: Sequence[int], vector: Vector) -> list[int]:
    return [have - amount for have, amount in zip(free, vector, strict=True)]


def _cost_with_required(problem: PreemptionProblem, units: Collection[int]) -> int:
    found, pending = set(units), list(units)
    while pending:
        more = [other for other in problem.units[pending.pop()].requires if other not in found]
        found.update(more)
        pending += more
    return sum(problem.units[unit].cost for unit in found)


SCALE: Final = 1 << 20
"""Parts of a cost are in these units, rounded down."""


def cost_bound(problem: PreemptionProblem, scope: Scope) -> int:
    """Return the largest lower bound over all demands, each taken alone."""
    frees_on = scope.by_node()
    return max(
        (_least_of(problem, scope, frees_on, demand) for demand in range(len(problem.demands))), default=0
    )


def _least_of(
    problem: PreemptionProblem,
    scope: Scope,
    frees_on: Mapping[int, Sequence[tuple[int, Vector]]],
    demand: int,
) -> int:
    missing = problem.demands[demand].count
    gains: list[tuple[int, Sequence[int]]] = []
    for node in scope.nodes:
        now, most, required = _capacity_and_needed_units(
            problem, problem.nodes[node], frees_on.get(node, ()), demand
        )
        missing -= now
        if most > now:
            gains.append((most - now, required))
    parts: dict[int, int] = {}
    for _, required in gains:
        for unit in required:
            parts[unit] = parts.get(unit, 0) + 1
    costs_per_pod = (
        (sum(problem.units[unit].cost * SCALE // parts[unit] for unit in required) // gain, gain)
        for gain, required in gains
    )
    return -(-sum(_cheapest(sorted(costs_per_pod), missing)) // SCALE)


def _capacity_and_needed_units(
    problem: PreemptionProblem, node: TargetNode, frees: Sequence[tuple[int, Vector]], demand: int
) -> tuple[int, int, Sequence[int]]:
    """Pods that fit now, pods that fit without any unit, and the units that must be evicted for one more."""
    request, most = problem.demands[demand].request, node.max_pods[demand]
    now = pods_that_fit(node.free, request, most)
    if now == most or not frees:
        return now, now, ()
    if_empty = [sum(amounts) for amounts in zip(node.free, *(vector for _, vector in frees), strict=True)]
    most = pods_that_fit(if_empty, request, most)
    required = [
        unit
        for unit, vector in frees
        if most > now
        and pods_that_fit(
            [have - amount for have, amount in zip(if_empty, vector, strict=True)], request, most
        )
        <= now
    ]
    return now, most, required


def _cheapest(costs_per_pod: Sequence[tuple[int, int]], missing: int) -> Iterator[int]:
    for cost_per_pod, gain in costs_per_pod:
        if missing <= 0:
            break
        yield cost_per_pod * min(gain, missing)
        missing -= gain
