"""Every joint answer is checked again here, in plain Python, before it leaves: gang by gang, and together."""

from collections.abc import Iterator, Sequence

from phalanx.model.names import NodeName
from phalanx.model.rules import Budget
from phalanx.solver.certify import certified
from phalanx.solver.checker import check
from phalanx.solver.joint.problem import JointAssignment, JointProblem, roles_of
from phalanx.solver.objective import Scorer
from phalanx.solver.problem import Assignment, NodeClass, PlacementProblem

Home = dict[NodeName, NodeClass]


def check_arrangement(problem: JointProblem, arrangement: JointAssignment) -> tuple[str, ...]:
    """What is wrong with it, in words; empty when all `must` gangs are there and every rule is kept."""
    wanted = {one.node for assignments in arrangement.values() for one in assignments}
    home = {node: group for group in problem.classes for node in group.nodes if node in wanted}
    wrong = [
        f"{gang.name} is not admitted"
        for index, gang in enumerate(problem.gangs)
        if gang.must_admit and index not in arrangement
    ]
    for gang, assignments in arrangement.items():
        wrong += [f"{problem.gangs[gang].name}: {each}" for each in _alone(problem, gang, assignments, home)]
    if not wrong:
        wrong += _overfull(problem, arrangement, home)
        wrong += _overspent(problem, arrangement)
    return tuple(wrong)


def _alone(
    problem: JointProblem, gang: int, assignments: Sequence[Assignment], home: Home
) -> tuple[str, ...]:
    """What the checker of single gangs says, with the nodes that the gang uses."""
    demand = problem.gangs[gang]
    classes = []
    for node in sorted({one.node for one in assignments} & home.keys()):
        group = home[node]
        eligible = tuple(group.eligible[part.kind] for part in demand.parts)
        cost = (0,) * len(demand.parts)
        classes.append(NodeClass(group.path, group.free, eligible, cost, (node,)))
    roles = roles_of(problem, demand)
    alone = PlacementProblem(problem.resources, problem.levels, roles, tuple(classes), demand.rules)
    if any(one.node not in home or not 0 <= one.role < len(roles) for one in assignments):
        return ("a place that does not exist",)
    return check(alone, certified(Scorer(alone), assignments, bound=None, by="checker"))


def _overfull(problem: JointProblem, arrangement: JointAssignment, home: Home) -> Iterator[str]:
    for index, name in enumerate(problem.resources):
        used: dict[NodeName, int] = {}
        for gang, one in _all(arrangement):
            used[one.node] = used.get(one.node, 0) + one.count * _request(problem, gang, one)[index]
        for node, amount in used.items():
            if amount > home[node].free[index]:
                yield f"{amount} {name} on {node}, where {home[node].free[index]} is free"


def _overspent(problem: JointProblem, arrangement: JointAssignment) -> Iterator[str]:
    """Budgets of one name are one budget."""
    budgets = {rule.name: rule for gang in problem.gangs for rule in gang.rules if isinstance(rule, Budget)}
    for budget in budgets.values():
        for index, name in enumerate(problem.resources):
            used = sum(
                one.count * _request(problem, gang, one)[index]
                for gang, one in _all(arrangement)
                if (budget.nodes is None or one.node in budget.nodes)
                and any(rule.name == budget.name for rule in problem.gangs[gang].rules)
            )
            if used > max(0, budget.remaining.get(name, used)):
                yield f"{budget.name}: {used} {name}, where {budget.remaining[name]} remains"


def _all(arrangement: JointAssignment) -> Iterator[tuple[int, Assignment]]:
    for gang, assignments in arrangement.items():
        for one in assignments:
            yield gang, one


def _request(problem: JointProblem, gang: int, one: Assignment) -> tuple[int, ...]:
    return problem.kinds[problem.gangs[gang].parts[one.role].kind].request
