"""Computes how much more capacity, and where, would make a problem fit.

For one role: the domain and nodes where the least must be freed, exactly. What a node must free for its first
pods grows with each further pod, so the cheapest slots of a domain, taken one by one, are the cheapest set of
slots. For several roles, or where other rules interfere: what fits now is kept, and the rest is placed on
nodes that are assumed to be empty, where little must be freed.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from math import lcm

from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.resources import Resources, add, scale, subtract
from phalanx.rules.anchors import Anchor
from phalanx.rules.budget import Budget, budgets_in, with_budgets
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle
from phalanx.solver.infeasibility.relaxations import NodeCapacity, with_free
from phalanx.solver.problem_rules import read_rules


class MissingCapacity(Struct, frozen=True):
    """Capacity to free on nodes, `amounts` in total, all in `domain` of `level` (empty: anywhere)."""

    amounts: Resources
    capacity: tuple[NodeCapacity, ...]
    level: str = ""
    domain: tuple[str, ...] = ()
    pods: int = 0
    """If not 0: any nodes there that take so many more pods suffice, and no less does."""


SHARE = 1000
"""Cost of a pod whose scarcest resource must be freed completely."""


def missing_capacity(
    core: PlacementProblem,
    vacant: PlacementProblem,
    now: Sequence[Assignment],
    oracle: FeasibilityOracle,
) -> Iterator[MissingCapacity]:
    """Yield candidates, the least first where that is known. `vacant` is the problem on empty nodes."""
    least = least_capacity(core, vacant)
    if least:
        anywhere = all(rule.nodes is None for rule in budgets_in(core.rules))
        pods = _beyond_what_fits(core, least) if anywhere else 0
        yield structs.replace(_capacity_to_free(core, least), pods=pods)
    for kept in dict.fromkeys((tuple(now), ())):
        answer = oracle.answer(_left_over(core, vacant, kept))
        if isinstance(answer, Placed):
            yield _capacity_to_free(core, [*kept, *answer.assignments])


def _beyond_what_fits(core: PlacementProblem, assignments: Sequence[Assignment]) -> int:
    """How many of these pods of the one role the nodes cannot take now."""
    free_now = free_by_node(core)
    request = core.roles[0].request
    beyond = 0
    for assignment in assignments:
        free = free_now.get(assignment.node, (0,) * len(request))
        counts = [have // need for need, have in zip(request, free, strict=True) if need > 0]
        fit = min(counts, default=assignment.count)
        beyond += max(0, assignment.count - fit)
    return beyond


def _left_over(
    core: PlacementProblem, vacant: PlacementProblem, kept: Sequence[Assignment]
) -> PlacementProblem:
    """The pods beyond the kept ones, beside these on otherwise empty nodes."""
    used = node_use(core, kept)
    free_now = free_by_node(with_free(core, _negative(used)))
    beside = with_free(vacant, _negative(used))
    placed = [
        sum(assignment.count for assignment in kept if assignment.role == index)
        for index in range(len(core.roles))
    ]
    roles = tuple(
        structs.replace(role, minimum=role.minimum - count, maximum=role.minimum - count)
        for role, count in zip(core.roles, placed, strict=True)
    )
    return structs.replace(
        beside,
        roles=roles,
        classes=tuple(_with_freeing_costs(core, part, free_now) for part in _single(beside.classes)),
        rules=with_budgets(beside.rules, lambda budget: _budget_left(core, budget, kept)),
        anchors=(*core.anchors, *map(Anchor, used_path(core, kept))),
    )


def _single(classes: Sequence[NodeClass]) -> list[NodeClass]:
    return [structs.replace(group, nodes=(node,)) for group in classes for node in group.nodes]


def _negative(amounts: dict[NodeName, Resources]) -> dict[NodeName, Resources]:
    return {node: scale(used, -1) for node, used in amounts.items()}


def _with_freeing_costs(
    core: PlacementProblem, group: NodeClass, free_now: dict[NodeName, tuple[int, ...]]
) -> NodeClass:
    """Cost per role: the part of a pod's scarcest resource that must be freed, in thousandths."""
    free = free_now.get(group.nodes[0], (0,) * len(core.resources))
    cost = tuple(
        max((SHARE * (need - min(need, have)) // need for need, have in asked if need > 0), default=0)
        for asked in (list(zip(role.request, free, strict=True)) for role in core.roles)
    )
    return structs.replace(group, cost=cost)


def _budget_left(core: PlacementProblem, rule: Budget, kept: Sequence[Assignment]) -> Budget:
    used = budget_use(core, rule, kept)
    limited = {name: amount for name, amount in used.items() if name in rule.remaining}
    return structs.replace(rule, remaining=subtract(rule.remaining, limited))


def used_path(core: PlacementProblem, placed: Sequence[Assignment]) -> tuple[tuple[str, ...], ...]:
    """The path of one used node, for all of them where a level is required."""
    nodes = {assignment.node for assignment in placed}
    paths = (group.path for group in core.classes if not nodes.isdisjoint(group.nodes))
    return tuple(path for path, _ in zip(paths, range(1), strict=False))


def _capacity_to_free(core: PlacementProblem, assignments: Sequence[Assignment]) -> MissingCapacity:
    """The amounts per node that these pods need beyond what is free."""
    free_now = free_by_node(core)
    capacity = []
    for node, used in sorted(node_use(core, assignments).items()):
        free = dict(zip(core.resources, free_now.get(node, (0,) * len(core.resources)), strict=True))
        more = {name: amount - free[name] for name, amount in used.items() if amount > free[name]}
        if more:
            capacity.append(NodeCapacity(node=node, amounts=more))
    paths = used_path(core, assignments)
    return _missing(core, paths[0] if paths else (), capacity)


def _missing(
    core: PlacementProblem, path: tuple[str, ...], capacity: Sequence[NodeCapacity]
) -> MissingCapacity:
    total: Resources = {}
    for node_capacity in capacity:
        total = add(total, node_capacity.amounts)
    required = read_rules(core).required
    return MissingCapacity(
        level="" if required is None else core.levels[required],
        domain=() if required is None else path[: required + 1],
        amounts=total,
        capacity=tuple(capacity),
    )


Path = tuple[str, ...]
PodSlot = tuple[int, int, int]
"""Cost, number of the node, and number of the pod on that node."""


def least_capacity(core: PlacementProblem, vacant: PlacementProblem) -> list[Assignment]:
    """Place all pods in the domain that must free least; empty where another rule interferes.

    `vacant` is the problem on empty nodes. Budgets are ignored: the caller tests the result.
    """
    rules = read_rules(core)
    if len(core.roles) != 1 or rules.subgroup_constraints or rules.compares_values:
        return []
    free_now = free_by_node(core)
    nodes: list[NodeName] = []
    slots: dict[Path, list[Iterator[PodSlot]]] = {}
    for group in vacant.classes:
        path = group.path[: rules.required_depth]
        if group.eligible[0] and len(path) == rules.required_depth and _is_near(core, path):
            mine = slots.setdefault(path, [])
            for node in group.nodes:
                mine.append(_slots(core, group, free_now.get(node), len(nodes)))
                nodes.append(node)
    return _assignments(_cheapest(slots, core.roles[0].minimum), nodes)


def free_by_node(problem: PlacementProblem) -> dict[NodeName, tuple[int, ...]]:
    """Return the free amounts of each node."""
    return {node: group.free for group in problem.classes for node in group.nodes}


def _is_near(core: PlacementProblem, path: Path) -> bool:
    return all(anchor.path[: len(path)] == path for anchor in core.anchors)


def _slots(
    core: PlacementProblem, group: NodeClass, free: tuple[int, ...] | None, node: int
) -> Iterator[PodSlot]:
    """The slots of an empty node in order; costs are parts of the scarcest resource."""
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
    """What must be freed for this pod after those before it."""
    return min(need, max(0, (pod + 1) * need - have))


def _cheapest(slots: Mapping[Path, list[Iterator[PodSlot]]], count: int) -> list[PodSlot]:
    """The first `count` slots of the domain where they cost least; slots are generated lazily."""
    best: tuple[int, Path, list[PodSlot]] | None = None
    for path in sorted(slots):
        taken = list(islice(merge(*slots[path]), count))
        cost = sum(cost for cost, _, _ in taken)
        if len(taken) == count and (best is None or cost < best[0]):
            best = (cost, path, taken)
    return best[2] if best else []


def _assignments(slots: list[PodSlot], nodes: list[NodeName]) -> list[Assignment]:
    counts: dict[int, int] = {}
    for _, node, _ in slots:
        counts[node] = counts.get(node, 0) + 1
    return [Assignment(role=0, node=nodes[node], count=counts[node]) for node in sorted(counts)]


def node_use(problem: PlacementProblem, assignments: Sequence[Assignment]) -> dict[NodeName, Resources]:
    """Return the requested amounts per used node."""
    used: dict[NodeName, Resources] = {}
    for assignment in assignments:
        request = dict(zip(problem.resources, problem.roles[assignment.role].request, strict=True))
        used[assignment.node] = add(used.get(assignment.node, {}), scale(request, assignment.count))
    return used


def budget_use(problem: PlacementProblem, budget: Budget, assignments: Sequence[Assignment]) -> Resources:
    """Return the amounts requested on the budget's nodes."""
    total: Resources = {}
    for node, amounts in node_use(problem, assignments).items():
        if budget.nodes is None or node in budget.nodes:
            total = add(total, amounts)
    return total
