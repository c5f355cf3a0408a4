"""Moves as data: what is wanted, what is free, and the units that may be moved."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

Vector = tuple[int, ...]
"""Amounts per resource, aligned over the whole problem."""


class PodSet(Struct, frozen=True):
    """Interchangeable pods: `count` of them must be seated, at most `takes` of them on each place, by index.

    A place that is absent takes none.
    """

    request: Vector
    count: int
    takes: Mapping[int, int]


class MoveUnit(Struct, frozen=True):
    """Pods that run and are moved together or not at all.

    `frees`: what their end frees, by index of the place. `domains`: per place, by index, the domain in which
    it lies, where one domain must hold all of the pods; None where none must. A place without one takes none.
    """

    pods: int
    cost: int
    frees: tuple[tuple[int, Vector], ...]
    pod_sets: tuple[PodSet, ...]
    domains: Mapping[int, int] | None = None


class MoveProblem(Struct, frozen=True, dict=True):
    """Move units so that the demand is seated, in one of its domains, and every unit that was moved too.

    `free` per place may be negative, as room can be promised that is not there yet: then nothing may be
    seated on the place until it is not. At most `moves_max` units are moved, at least one is.
    """

    free: tuple[Vector, ...]
    demand: tuple[PodSet, ...]
    domains: Mapping[int, int] | None
    units: tuple[MoveUnit, ...]
    moves_max: int
    seed: int = 0

    @cached_property
    def size(self) -> int:
        """How many pairs there are of a part and a place that takes some of it."""
        pod_sets = [*self.demand, *(pod_set for unit in self.units for pod_set in unit.pod_sets)]
        return sum(len(pod_set.takes) for pod_set in pod_sets)


Placements = tuple[tuple[tuple[int, int], ...], ...]
"""Per part, the places and how many of its pods each takes."""


class MovePlan(Struct, frozen=True):
    """The units that are moved, ascending, where the demand goes, and where each of those units goes."""

    units: tuple[int, ...]
    placements: Placements
    moved: tuple[Placements, ...]
    pods: int
    cost: int


class MoveResult(Struct, frozen=True):
    """The best plan found, None where there is none, or none was found.

    No plan moves fewer than `pods_bound` pods, and none that moves as few as this one costs less than
    `cost_bound`. `spent` in deterministic units.
    """

    plan: MovePlan | None
    pods_bound: int = 0
    cost_bound: int = 0
    spent: float = 0.0


def move_cost(problem: MoveProblem, units: Sequence[int]) -> tuple[int, int]:
    """How many pods that moves, and at what cost."""
    return sum(problem.units[unit].pods for unit in units), sum(problem.units[unit].cost for unit in units)


def nodes_by_domain(pod_sets: Sequence[PodSet], domains: Mapping[int, int] | None) -> dict[int, list[int]]:
    """Per domain that may hold all parts, the places that take any of it; without domains all is one."""
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
    """What is wrong with this plan, in words, looked at in plain Python from the problem alone."""
    if list(plan.units) != sorted(set(plan.units)) or not 1 <= len(plan.units) <= problem.moves_max:
        yield f"{plan.units} are moved"
    if (plan.pods, plan.cost) != move_cost(problem, plan.units):
        yield "the price is another one"
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
    yield from (f"place {node} lacks room" for node in sorted(used) if min(free[node], default=0) < 0)


def _misplaced(
    pod_sets: Sequence[PodSet], domains: Mapping[int, int] | None, placements: Placements
) -> Iterator[str]:
    for pod_set, nodes in zip(pod_sets, placements, strict=True):
        if sum(count for _, count in nodes) != pod_set.count:
            yield f"{nodes} for {pod_set.count} pods"
        yield from (f"{n} pods on place {node}" for node, n in nodes if n > pod_set.takes.get(node, 0))
    if domains is not None and len({domains.get(node) for nodes in placements for node, _ in nodes}) > 1:
        yield "more than one domain"
