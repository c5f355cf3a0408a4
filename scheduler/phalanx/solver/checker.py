"""Every answer is checked again here, in plain Python, from the problem alone, before it leaves."""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import add, gt

from phalanx.model.names import NodeName
from phalanx.model.rules import (
    AffinityRule,
    Budget,
    FewestDomains,
    PodAffinityRule,
    PodAntiAffinityRule,
    Rule,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupRule,
    SubgroupSegments,
)
from phalanx.solver.objective import Scorer, homes_of
from phalanx.solver.problem import Assignment, NodeClass, Placed, PlacementProblem

Home = dict[NodeName, NodeClass]


def check(problem: PlacementProblem, placed: Placed) -> tuple[str, ...]:
    """What is wrong with this placement, in words; empty when it keeps every rule and claims what is true."""
    home = homes_of(problem, placed.assignments)
    wrong = _unsound(problem, placed.assignments, home)
    return tuple(wrong) or tuple(_overclaimed(Scorer(problem, home), placed))


def check_assignments(problem: PlacementProblem, assignments: Sequence[Assignment]) -> tuple[str, ...]:
    """The same, of a placement without a certificate."""
    return tuple(_unsound(problem, assignments, homes_of(problem, assignments)))


def _unsound(problem: PlacementProblem, assignments: Sequence[Assignment], home: Home) -> list[str]:
    wrong = [*_malformed(problem, assignments, home)]
    if wrong:
        return wrong
    wrong += _miscounted(problem, assignments)
    wrong += _ineligible(problem, assignments, home)
    wrong += _overfull(problem, assignments, home)
    for rule in problem.rules:
        wrong += _broken(rule, problem, assignments, home)
    return wrong


def broken_rules(problem: PlacementProblem, assignments: Sequence[Assignment]) -> tuple[str, ...]:
    """The rules that these assignments, of pods on nodes that the problem has, do not keep."""
    home = homes_of(problem, assignments)
    return tuple(wrong for rule in problem.rules for wrong in _broken(rule, problem, assignments, home))


def _malformed(problem: PlacementProblem, assignments: Sequence[Assignment], home: Home) -> Iterator[str]:
    if len({(one.role, one.node) for one in assignments}) < len(assignments):
        pairs = Counter((one.role, one.node) for one in assignments)
        yield from (f"role {role} is assigned to {node} twice" for (role, node), n in pairs.items() if n > 1)
    for one in assignments:
        if not 0 <= one.role < len(problem.roles):
            yield f"there is no role {one.role}"
        if one.node not in home:
            yield f"there is no node {one.node}"
        if one.count < 1:
            yield f"{one.count} pods on {one.node}"


def _miscounted(problem: PlacementProblem, assignments: Sequence[Assignment]) -> Iterator[str]:
    counts = [0] * len(problem.roles)
    for one in assignments:
        counts[one.role] += one.count
    for role, count in zip(problem.roles, counts, strict=True):
        if not role.minimum <= count <= role.maximum:
            yield f"{count} pods of role {role.name}, not {role.minimum} to {role.maximum}"


def _ineligible(problem: PlacementProblem, assignments: Sequence[Assignment], home: Home) -> Iterator[str]:
    for one in assignments:
        if not home[one.node].eligible[one.role]:
            yield f"role {problem.roles[one.role].name} may not use {one.node}"


def _overfull(problem: PlacementProblem, assignments: Sequence[Assignment], home: Home) -> Iterator[str]:
    loads: dict[tuple[int, int], tuple[int, ...]] = {}
    used: dict[NodeName, tuple[int, ...]] = {}
    for one in assignments:
        key = (one.role, one.count)
        load = loads.get(key)
        if load is None:
            load = loads[key] = tuple(amount * one.count for amount in problem.roles[one.role].request)
        used[one.node] = tuple(map(add, load, used[one.node])) if one.node in used else load
    for node, amounts in used.items():
        if any(map(gt, amounts, home[node].free)):
            for name, amount, free in zip(problem.resources, amounts, home[node].free, strict=True):
                if amount > free:
                    yield f"{amount} {name} on {node}, where {free} is free"


