"""An oracle for small problems: every placement is listed, and the rules are implemented independently."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from phalanx.rules.affinity import PodAffinityRule, PodAntiAffinityRule, PodPairs
from phalanx.rules.anchors import Anchor, SubgroupAnchor
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.other_topologies import OtherTopologyDomain, OtherTopologyFewest
from phalanx.rules.problem import PlacementProblem
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupRule, SubgroupSegments
from phalanx.rules.topology_spread import TopologySpreadRule

Placement = tuple[tuple[int, ...], ...]
"""Per role, the number of its pods on each node (nodes in the problem's order)."""

Domain = tuple[str, ...]
"""The kind of a domain and the labels of its path, or the node that is a domain of its own."""


def optimum(problem: PlacementProblem) -> tuple[int, ...] | None:
    """The lexicographically least objective of any allowed placement; None when there is none."""
    return min((_objective(problem, one) for one in placements_of(problem)), default=None)


def placements_of(problem: PlacementProblem) -> Iterator[Placement]:
    """Every allowed placement."""
    return (one for one in _placements(problem) if _respects_rules(problem, one))


def best_placements(problem: PlacementProblem) -> list[Placement]:
    """All allowed placements with the least objective."""
    least = optimum(problem)
    allowed = (one for one in _placements(problem) if _respects_rules(problem, one))
    return [one for one in allowed if _objective(problem, one) == least]


def _nodes(problem: PlacementProblem) -> list[tuple[str, int]]:
    return [(node, index) for index, group in enumerate(problem.classes) for node in group.nodes]


def _placements(problem: PlacementProblem) -> Iterator[Placement]:
    """All placements that respect eligibility, node capacity and role counts."""
    nodes = _nodes(problem)
    free = [list(problem.classes[index].free) for _, index in nodes]

    def extend(role: int, node: int, current: list[int], done: list[tuple[int, ...]]) -> Iterator[Placement]:
        if role == len(problem.roles):
            yield tuple(done)
            return
        demand = problem.roles[role]
        if node == len(nodes):
            if demand.minimum <= sum(current):
                yield from extend(role + 1, 0, [], [*done, tuple(current)])
            return
        may = problem.classes[nodes[node][1]].eligible[role]
        for count in range(demand.maximum - sum(current) + 1 if may else 1):
            if all(need * count <= have for need, have in zip(demand.request, free[node], strict=True)):
                for resource, need in enumerate(demand.request):
                    free[node][resource] -= need * count
                yield from extend(role, node + 1, [*current, count], done)
                for resource, need in enumerate(demand.request):
                    free[node][resource] += need * count

    yield from extend(0, 0, [], [])


def _respects_rules(problem: PlacementProblem, placement: Placement) -> bool:
    nodes = _nodes(problem)
    used = [node for node in range(len(nodes)) if any(counts[node] for counts in placement)]
    for rule in problem.rules:
        if isinstance(rule, SameDomain) and used:
            level = problem.levels.index(rule.level)
            paths = [problem.classes[nodes[node][1]].path for node in used]
            paths += [anchor.path for anchor in problem.anchors]
            if any(len(path) <= level for path in paths) or len({path[: level + 1] for path in paths}) > 1:
                return False
        if isinstance(rule, SubgroupDomain | SubgroupSegments) and not _respects_subgroup_rule(
            problem, placement, rule
        ):
            return False
        if isinstance(rule, OtherTopologyDomain) and not _respects_other_topology(problem, placement, rule):
            return False
        if isinstance(rule, Budget) and not _within_budget(problem, placement, rule):
            return False
        if isinstance(rule, PodAntiAffinityRule) and not _respects_anti_affinity(problem, placement, rule):
            return False
        if isinstance(rule, PodAffinityRule) and not _respects_affinity(problem, placement, rule):
            return False
        if isinstance(rule, TopologySpreadRule) and not _respects_spread(problem, placement, rule):
            return False
    return True


def _pods(problem: PlacementProblem, placement: Placement, key: str) -> list[tuple[str, str]]:
    """The shape of each pod and the value of the key where it is; empty for none."""
    nodes = _nodes(problem)
    found = []
    for role, counts in zip(problem.roles, placement, strict=True):
        for (name, index), count in zip(nodes, counts, strict=True):
            group = problem.classes[index]
            spot = group.label_values[problem.keys.index(key)] if key in problem.keys else name
            found += [(role.shape, spot)] * count
    return found


def _respects_anti_affinity(
    problem: PlacementProblem, placement: Placement, rule: PodAntiAffinityRule
) -> bool:
    pods = _pods(problem, placement, rule.key)
    return not any(
        mine in rule.owners and other in rule.others and spot and spot == there
        for (index, (mine, spot)) in enumerate(pods)
        for (number, (other, there)) in enumerate(pods)
        if index != number
    )


def _respects_spread(problem: PlacementProblem, placement: Placement, rule: TopologySpreadRule) -> bool:
    """Every pod with the constraint, as if it had been the last one to be placed."""
    pods = _pods(problem, placement, rule.key)
    counts = dict(rule.existing)
    for group in problem.classes:
        spot = group.label_values[problem.keys.index(rule.key)]
        owners = [index for index, role in enumerate(problem.roles) if role.shape in rule.owners]
        if spot and any(group.eligible[owner] for owner in owners):
            counts.setdefault(spot, 0)
    for shape, spot in pods:
        if shape in rule.others and spot in counts:
            counts[spot] += 1
    fewest = min(counts.values()) if counts and len(counts) >= rule.min_domains else 0
    for shape, spot in pods:
        if shape in rule.owners and (not spot or counts[spot] - fewest > rule.max_skew):
            return False
    return True


def _respects_affinity(problem: PlacementProblem, placement: Placement, rule: PodAffinityRule) -> bool:
    """Whether the pods can be scheduled in an order in which each pod satisfies the affinity."""
    pods = _pods(problem, placement, rule.key)
    if any(shape in rule.owners and not spot for shape, spot in pods):
        return False
    firsts = [spot for shape, spot in pods if shape in rule.starters] if not rule.existing_values else []
    for start in [{*rule.existing_values}, *({first} for first in firsts)]:
        there = {*start, *(spot for shape, spot in pods if shape in rule.others)} - {""}
        if all(spot in there for shape, spot in pods if shape in rule.owners):
            return True
    return False


def _respects_subgroup_rule(problem: PlacementProblem, placement: Placement, rule: SubgroupRule) -> bool:
    nodes, level = _nodes(problem), problem.levels.index(rule.level)
    placed: dict[tuple[str, ...], int] = {}
    for role, counts in zip(problem.roles, placement, strict=True):
        for (_, index), count in zip(nodes, counts, strict=True):
            if count and rule.subgroup in role.subgroups:
                path = problem.classes[index].path[: level + 1]
                placed[path] = placed.get(path, 0) + count
    if not placed:
        return True
    there: dict[tuple[str, ...], int] = {}
    for anchor in problem.subgroup_anchors:
        if anchor.subgroup == rule.subgroup:
            path = anchor.path[: level + 1]
            there[path] = there.get(path, 0) + anchor.count
    if any(len(path) <= level for path in placed):
        return False
    if isinstance(rule, SubgroupDomain):
        return len({*placed, *there}) == 1
    return all((count + there.get(path, 0)) % rule.size == 0 for path, count in placed.items())


def _values_of_subgroup(
    problem: PlacementProblem, placement: Placement, subgroup: str, key: str
) -> list[str]:
    """The domain of another topology of each pod of a subgroup."""
    inside = [
        counts if subgroup in role.subgroups else (0,) * len(counts)
        for role, counts in zip(problem.roles, placement, strict=True)
    ]
    return [spot for _, spot in _pods(problem, tuple(inside), key)]


def _respects_other_topology(
    problem: PlacementProblem, placement: Placement, rule: OtherTopologyDomain
) -> bool:
    placed = _values_of_subgroup(problem, placement, rule.subgroup, rule.key)
    running = [value for value, count in rule.existing for _ in range(count)]
    if "" in placed:
        return False
    if rule.size:
        return all([*placed, *running].count(value) % rule.size == 0 for value in placed)
    return not placed or len({*placed, *running}) == 1


def _within_budget(problem: PlacementProblem, placement: Placement, rule: Budget) -> bool:
    nodes = _nodes(problem)
    for resource, name in enumerate(problem.resources):
        spent = sum(
            count * problem.roles[role].request[resource]
            for role, counts in enumerate(placement)
            for node, count in enumerate(counts)
            if rule.nodes is None or nodes[node][0] in rule.nodes
        )
        if name in rule.remaining and spent > max(0, rule.remaining[name]):
            return False
    return True


def _objective(problem: PlacementProblem, placement: Placement) -> tuple[int, ...]:
    nodes = _nodes(problem)
    terms = []
    if any(role.minimum < role.maximum for role in problem.roles):
        terms.append(sum(role.maximum for role in problem.roles) - sum(map(sum, placement)))
    preferred = [
        problem.levels.index(rule.level) for rule in problem.rules if isinstance(rule, FewestDomains)
    ]
    for level in range(max(preferred, default=-1) + 1):
        there = _running(problem.anchors, level)
        terms.append(len(there | _opened(problem, placement, problem.anchors, level)))
    terms.extend(_of_subgroups(problem, placement))
    terms.extend(_in_other_topologies(problem, placement))
    prefers = [rule for rule in problem.rules if isinstance(rule, PodPairs)]
    if any(any(group.cost) for group in problem.classes) or any(map(partial(_concerns, problem), prefers)):
        of_nodes = sum(
            count * problem.classes[nodes[node][1]].cost[role]
            for role, counts in enumerate(placement)
            for node, count in enumerate(counts)
        )
        terms.append(of_nodes + sum(_cost_of_pairs(problem, placement, rule) for rule in prefers))
    terms.extend(_opened_capacity(problem, placement))
    terms.extend(_capacity_of_subgroups(problem, placement))
    return tuple(terms)


def _worth(rule: PodPairs, one: str, other: str) -> int:
    """What a pair of pods of these shapes is worth where it is near each other: both have their terms."""
    return sum(
        each.weight
        for first, second in ((one, other), (other, one))
        for each in rule.weights
        if (each.owner, each.other) == (first, second)
    )


def _all_pairs(problem: PlacementProblem) -> list[tuple[str, str]]:
    """The shapes of all pairs of pods, if as many are placed as possible."""
    pods = [role.shape for role in problem.roles for _ in range(role.maximum)]
    return list(combinations(pods, 2))


def _concerns(problem: PlacementProblem, rule: PodPairs) -> bool:
    return any(_worth(rule, *pair) for pair in _all_pairs(problem))


def _cost_of_pairs(problem: PlacementProblem, placement: Placement, rule: PodPairs) -> int:
    """What is missed of the pairs that draw each other, and what pairs that avoid each other cost."""
    missed = sum(max(0, _worth(rule, *pair)) for pair in _all_pairs(problem))
    for (one, here), (other, there) in combinations(_pods(problem, placement, rule.key), 2):
        missed -= _worth(rule, one, other) if here and here == there else 0
    return missed


def _running(anchors: Sequence[Anchor | SubgroupAnchor], level: int) -> set[Domain]:
    """The domains in which members run."""
    return {_domain(anchor.path, anchor.node, level) for anchor in anchors}


def _domain(path: tuple[str, ...], node: str, level: int) -> Domain:
    return ("labels", *path[: level + 1]) if len(path) > level else ("node", node)


def _opened(
    problem: PlacementProblem,
    placement: Placement,
    anchors: Sequence[Anchor | SubgroupAnchor],
    level: int,
) -> set[Domain]:
    """The domains of placed pods in which no member runs."""
    used = {
        _domain(problem.classes[index].path, name, level)
        for node, (name, index) in enumerate(_nodes(problem))
        if any(counts[node] for counts in placement)
    }
    return used - _running(anchors, level) - {("node", anchor.node) for anchor in anchors}


def _opened_capacity(problem: PlacementProblem, placement: Placement) -> list[int]:
    """The capacity of the deepest domains that the gang opens; empty without tightness."""
    named = [
        problem.levels.index(rule.level)
        for rule in problem.rules
        if isinstance(rule, SameDomain | FewestDomains)
    ]
    if not named or not any(group.domain_capacity for group in problem.classes):
        return []
    level = max(named)
    capacities = {
        _domain(problem.classes[index].path, name, level): problem.classes[index].domain_capacity
        for name, index in _nodes(problem)
    }
    return [sum(capacities[domain] for domain in _opened(problem, placement, problem.anchors, level))]


def _capacity_of_subgroups(problem: PlacementProblem, placement: Placement) -> list[int]:
    """Per level, the capacity of the domains that each subgroup opens on the deepest level it names."""
    if not any(group.subgroup_capacities for group in problem.classes):
        return []
    named: dict[str, list[int]] = {}
    for rule in problem.rules:
        if isinstance(rule, SubgroupDomain | SubgroupSegments | SubgroupFewest):
            named.setdefault(rule.subgroup, []).append(problem.levels.index(rule.level))
    found: dict[int, int] = {}
    for subgroup, levels in named.items():
        if not any(subgroup in role.subgroups for role in problem.roles):
            continue
        level = max(levels)
        inside = tuple(
            counts
            for role, counts in zip(problem.roles, placement, strict=True)
            if subgroup in role.subgroups
        )
        capacities = {
            _domain(problem.classes[index].path, name, level): amount
            for name, index in _nodes(problem)
            for number, amount in problem.classes[index].subgroup_capacities
            if number == level
        }
        anchors = [one for one in problem.subgroup_anchors if one.subgroup == subgroup]
        opened = _opened(problem, inside, anchors, level)
        found[level] = found.get(level, 0) + sum(capacities[domain] for domain in opened)
    return [amount for _, amount in sorted(found.items())]


def _in_other_topologies(problem: PlacementProblem, placement: Placement) -> list[int]:
    """Per topology and level, the sum of the domains used by each subgroup that prefers a level of it."""
    spans: dict[str, dict[int, int]] = {}
    for rule in problem.rules:
        if not isinstance(rule, OtherTopologyFewest):
            continue
        if not any(rule.subgroup in role.subgroups for role in problem.roles):
            continue
        found = spans.setdefault(rule.topology, {})
        for level, key in enumerate(rule.keys):
            existing = rule.existing[level] if rule.existing else ()
            opened = rule.open[level] if rule.open else ()
            new = set(_values_of_subgroup(problem, placement, rule.subgroup, key)) - {*existing, *opened}
            found[level] = found.get(level, 0) + len(existing) + len(new)
    return [count for levels in spans.values() for _, count in sorted(levels.items())]


def _of_subgroups(problem: PlacementProblem, placement: Placement) -> list[int]:
    """Per level, the sum of the domains used by each subgroup with a preferred level."""
    spans: dict[int, int] = {}
    for rule in problem.rules:
        inside = tuple(
            counts
            for role, counts in zip(problem.roles, placement, strict=True)
            if isinstance(rule, SubgroupFewest) and rule.subgroup in role.subgroups
        )
        if not isinstance(rule, SubgroupFewest) or not inside:
            continue
        anchors = [one for one in problem.subgroup_anchors if one.subgroup == rule.subgroup]
        for level in range(problem.levels.index(rule.level) + 1):
            domains = _running(anchors, level) | _opened(problem, inside, anchors, level)
            spans[level] = spans.get(level, 0) + len(domains)
    return [spans[level] for level in sorted(spans)]
