"""The placement for which the least must be freed, exactly, where one role asks alone.

What a node must free for its first pods grows with each further pod, so the cheapest seats of a domain, taken
one by one, are the cheapest set of seats. The cost of a seat is the part of the pod's scarcest resource that
must be freed for it; the seats that are free now cost nothing.
"""

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import islice
from math import lcm

from phalanx.model.names import NodeName
from phalanx.solver.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.problem_rules import read_rules

Path = tuple[str, ...]
Seat = tuple[int, int, int]
"""Its cost, the number of its node, and the number of the pod on that node."""


def least_room(core: PlacementProblem, vacant: PlacementProblem) -> list[Assignment]:
    """Where all pods would go, in the domain that must free least; empty where another rule is in the way.

    `vacant` is the problem on empty nodes. Budgets are not looked at: the caller asks whether it fits then.
    """
    book = read_rules(core)
    if len(core.roles) != 1 or book.bonds or book.meetings:
        return []
    free_now = free_by_node(core)
    nodes: list[NodeName] = []
    seats: dict[Path, list[Iterator[Seat]]] = {}
    for group in vacant.classes:
        home = group.path[: book.required_depth]
        if group.eligible[0] and len(home) == book.required_depth and _is_near(core, home):
            mine = seats.setdefault(home, [])
            for node in group.nodes:
                mine.append(_seats(core, group, free_now.get(node), len(nodes)))
                nodes.append(node)
    return _assignments(_cheapest(seats, core.roles[0].minimum), nodes)


def free_by_node(problem: PlacementProblem) -> dict[NodeName, tuple[int, ...]]:
    """What each node of the problem has free."""
    return {node: group.free for group in problem.classes for node in group.nodes}


def _is_near(core: PlacementProblem, home: Path) -> bool:
    return all(anchor[: len(home)] == home for anchor in core.anchors)


def _seats(
    core: PlacementProblem, group: NodeClass, free: tuple[int, ...] | None, node: int
) -> Iterator[Seat]:
    """Of the pods that the empty node takes, in order; the cost is in parts of the scarcest resource."""
    role = core.roles[0]
    asked = [
        (need, have, empty)
        for need, have, empty in zip(role.request, free or (0,) * len(role.request), group.free, strict=True)
        if need > 0
    ]
    whole = lcm(*(need for need, _, _ in asked))
    most = min([role.minimum, *(empty // need for need, _, empty in asked)])
    for pod in range(most):
        cost = max((_part(pod, need, have) * (whole // need) for need, have, _ in asked), default=0)
        yield cost, node, pod


def _part(pod: int, need: int, have: int) -> int:
    """What must be freed for this pod, when those before it have taken theirs."""
    return min(need, max(0, (pod + 1) * need - have))


def _cheapest(seats: Mapping[Path, list[Iterator[Seat]]], count: int) -> list[Seat]:
    """The first so many seats of the domain where they cost least together; no more seats are made."""
    best: tuple[int, Path, list[Seat]] | None = None
    for home in sorted(seats):
        taken = list(islice(merge(*seats[home]), count))
        cost = sum(cost for cost, _, _ in taken)
        if len(taken) == count and (best is None or cost < best[0]):
            best = (cost, home, taken)
    return best[2] if best else []


def _assignments(seats: list[Seat], nodes: list[NodeName]) -> list[Assignment]:
    counts: dict[int, int] = {}
    for _, node, _ in seats:
        counts[node] = counts.get(node, 0) + 1
    return [Assignment(role=0, node=nodes[node], count=counts[node]) for node in sorted(counts)]
