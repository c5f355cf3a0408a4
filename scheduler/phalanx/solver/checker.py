"""Independent check of every answer, in plain Python, from the problem alone.

It shares no code with the backends except the objective.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import add, gt

from phalanx.model.names import NodeName
from phalanx.model.rules import (
    AffinityRule,
    Budget,
    FewestDomains,
    OtherTopologyDomain,
    OtherTopologyFewest,
    PodAffinityRule,
    PodAntiAffinityRule,
    PodPairs,
    Rule,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupRule,
    SubgroupSegments,
    TopologySpreadRule,
    Traffic,
)
from phalanx.solver.objective import Scorer, classes_by_node
from phalanx.solver.problem import Assignment, NodeClass, Placed, PlacementProblem

Classes = dict[NodeName, NodeClass]


def check(problem: PlacementProblem, placed: Placed) -> tuple[str, ...]:
    """Return the errors of a placement: rules it violates and untrue claims of its certificate."""
    classes = classes_by_node(problem, placed.assignments)
    errors = _violations(problem, placed.assignments, classes)
    return tuple(errors) or tuple(_certificate_errors(Scorer(problem, classes), placed))


def check_assignments(problem: PlacementProblem, assignments: Sequence[Assignment]) -> tuple[str, ...]:
    """Return the errors of a placement without a certificate."""
    return tuple(_violations(problem, assignments, classes_by_node(problem, assignments)))


def _violations(problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes) -> list[str]:
    errors = [*_malformed(problem, assignments, classes)]
    if errors:
        return errors
    errors += _count_violations(problem, assignments)
    errors += _eligibility_violations(problem, assignments, classes)
    errors += _capacity_violations(problem, assignments, classes)
    for rule in problem.rules:
        errors += _rule_violations(rule, problem, assignments, classes)
    return errors


def violated_rules(problem: PlacementProblem, assignments: Sequence[Assignment]) -> tuple[str, ...]:
    """Return the violations of rules by these assignments; counts and capacity are not checked."""
    classes = classes_by_node(problem, assignments)
    return tuple(
        errors for rule in problem.rules for errors in _rule_violations(rule, problem, assignments, classes)
    )


def _malformed(
    problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    if len({(assignment.role, assignment.node) for assignment in assignments}) < len(assignments):
        pairs = Counter((assignment.role, assignment.node) for assignment in assignments)
        yield from (f"role {role} is assigned to {node} twice" for (role, node), n in pairs.items() if n > 1)
    for assignment in assignments:
        if not 0 <= assignment.role < len(problem.roles):
            yield f"there is no role {assignment.role}"
        if assignment.node not in classes:
            yield f"there is no node {assignment.node}"
        if assignment.count < 1:
            yield f"{assignment.count} pods on {assignment.node}"


def _count_violations(problem: PlacementProblem, assignments: Sequence[Assignment]) -> Iterator[str]:
    counts = [0] * len(problem.roles)
    for assignment in assignments:
        counts[assignment.role] += assignment.count
    for role, count in zip(problem.roles, counts, strict=True):
        if not role.minimum <= count <= role.maximum:
            yield f"{count} pods of role {role.name}, not {role.minimum} to {role.maximum}"


def _eligibility_violations(
    problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    for assignment in assignments:
        if not classes[assignment.node].eligible[assignment.role]:
            yield f"role {problem.roles[assignment.role].name} may not use {assignment.node}"


def _capacity_violations(
    problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    loads: dict[tuple[int, int], tuple[int, ...]] = {}
    used: dict[NodeName, tuple[int, ...]] = {}
    for assignment in assignments:
        key = (assignment.role, assignment.count)
        load = loads.get(key)
        if load is None:
            load = loads[key] = tuple(
                amount * assignment.count for amount in problem.roles[assignment.role].request
            )
        used[assignment.node] = (
            tuple(map(add, load, used[assignment.node])) if assignment.node in used else load
        )
    for node, amounts in used.items():
        if any(map(gt, amounts, classes[node].free)):
            for name, amount, free in zip(problem.resources, amounts, classes[node].free, strict=True):
                if amount > free:
                    yield f"{amount} {name} on {node}, where {free} is free"


def _rule_violations(
    rule: Rule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    match rule:
        case SameDomain():
            return _same_domain_violations(rule, problem, assignments, classes)
        case SubgroupDomain():
            return _subgroup_domain_violations(rule, problem, assignments, classes)
        case SubgroupSegments():
            return _segment_violations(rule, problem, assignments, classes)
        case Budget():
            return _budget_violations(rule, problem, assignments)
        case PodAntiAffinityRule():
            return _anti_affinity_violations(rule, problem, assignments, classes)
        case PodAffinityRule():
            return _affinity_violations(rule, problem, assignments, classes)
        case TopologySpreadRule():
            return _spread_violations(rule, problem, assignments, classes)
        case OtherTopologyDomain():
            return _other_topology_violations(rule, problem, assignments, classes)
        case FewestDomains() | SubgroupFewest() | OtherTopologyFewest() | Traffic() | PodPairs():
            return iter(())


def _same_domain_violations(
    rule: SameDomain, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    depth = problem.levels.index(rule.level) + 1
    paths = [
        *(classes[assignment.node].path for assignment in assignments),
        *(anchor.path for anchor in problem.anchors if assignments),
    ]
    domains = sorted({path[:depth] for path in paths})
    if any(len(domain) < depth for domain in domains):
        yield f"{rule.name}: a pod on a node in no {rule.level}"
    if len(domains) > 1:
        yield f"{rule.name}: pods in {len(domains)} domains of level {rule.level}"


def _pods_by_domain(
    rule: SubgroupRule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> dict[tuple[str, ...], int]:
    """Pods of the subgroup, running members included, by domain path; shorter where there is no domain."""
    depth = problem.levels.index(rule.level) + 1
    pods: dict[tuple[str, ...], int] = {}
    for assignment in assignments:
        if rule.subgroup in problem.roles[assignment.role].subgroups:
            path = classes[assignment.node].path[:depth]
            pods[path] = pods.get(path, 0) + assignment.count
    for anchor in problem.subgroup_anchors if pods else ():
        if anchor.subgroup == rule.subgroup:
            pods[anchor.path[:depth]] = pods.get(anchor.path[:depth], 0) + anchor.count
    return pods


def _subgroup_domain_violations(
    rule: SubgroupDomain, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    pods = _pods_by_domain(rule, problem, assignments, classes)
    if any(len(path) <= problem.levels.index(rule.level) for path in pods):
        yield f"{rule.name}: a pod on a node in no {rule.level}"
    if len(pods) > 1:
        yield f"{rule.name}: pods in {len(pods)} domains of level {rule.level}"


def _segment_violations(
    rule: SubgroupSegments, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    depth = problem.levels.index(rule.level) + 1
    pods = _pods_by_domain(rule, problem, assignments, classes)
    members = (
        assignment for assignment in assignments if rule.subgroup in problem.roles[assignment.role].subgroups
    )
    for path in sorted({classes[member.node].path[:depth] for member in members}):
        if len(path) < depth:
            yield f"{rule.name}: a pod on a node in no {rule.level}"
        elif pods[path] % rule.size:
            yield f"{rule.name}: {pods[path]} pods in {'/'.join(path)}, no multiple of {rule.size}"


def _other_topology_violations(
    rule: OtherTopologyDomain, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    number = problem.keys.index(rule.key)
    placed: Counter[str] = Counter()
    for one in assignments:
        if rule.subgroup in problem.roles[one.role].subgroups:
            placed[classes[one.node].label_values[number]] += one.count
    there = Counter(dict(rule.existing))
    if "" in placed:
        yield f"{rule.name}: a pod on a node in no {rule.level}"
    if rule.size:
        for value, count in sorted(placed.items()):
            if value and (count + there[value]) % rule.size:
                yield f"{rule.name}: {count + there[value]} pods in {value}, no multiple of {rule.size}"
    elif placed and len(placed.keys() | there.keys()) > 1:
        yield f"{rule.name}: pods in {len(placed.keys() | there.keys())} domains of level {rule.level}"


def _budget_violations(
    rule: Budget, problem: PlacementProblem, assignments: Sequence[Assignment]
) -> Iterator[str]:
    counted = [
        assignment for assignment in assignments if rule.nodes is None or assignment.node in rule.nodes
    ]
    for index, name in enumerate(problem.resources):
        used = sum(problem.roles[assignment.role].request[index] * assignment.count for assignment in counted)
        if used > 0 and name in rule.remaining and used > rule.remaining[name]:
            yield f"{rule.name}: {used} {name}, where {rule.remaining[name]} remains"


def _anti_affinity_violations(
    rule: PodAntiAffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    for label_value, there in sorted(_pods_by_label_value(rule, problem, assignments, classes).items()):
        for owner in sorted(set(rule.owners) & there.keys()):
            others = sum(there[other] for other in set(rule.others)) - (owner in rule.others)
            if label_value and others > 0:
                yield f"{rule.name}: a pod in {label_value} is with {others} pods that it must avoid"


def _affinity_violations(
    rule: PodAffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    started = []
    for label_value, there in sorted(_pods_by_label_value(rule, problem, assignments, classes).items()):
        if there.keys().isdisjoint(rule.owners):
            continue
        if not label_value:
            yield f"{rule.name}: a pod on a node without {rule.key}"
        elif label_value not in rule.existing_values and there.keys().isdisjoint(rule.others):
            started.append(label_value)
            if there.keys().isdisjoint(rule.starters):
                yield f"{rule.name}: pods in {label_value}, where no pod matches their affinity"
    if len(started) > 1:
        yield f"{rule.name}: pods in {len(started)} domains of {rule.key}"


def _spread_violations(
    rule: TopologySpreadRule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> Iterator[str]:
    there = _pods_by_label_value(rule, problem, assignments, classes)
    domains = dict(rule.existing) | dict.fromkeys(_new_domains(rule, problem), 0)
    counts = {
        value: count + sum(there.get(value, Counter[str]())[other] for other in set(rule.others))
        for value, count in domains.items()
    }
    least = min(counts.values(), default=0) if len(domains) >= rule.min_domains else 0
    for value, pods in sorted(there.items()):
        if pods.keys().isdisjoint(rule.owners):
            continue
        if not value:
            yield f"{rule.name}: a pod on a node without {rule.key}"
            continue
        skew = counts[value] + sum(pods[other] for other in set(rule.perhaps)) - least
        if skew > rule.max_skew:
            yield f"{rule.name}: maxSkew {rule.max_skew} would be {skew} in {value}"


def _new_domains(rule: TopologySpreadRule, problem: PlacementProblem) -> set[str]:
    """Domains that the rule does not list and in which owners may be."""
    known, number = dict(rule.existing), problem.keys.index(rule.key)
    owners = [index for index, role in enumerate(problem.roles) if role.shape in rule.owners]
    return {
        group.label_values[number]
        for group in problem.classes
        if any(group.eligible[owner] for owner in owners) and group.label_values[number] not in known
    } - {""}


def _pods_by_label_value(
    rule: AffinityRule, problem: PlacementProblem, assignments: Sequence[Assignment], classes: Classes
) -> dict[str, Counter[str]]:
    """Pods by shape and value of the rule's label; empty where nodes lack it."""
    number = problem.keys.index(rule.key) if rule.key in problem.keys else None
    pods: dict[str, Counter[str]] = {}
    for assignment in assignments:
        label_value = assignment.node if number is None else classes[assignment.node].label_values[number]
        pods.setdefault(label_value, Counter())[problem.roles[assignment.role].shape] += assignment.count
    return pods


def _certificate_errors(scorer: Scorer, placed: Placed) -> Iterator[str]:
    certificate = placed.certificate
    if certificate.terms != scorer.terms:
        yield f"the certificate is about {certificate.terms}"
    elif certificate.objective != scorer.score(placed.assignments):
        yield f"the certificate states the objective {certificate.objective}"
    elif certificate.bound > certificate.objective:
        yield f"the bound {certificate.bound} is above the objective {certificate.objective}"
    elif certificate.proven != (certificate.bound == certificate.objective):
        yield "the certificate is proven without a bound that meets the objective, or the reverse"
