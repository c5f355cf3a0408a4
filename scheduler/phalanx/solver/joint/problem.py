"""The joint admission problem, its answer, and the independent check of an answer.

Many gangs that have not started compete for one set of node classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.limits import JOINT_DETERMINISTIC_LIMIT
from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.rules.budget import budgets_in
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.solver.answer import Placed
from phalanx.solver.checker import check
from phalanx.solver.objective import Scorer, certify

UNADMITTED_VALUE: Final = "value-left-out"
"""The only term of a joint certificate: the value of all gangs less that of the admitted ones."""


class PodClass(Struct, frozen=True):
    """Pods of any gang that are the same to every node."""

    name: str
    request: tuple[int, ...]
    """Amounts, aligned with `JointProblem.resources`."""


class GangRole(Struct, frozen=True):
    """Pods of one pod class that belong to the same subgroups of a gang."""

    pod_class: int
    """Index into `JointProblem.pod_classes`."""
    count: int
    """At least 1."""
    subgroups: tuple[str, ...] = ()


class GangDemand(Struct, frozen=True):
    """A gang that is placed as a whole or not at all."""

    name: str
    roles: tuple[GangRole, ...]
    rules: tuple[Rule, ...] = ()
    """Gangs whose Budget rules have the same name share that budget."""
    value: int = 1
    """What its admission is worth, at least 1."""
    must_admit: bool = False
    """Every answer has to admit it."""


class JointProblem(Struct, frozen=True):
    """Admit gangs of the greatest total value."""

    resources: tuple[str, ...]
    levels: tuple[str, ...]
    """Names of the topology levels, widest first."""
    pod_classes: tuple[PodClass, ...]
    gangs: tuple[GangDemand, ...]
    """In queue order. Of equal gangs the earlier ones are admitted first."""
    classes: tuple[NodeClass, ...]
    """`eligible` and `cost` are aligned with `pod_classes`; `budgets` are not read."""
    seed: int = 0


JointAssignment = Mapping[int, tuple[Assignment, ...]]
"""The assignments of each admitted gang, by index. `Assignment.role` is an index into `GangDemand.roles`."""


class Admitted(Struct, frozen=True):
    """An admitted gang, by index, and its placement."""

    gang: int
    placed: Placed
    """Its certificate is about this gang alone; the placements of the other gangs are fixed."""


class JointAnswer(Struct, frozen=True):
    """The admitted gangs in queue order, checked together."""

    admitted: tuple[Admitted, ...] | None
    """None if nothing of more value than the start assignment was found: the start assignment is kept."""
    certificate: Certificate
    """About the total value only."""
    errors: tuple[str, ...] = ()
    """Solver errors: intermediate results that failed a check and were dropped."""


class Declined(Struct, frozen=True):
    """The engine does not answer this problem."""

    reason: str


class JointLimits(Struct, frozen=True):
    """Effort limit of one answer."""

    deterministic: float = JOINT_DETERMINISTIC_LIMIT
    """CP-SAT's deterministic time units, shared by all of its solves."""


def total_value(problem: JointProblem, gangs: Mapping[int, object]) -> int:
    return sum(problem.gangs[gang].value for gang in gangs)


def roles_of(problem: JointProblem, gang: GangDemand) -> tuple[RoleDemand, ...]:
    """Return the roles of a placement problem for one gang; all of their pods are required."""
    pod_classes = problem.pod_classes
    return tuple(
        RoleDemand(
            pod_classes[role.pod_class].name,
            pod_classes[role.pod_class].request,
            role.count,
            role.count,
            role.subgroups,
        )
        for role in gang.roles
    )


Classes = dict[NodeName, NodeClass]


def check_joint_assignment(problem: JointProblem, assignment: JointAssignment) -> tuple[str, ...]:
    """Return the errors of an assignment, empty where it admits each `must_admit` gang and keeps every
    rule."""
    wanted = {pods.node for assignments in assignment.values() for pods in assignments}
    classes_by_node = {node: group for group in problem.classes for node in group.nodes if node in wanted}
    wrong = [
        f"{gang.name} is not admitted"
        for index, gang in enumerate(problem.gangs)
        if gang.must_admit and index not in assignment
    ]
    for gang, assignments in assignment.items():
        wrong += [
            f"{problem.gangs[gang].name}: {error}"
            for error in _gang_errors(problem, gang, assignments, classes_by_node)
        ]
    if not wrong:
        wrong += _capacity_errors(problem, assignment, classes_by_node)
        wrong += _budget_errors(problem, assignment)
    return tuple(wrong)


def _gang_errors(
    problem: JointProblem, gang: int, assignments: Sequence[Assignment], classes_by_node: Classes
) -> tuple[str, ...]:
    """Return the single-gang checker's errors on the nodes that the gang uses."""
    demand = problem.gangs[gang]
    classes = []
    for node in sorted({assignment.node for assignment in assignments} & classes_by_node.keys()):
        group = classes_by_node[node]
        eligible = tuple(group.eligible[role.pod_class] for role in demand.roles)
        cost = (0,) * len(demand.roles)
        classes.append(NodeClass(group.path, group.free, eligible, cost, (node,)))
    roles = roles_of(problem, demand)
    alone = PlacementProblem(problem.resources, problem.levels, roles, tuple(classes), demand.rules)
    if any(
        assignment.node not in classes_by_node or not 0 <= assignment.role < len(roles)
        for assignment in assignments
    ):
        return ("a node or role that does not exist",)
    return check(alone, certify(Scorer(alone), assignments, bound=None, by="checker"))


def _capacity_errors(
    problem: JointProblem, assignment: JointAssignment, classes_by_node: Classes
) -> Iterator[str]:
    for index, name in enumerate(problem.resources):
        used: dict[NodeName, int] = {}
        for gang, pods in _all(assignment):
            used[pods.node] = used.get(pods.node, 0) + pods.count * _request(problem, gang, pods)[index]
        for node, amount in used.items():
            if amount > classes_by_node[node].free[index]:
                yield f"{amount} {name} on {node}, where {classes_by_node[node].free[index]} is free"


def _budget_errors(problem: JointProblem, assignment: JointAssignment) -> Iterator[str]:
    """Compare the use of each budget; budgets of one name are one budget."""
    budgets = {budget.name: budget for gang in problem.gangs for budget in budgets_in(gang.rules)}
    for budget in budgets.values():
        for index, name in enumerate(problem.resources):
            used = sum(
                pods.count * _request(problem, gang, pods)[index]
                for gang, pods in _all(assignment)
                if (budget.nodes is None or pods.node in budget.nodes)
                and any(rule.name == budget.name for rule in problem.gangs[gang].rules)
            )
            if used > max(0, budget.remaining.get(name, used)):
                yield f"{budget.name}: {used} {name}, where {budget.remaining[name]} remains"


def _all(assignment: JointAssignment) -> Iterator[tuple[int, Assignment]]:
    for gang, assignments in assignment.items():
        for pods in assignments:
            yield gang, pods


def _request(problem: JointProblem, gang: int, pods: Assignment) -> tuple[int, ...]:
    return problem.pod_classes[problem.gangs[gang].roles[pods.role].pod_class].request