def _broken(
    rule: Rule, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    match rule:
        case SameDomain():
            return _scattered(rule, problem, assignments, home)
        case SubgroupDomain():
            return _parted(rule, problem, assignments, home)
        case SubgroupSegments():
            return _cut_up(rule, problem, assignments, home)
        case Budget():
            return _overspent(rule, problem, assignments)
        case PodAntiAffinityRule():
            return _crowded(rule, problem, assignments, home)
        case PodAffinityRule():
            return _lonely(rule, problem, assignments, home)
        case FewestDomains() | SubgroupFewest():
            return iter(())


def _scattered(
    rule: SameDomain, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    depth = problem.levels.index(rule.level) + 1
    paths = [*(home[one.node].path for one in assignments), *(problem.anchors if assignments else ())]
    domains = sorted({path[:depth] for path in paths})
    if any(len(domain) < depth for domain in domains):
        yield f"{rule.name}: a pod on a node in no {rule.level}"
    if len(domains) > 1:
        yield f"{rule.name}: pods in {len(domains)} domains of level {rule.level}"


def _lying(
    rule: SubgroupRule, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> dict[tuple[str, ...], int]:
    """Pods of the subgroup, with those that run, by the path of their domain; shorter where there is none."""
    depth = problem.levels.index(rule.level) + 1
    lying: dict[tuple[str, ...], int] = {}
    for one in assignments:
        if rule.subgroup in problem.roles[one.role].subgroups:
            path = home[one.node].path[:depth]
            lying[path] = lying.get(path, 0) + one.count
    for anchor in problem.subgroup_anchors if lying else ():
        if anchor.subgroup == rule.subgroup:
            lying[anchor.path[:depth]] = lying.get(anchor.path[:depth], 0) + anchor.count
    return lying


def _parted(
    rule: SubgroupDomain, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    lying = _lying(rule, problem, assignments, home)
    if any(len(path) <= problem.levels.index(rule.level) for path in lying):
        yield f"{rule.name}: a pod on a node in no {rule.level}"
    if len(lying) > 1:
        yield f"{rule.name}: pods in {len(lying)} domains of level {rule.level}"


def _cut_up(
    rule: SubgroupSegments, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    depth = problem.levels.index(rule.level) + 1
    lying = _lying(rule, problem, assignments, home)
    members = (one for one in assignments if rule.subgroup in problem.roles[one.role].subgroups)
    for path in sorted({home[one.node].path[:depth] for one in members}):
        if len(path) < depth:
            yield f"{rule.name}: a pod on a node in no {rule.level}"
        elif lying[path] % rule.size:
            yield f"{rule.name}: {lying[path]} pods in {'/'.join(path)}, no multiple of {rule.size}"


def _overspent(rule: Budget, problem: PlacementProblem, assignments: Sequence[Assignment]) -> Iterator[str]:
    counted = [one for one in assignments if rule.nodes is None or one.node in rule.nodes]
    for index, name in enumerate(problem.resources):
        used = sum(problem.roles[one.role].request[index] * one.count for one in counted)
        if used > 0 and name in rule.remaining and used > rule.remaining[name]:
            yield f"{rule.name}: {used} {name}, where {rule.remaining[name]} remains"


def _crowded(
    rule: PodAntiAffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    for spot, there in sorted(_by_spot(rule, problem, assignments, home).items()):
        for owner in sorted(set(rule.owners) & there.keys()):
            others = sum(there[other] for other in set(rule.others)) - (owner in rule.others)
            if spot and others > 0:
                yield f"{rule.name}: a pod in {spot} is not apart from {others} others"


def _lonely(
    rule: PodAffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> Iterator[str]:
    begun = []
    for spot, there in sorted(_by_spot(rule, problem, assignments, home).items()):
        if there.keys().isdisjoint(rule.owners):
            continue
        if not spot:
            yield f"{rule.name}: a pod on a node without {rule.key}"
        elif spot not in rule.homes and there.keys().isdisjoint(rule.others):
            begun.append(spot)
            if there.keys().isdisjoint(rule.begin):
                yield f"{rule.name}: pods in {spot}, where none is that they ask for"
    if len(begun) > 1:
        yield f"{rule.name}: pods in {len(begun)} domains of {rule.key}"


def _by_spot(
    rule: AffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], home: Home
) -> dict[str, Counter[str]]:
    """Pods by shape, by the value of the rule's label; empty where nodes have none."""
    number = problem.keys.index(rule.key) if rule.key in problem.keys else None
    found: dict[str, Counter[str]] = {}
    for one in assignments:
        spot = one.node if number is None else home[one.node].label_values[number]
        found.setdefault(spot, Counter())[problem.roles[one.role].shape] += one.count
    return found


def _overclaimed(scorer: Scorer, placed: Placed) -> Iterator[str]:
    certificate = placed.certificate
    if certificate.terms != scorer.terms:
        yield f"the certificate is about {certificate.terms}"
    elif certificate.objective != scorer.score(placed.assignments):
        yield f"the certificate states the objective {certificate.objective}"
    elif certificate.bound > certificate.objective:
        yield f"the bound {certificate.bound} is above the objective {certificate.objective}"
    elif certificate.proven != (certificate.bound == certificate.objective):
        yield "the certificate is proven without a bound that meets the objective, or the reverse"
