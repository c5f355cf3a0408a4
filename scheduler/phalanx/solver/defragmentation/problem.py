"""The planning of moves as data, and the independent check of a plan."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

Vector = tuple[int, ...]
"""Amounts per resource, aligned over the whole problem."""


class PodSet(Struct, frozen=True):
    """`count` interchangeable pods that must be placed."""

    request: Vector
    count: int
    takes: Mapping[int, int]
    """At most so many of them per node index; absent nodes take none."""


class MoveUnit(Struct, frozen=True):
    """Running pods that are moved together or not at all."""

    pods: int
    cost: int
    frees: tuple[tuple[int, Vector], ...]
    """Freed amounts by node index."""
    pod_sets: tuple[PodSet, ...]
    domains: Mapping[int, int] | None = None
    """Domain by node index where one domain must hold all pods; None without such a rule."""


class MoveProblem(Struct, frozen=True, dict=True):
    """Move units so that the demand fits, in one of its domains, and every moved unit as well."""

    free: tuple[Vector, ...]
    """Per node. Negative if more capacity is held than exists: nothing may be placed on such a
    node."""
    demand: tuple[PodSet, ...]
    domains: Mapping[int, int] | None
    units: tuple[MoveUnit, ...]
    moves_max: int
    """At most so many units are moved, at least one."""
    seed: int = 0

    @cached_property
    def size(self) -> int:
        """Pairs of a pod set and a node that takes some of it."""
        pod_sets = [*self.demand, *(pod_set for unit in self.units for pod_set in unit.pod_sets)]
        return sum(len(pod_set.takes) for pod_set in pod_sets)


Placements = tuple[tuple[tuple[int, int], ...], ...]
"""Per pod set, the nodes and how many of its pods each takes."""


class MovePlan(Struct, frozen=True):
    """Which units are moved, and where all pods are placed."""

    units: tuple[int, ...]
    """Indices, ascending."""
    placements: Placements
    """Of the demand."""
    moved: tuple[Placements, ...]
    """Of each moved unit."""
    pods: int
    cost: int


class MoveResult(Struct, frozen=True):
    """The outcome of a search."""

    plan: MovePlan | None
    """The best plan found; None without one."""
    pods_bound: int = 0
    """No plan moves fewer pods."""
    cost_bound: int = 0
    """No plan that moves as few pods costs less."""
    spent: float = 0.0
    """Deterministic time units."""


def move_cost(problem: MoveProblem, units: Sequence[int]) -> tuple[int, int]:
    """Return the pods that are moved, and the cost."""
    return sum(problem.units[unit].pods for unit in units), sum(problem.units[unit].cost for unit in units)


def nodes_by_domain(pod_sets: Sequence[PodSet], domains: Mapping[int, int] | None) -> dict[int, list[int]]:
    """Nodes that take pods per domain that may hold all of them; without domains all nodes are one."""
    found: dict[int, list[int]] = {}
    for node in sorted({node for pod_set in pod_sets for node in pod_set.takes}):
        if domains is None:
            found.setdefault(0, []).append(node)
        elif node in domains:
            found.setdefault(domains[node], []).append(node)
    return {
        domain: nodes
        for domain, nodes in sorted(found.items())
        if all(sum(pod_set.takes.get(node, 0) for node in nodes) >= pod_set.count for pod_set in pod_sets)
    }


def check(problem: MoveProblem, plan: MovePlan) -> Iterator[str]:
    """Yield the errors of a plan, from the problem alone."""
    if list(plan.units) != sorted(set(plan.units)) or not 1 <= len(plan.units) <= problem.moves_max:
        yield f"invalid units {plan.units}"
    if (plan.pods, plan.cost) != move_cost(problem, plan.units):
        yield f"the numbers of pods and the cost are {move_cost(problem, plan.units)}, not those of the plan"
    free = [list(each) for each in problem.free]
    for unit in plan.units:
        for node, vector in problem.units[unit].frees:
            free[node] = [have + more for have, more in zip(free[node], vector, strict=True)]
    whole = [(problem.demand, problem.domains, plan.placements)]
    whole += [
        (problem.units[unit].pod_sets, problem.units[unit].domains, placements)
        for unit, placements in zip(plan.units, plan.moved, strict=True)
    ]
    for pod_sets, domains, placements in whole:
        yield from _misplaced(pod_sets, domains, placements)
        for pod_set, nodes in zip(pod_sets, placements, strict=True):
            for node, count in nodes:
                taken = [amount * count for amount in pod_set.request]
                free[node] = [have - more for have, more in zip(free[node], taken, strict=True)]
    used = {node for _, _, placements in whole for nodes in placements for node, _ in nodes}
    yield from (
        f"node {node} has insufficient capacity" for node in sorted(used) if min(free[node], default=0) < 0
    )


def _misplaced(
    pod_sets: Sequence[PodSet], domains: Mapping[int, int] | None, placements: Placements
) -> Iterator[str]:
    for pod_set, nodes in zip(pod_sets, placements, strict=True):
        if sum(count for _, count in nodes) != pod_set.count:
            yield f"{nodes} places not exactly {pod_set.count} pods"
        yield from (f"too many pods on node {node}" for node, n in nodes if n > pod_set.takes.get(node, 0))
    if domains is not None and len({domains.get(node) for nodes in placements for node, _ in nodes}) > 1:
        yield "pods are in more than one domain"
