"""Independent check of every answer, in plain Python, from the problem alone.

It shares no code with the backends except the objective: each rule checks placements by itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import add, gt

from phalanx.model.names import NodeName
from phalanx.rules.problem import Assignment, NodeClass, PlacedPods, PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.objective import Scorer, classes_by_node

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
    errors += _rule_violations(PlacedPods(problem, assignments, classes))
    return errors


def violated_rules(problem: PlacementProblem, assignments: Sequence[Assignment]) -> tuple[str, ...]:
    """Return the violations of rules by these assignments; counts and capacity are not checked."""
    return tuple(_rule_violations(PlacedPods(problem, assignments, classes_by_node(problem, assignments))))


def _rule_violations(placed: PlacedPods) -> Iterator[str]:
    return chain.from_iterable(rule.violations(placed) for rule in placed.problem.rules)


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
