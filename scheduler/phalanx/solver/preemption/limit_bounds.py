"""A proof by counting that eviction limits allow too little: then no search is needed.

Pods that do not fit what is free need some capacity to be freed, wherever they go. What may be freed of a
resource is bounded by each limit that counts at least as much for each unit as the unit frees.
"""

from collections.abc import Iterator, Mapping
from heapq import nsmallest

from phalanx.solver.preemption.problem import EvictionLimit, PreemptionProblem
from phalanx.solver.preemption.scopes import Scope


def allow_too_little(problem: PreemptionProblem, scope: Scope) -> bool:
    """Whether the limits exclude every choice in the scope."""
    if not problem.eviction_limits:
        return False
    for resource in range(len(problem.demands[0].request) if problem.demands else 0):
        freed = {
            unit: amount
            for unit, frees in scope.frees.items()
            if (amount := sum(vector[resource] for _, vector in frees)) > 0
        }
        most = min(_allowed(problem, freed), default=None)
        if most is not None and most < _needed(problem, scope, resource):
            return True
    return False


def _allowed(problem: PreemptionProblem, freed: Mapping[int, int]) -> Iterator[int]:
    """By each limit that bounds it, the most that may be freed; `freed`: by unit."""
    total = sum(freed.values())
    for limit in problem.eviction_limits:
        counted = sum(freed.get(unit, 0) for unit, _ in limit.amounts)
        for position, most in enumerate(limit.limit):
            if counted and all(vector[position] >= freed.get(unit, 0) for unit, vector in limit.amounts):
                yield max(0, most) + _largest_group(limit, position) + total - counted


def _largest_group(limit: EvictionLimit, position: int) -> int:
    """The most that one group may lose beyond the limit."""
    lost: dict[int, int] = {}
    for group, (_, vector) in zip(limit.groups, limit.amounts, strict=False):
        lost[group] = lost.get(group, 0) + vector[position]
    return max(lost.values(), default=0)


def _needed(problem: PreemptionProblem, scope: Scope, resource: int) -> int:
    """The least that must be freed of a resource: the most that one of the demands needs by itself."""
    return max(_needed_for(problem, scope, demand, resource) for demand in range(len(problem.demands)))


def _needed_for(problem: PreemptionProblem, scope: Scope, demand: int, resource: int) -> int:
    request, missing = problem.demands[demand].request[resource], problem.demands[demand].count
    if not request:
        return 0
    parts: list[int] = []
    for node in map(problem.nodes.__getitem__, scope.nodes):
        now, rest = divmod(max(0, node.free[resource]), request)
        missing -= min(now, node.max_pods[demand])
        if now < node.max_pods[demand]:
            parts.append(request - rest)
    if missing <= 0:
        return 0
    cheapest = nsmallest(missing, parts)
    return sum(cheapest) + request * (missing - len(cheapest))
