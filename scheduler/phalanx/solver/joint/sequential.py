"""One gang of a joint problem as a problem of its own, while the others lie where they lie."""

from collections.abc import Iterable, Sequence
from operator import le, sub

from msgspec import structs

from phalanx.model.names import NodeName
from phalanx.model.rules import Budget
from phalanx.solver.joint.arrays import Limit
from phalanx.solver.joint.problem import JointProblem, roles_of
from phalanx.solver.problem import Assignment, NodeClass, PlacementProblem

Amounts = tuple[int, ...]


class Room:
    """What is left of nodes and budgets while gangs are put down and taken up again."""

    def __init__(self, problem: JointProblem, limits: Sequence[Limit]) -> None:
        self._problem = problem
        self._limits = limits
        self._used: dict[NodeName, Amounts] = {}
        self._seen: dict[tuple[int, ...], list[NodeClass]] = {}
        self._left = [
            {name: max(0, amount) for name, amount in limit.budget.remaining.items()} for limit in limits
        ]

    def put(self, gang: int, assignments: Iterable[Assignment], *, sign: int = 1) -> None:
        """Take the room of these pods; with sign -1, give it back."""
        problem = self._problem
        for one in assignments:
            request = problem.kinds[problem.gangs[gang].parts[one.role].kind].request
            before = self._used.get(one.node, (0,) * len(request))
            after = tuple(
                [have + sign * one.count * need for have, need in zip(before, request, strict=True)]
            )
            if any(after):
                self._used[one.node] = after
            else:
                self._used.pop(one.node, None)
            for limit, left in zip(self._limits, self._left, strict=True):
                if gang in limit.gangs:
                    for name, need in zip(problem.resources, request, strict=True):
                        if name in left:
                            left[name] -= sign * one.count * need

    def problem_of(self, gang: int) -> PlacementProblem:
        """Placing this gang in what is left."""
        joint = self._problem
        demand = joint.gangs[gang]
        kinds = tuple(part.kind for part in demand.parts)
        rules = [rule for rule in demand.rules if not isinstance(rule, Budget)]
        left = [
            Budget(limit.budget.name, left, None)
            for limit, left in zip(self._limits, self._left, strict=True)
            if gang in limit.gangs
        ]
        return PlacementProblem(
            resources=joint.resources,
            levels=joint.levels,
            roles=roles_of(joint, demand),
            classes=tuple(self._classes(kinds)),
            rules=(*rules, *left),
            seed=joint.seed,
        )

    def _classes(self, kinds: tuple[int, ...]) -> Iterable[NodeClass]:
        """Classes with room for a pod of one of these kinds, as these kinds see them."""
        if kinds not in self._seen:
            self._seen[kinds] = list(self._as_seen_by(kinds))
        requests = [self._problem.kinds[kind].request for kind in kinds]
        used = self._used
        for seen in self._seen[kinds]:
            touched = [node for node in seen.nodes if node in used]
            if not touched:
                yield seen
                continue
            if len(touched) < len(seen.nodes):
                untouched = tuple([node for node in seen.nodes if node not in used])
                yield structs.replace(seen, nodes=untouched)
            for node in touched:
                free = tuple(map(sub, seen.free, used[node]))
                if _has_room(free, seen.eligible, requests):
                    yield structs.replace(seen, free=free, nodes=(node,))

    def _as_seen_by(self, kinds: tuple[int, ...]) -> Iterable[NodeClass]:
        requests = [self._problem.kinds[kind].request for kind in kinds]
        for group in self._problem.classes:
            eligible = tuple([group.eligible[kind] for kind in kinds])
            if _has_room(group.free, eligible, requests):
                cost = tuple([group.cost[kind] for kind in kinds])
                yield NodeClass(group.path, group.free, eligible, cost, group.nodes)


def _has_room(free: Amounts, eligible: Sequence[bool], requests: Sequence[Amounts]) -> bool:
    """Whether some pod fits on such a node."""
    return any(may and all(map(le, need, free)) for may, need in zip(eligible, requests, strict=True))
