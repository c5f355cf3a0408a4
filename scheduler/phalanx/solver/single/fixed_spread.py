"""Reformulates spread constraints whose limit per domain is known before the search.

If the pods to be placed are at most as many as the emptiest domains, they cannot all get one more pod and let
another domain get two. So the number of the emptiest domain counts as fixed, and the constraint is a limit on
the pods of each domain. If all pods are within each limit that is left, the limits are a matter of
eligibility. If every domain is one node, they are amounts of nodes. Every backend knows both.
"""

from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.rules.primitives import Skew
from phalanx.rules.problem import NodeClass, PlacementProblem, Rule
from phalanx.solver.problem_rules import domains_of, sole_primitive

_SLOTS: Final = "pods of a domain of "
"""Prefix of the resource names."""


class _Limits(Struct, frozen=True):
    key: int
    owners: tuple[int, ...]
    most: dict[str, int]
    """How many pods each domain can get."""
    has_slots: bool
    """Whether the nodes have an amount that limits them; else eligibility is enough."""

    def of(self, group: NodeClass) -> int:
        return self.most.get(group.label_values[self.key], 0)


def reformulate_spread(problem: PlacementProblem) -> PlacementProblem:
    """Replace the constraints with fixed limits; without one return the problem itself."""
    rules: list[Rule] = []
    found = []
    for rule in problem.rules:
        spread = sole_primitive(problem, rule, Skew) if rule.keys else None
        limits = _limits(problem, spread) if spread is not None and spread.owners else None
        if limits is None:
            rules.append(rule)
        else:
            found.append(limits)
    if not found:
        return problem
    # afterwards, since limits exclude nodes whose domains count for the other constraints
    for limits in found:
        problem = _limited(problem, limits)
    return replace(problem, rules=tuple(rules))


def _limits(problem: PlacementProblem, spread: Skew) -> _Limits | None:
    """The limits; None if they are not fixed or have no other form."""
    counted = set(spread.others)
    if not counted.issubset(spread.owners) or counted not in (set(), set(spread.owners)):
        return None
    domains = domains_of(problem, spread)
    pods = sum(problem.roles[role].maximum for role in counted)
    least = min(domains.values(), default=0) if len(domains) >= spread.min_domains else 0
    is_fixed = len(domains) < spread.min_domains or Counter(domains.values())[least] >= pods
    if not is_fixed:
        return None
    more = 0 if counted else 1  # pods that are not counted need one that is not above the limit
    most = {value: max(0, spread.max_skew + more + least - count) for value, count in domains.items()}
    if not counted or all(limit >= pods for limit in most.values() if limit):
        return _Limits(spread.key, spread.owners, most, has_slots=False)
    used = Counter(group.label_values[spread.key] for group in problem.classes for _ in group.nodes)
    if any(count > 1 for value, count in used.items() if most.get(value, 0)):
        return None
    return _Limits(spread.key, spread.owners, most, has_slots=True)


def _limited(problem: PlacementProblem, limits: _Limits) -> PlacementProblem:
    classes = tuple(_class(group, limits) for group in problem.classes)
    if not limits.has_slots:
        return replace(problem, classes=classes)
    roles = tuple(
        replace(role, request=(*role.request, int(index in limits.owners)))
        for index, role in enumerate(problem.roles)
    )
    return replace(
        problem,
        resources=(*problem.resources, f"{_SLOTS}{problem.keys[limits.key]} {len(problem.resources)}"),
        roles=roles,
        classes=classes,
    )


def _class(group: NodeClass, limits: _Limits) -> NodeClass:
    most = limits.of(group)
    eligible = tuple(
        allowed and (most > 0 or role not in limits.owners) for role, allowed in enumerate(group.eligible)
    )
    free = (*group.free, most) if limits.has_slots else group.free
    return replace(group, eligible=eligible, free=free)
