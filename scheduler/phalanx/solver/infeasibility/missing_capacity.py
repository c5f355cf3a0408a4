"""How much more room, and where, would make a problem fit.

Of one role, the domain and the nodes where the least must be freed. Of several, or where other rules stand
in the way of that, what fits now stays where it is, and the pods that are left over are placed as if the
nodes were empty, where little must be freed. Where not even that is enough, they are put on a node that is
not there yet.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from phalanx.model.names import NodeName
from phalanx.model.resources import Resources, add, scale, subtract
from phalanx.model.rules import Budget, Rule
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle
from phalanx.solver.infeasibility.relaxations import (
    NEW_NODE,
    NodeCapacity,
    Relaxation,
    RelaxationKind,
    with_free,
)
from phalanx.solver.least_room import free_by_node, least_room
from phalanx.solver.problem import Assignment, NodeClass, Placed, PlacementProblem
from phalanx.solver.problem_rules import read_rules
from phalanx.solver.usage import budget_use, node_use

SHARE = 1000
"""A pod that needs all of its scarcest resource freed costs this much."""


def missing_room(
    core: PlacementProblem,
    vacant: PlacementProblem | None,
    now: Sequence[Assignment],
    asker: FeasibilityOracle,
) -> Iterator[Relaxation]:
    """Candidates, the least first where that is known. `vacant` is the problem on empty nodes."""
    least = least_room(core, vacant) if vacant is not None else []
    if least:
        anywhere = all(rule.nodes is None for rule in core.rules if isinstance(rule, Budget))
        pods = _beyond_what_fits(core, least) if anywhere else 0
        yield structs.replace(_freed(core, least), pods=pods)
    for kept in dict.fromkeys((tuple(now), ())):
        if vacant is not None:
            rest = _left_over(core, vacant, kept)
            answer = asker.answer(rest)
            if isinstance(answer, Placed):
                yield _freed(core, [*kept, *answer.assignments])
    yield from _added(core, now)


def _beyond_what_fits(core: PlacementProblem, assignments: Sequence[Assignment]) -> int:
    """How many of these pods of the one role the nodes cannot take now."""
    free_now = free_by_node(core)
    request = core.roles[0].request
    beyond = 0
    for one in assignments:
        free = free_now.get(one.node, (0,) * len(request))
        counts = [have // need for need, have in zip(request, free, strict=True) if need > 0]
        fit = min(counts, default=one.count)
        beyond += max(0, one.count - fit)
    return beyond


def _left_over(
    core: PlacementProblem, vacant: PlacementProblem, kept: Sequence[Assignment]
) -> PlacementProblem:
    """The pods that are not among the kept ones, beside these on otherwise empty nodes."""
    used = node_use(core, kept)
    free_now = free_by_node(with_free(core, _negative(used)))
    beside = with_free(vacant, _negative(used))
    placed = [sum(one.count for one in kept if one.role == index) for index in range(len(core.roles))]
    roles = tuple(
        structs.replace(role, minimum=role.minimum - count, maximum=role.minimum - count)
        for role, count in zip(core.roles, placed, strict=True)
    )
    return structs.replace(
        beside,
        roles=roles,
        classes=tuple(_priced(core, part, free_now) for part in _single(beside.classes)),
        rules=tuple(_spent(core, rule, kept) for rule in beside.rules),
        anchors=(*core.anchors, *homes(core, kept)),
    )


def _single(classes: Sequence[NodeClass]) -> list[NodeClass]:
    return [structs.replace(group, nodes=(node,)) for group in classes for node in group.nodes]


def _negative(amounts: dict[NodeName, Resources]) -> dict[NodeName, Resources]:
    return {node: scale(used, -1) for node, used in amounts.items()}


def _priced(core: PlacementProblem, group: NodeClass, free_now: dict[NodeName, tuple[int, ...]]) -> NodeClass:
    """Per role, the part of one pod's scarcest resource that must be freed, in thousandths."""
    free = free_now.get(group.nodes[0], (0,) * len(core.resources))
    cost = tuple(
        max((SHARE * (need - min(need, have)) // need for need, have in asked if need > 0), default=0)
        for asked in (list(zip(role.request, free, strict=True)) for role in core.roles)
    )
    return structs.replace(group, cost=cost)


def _spent(core: PlacementProblem, rule: Rule, kept: Sequence[Assignment]) -> Rule:
    if not isinstance(rule, Budget):
        return rule
    used = budget_use(core, rule, kept)
    limited = {name: amount for name, amount in used.items() if name in rule.remaining}
    return structs.replace(rule, remaining=subtract(rule.remaining, limited))


def homes(core: PlacementProblem, placed: Sequence[Assignment]) -> tuple[tuple[str, ...], ...]:
    """The path of a node that is in use: it stands for all of them where a level is required."""
    nodes = {one.node for one in placed}
    paths = (group.path for group in core.classes if not nodes.isdisjoint(group.nodes))
    return tuple(path for path, _ in zip(paths, range(1), strict=False))


def _freed(core: PlacementProblem, assignments: Sequence[Assignment]) -> Relaxation:
    """The room that these pods need beyond what is free now."""
    free_now = free_by_node(core)
    room = []
    for node, used in sorted(node_use(core, assignments).items()):
        free = dict(zip(core.resources, free_now.get(node, (0,) * len(core.resources)), strict=True))
        more = {name: amount - free[name] for name, amount in used.items() if amount > free[name]}
        if more:
            room.append(NodeCapacity(node=node, amounts=more))
    paths = homes(core, assignments)
    return _relaxation(core, paths[0] if paths else (), room)


def _added(core: PlacementProblem, now: Sequence[Assignment]) -> Iterator[Relaxation]:
    """The pods that do not fit now, on one new node where the others are, or in the first domain there is."""
    amounts: Resources = {}
    for index, role in enumerate(core.roles):
        missing = role.minimum - sum(one.count for one in now if one.role == index)
        request = dict(zip(core.resources, role.request, strict=True))
        amounts = add(amounts, scale(request, missing))
    depth = read_rules(core).required_depth
    labelled = (group.path for group in core.classes if len(group.path) >= depth)
    for home in (*core.anchors, *homes(core, now), *labelled, ()):
        if len(home) >= depth:
            needed = {name: amount for name, amount in amounts.items() if amount > 0}
            yield _relaxation(core, home, [NodeCapacity(node=NEW_NODE, amounts=needed)])
            return


def _relaxation(core: PlacementProblem, home: tuple[str, ...], room: Sequence[NodeCapacity]) -> Relaxation:
    total: Resources = {}
    for one in room:
        total = add(total, one.amounts)
    required = read_rules(core).required
    return Relaxation(
        RelaxationKind.ADD_CAPACITY,
        level="" if required is None else core.levels[required],
        domain=() if required is None else home[: required + 1],
        amounts=total,
        room=tuple(room),
    )
