"""Put nodes into a placement problem that do not exist, or that are different from those of the session."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of, label_values
from phalanx.actions.nodes.resource_projection import projections_for
from phalanx.framework.eligibility import evaluate
from phalanx.framework.nodes.topology import Path, domain_path
from phalanx.framework.session import Session
from phalanx.model.names import HOSTNAME_KEY, NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.queues import Objective
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import projected
from phalanx.rules.budget import Budget, with_budgets
from phalanx.rules.problem import NodeClass, Obstacle, PlacementProblem, Rule


class ChangedNode(Struct, frozen=True):
    """A healthy node: another version of a node of the session, or a new one."""

    node: Node
    like: NodeName
    """The node of the session that it is a version of, or a copy of."""

    in_domains_of: Node | None = None
    """The node whose labels name its domains, if not its own labels do."""

    is_new: bool = False
    """Whether it is an additional node without pods; otherwise as much is free as on the node that it is
    like."""


class FreeNode(Struct, frozen=True):
    """A changed node, and what is free there."""

    changed: ChangedNode
    free: Resources


def with_changed_nodes(
    problem: PlacementProblem,
    demand: Demand,
    session: Session,
    nodes: Sequence[FreeNode],
    rules: Sequence[Rule] | None = None,
) -> PlacementProblem:
    """The problem with these nodes, without tightness: the domains' capacity that it counts is not known.

    A limit counts the nodes if it counts those that they are like.
    `rules`: those of the problem for all nodes, unless they are those of the session.
    """
    if not nodes:
        return problem
    changed = [each.changed for each in nodes]
    constraints = constraints_of(session, demand.gang)
    problem = _with_all_labels(problem, session, constraints)
    names = frozenset(each.node.name for each in changed)
    kept = [_without(group, names) for group in problem.classes]
    new = _classes(problem, demand, session, constraints, nodes)
    counting = with_budgets(
        constraints.rules if rules is None else rules, lambda budget: _counting(budget, changed)
    )
    classes = (*(group for group in kept if group.nodes), *new)
    return replace(problem, classes=classes, rules=counting, ties=Objective.PACK, spread=0)


def _with_all_labels(
    problem: PlacementProblem, session: Session, constraints: GangConstraints
) -> PlacementProblem:
    """The problem with the labels of all affinity rules: a copy may share a label that was unique before."""
    affinity = [rule for rule in constraints.rules if rule.obstacle is Obstacle.AFFINITY]
    keys = {key for rule in affinity for key in rule.keys} - {HOSTNAME_KEY}
    if keys <= set(problem.keys):
        return problem
    names = tuple(sorted(keys.union(problem.keys)))
    constraints = replace(constraints, keys=names)
    classes = tuple(
        replace(
            group,
            nodes=(node,),
            order=(),
            label_values=label_values(session, constraints, session.nodes[node].node),
        )
        for group in problem.classes
        for node in group.nodes
    )
    return replace(problem, keys=names, classes=classes)


def _without(group: NodeClass, names: frozenset[NodeName]) -> NodeClass:
    nodes = tuple(node for node in group.nodes if node not in names)
    return replace(group, nodes=nodes, order=(), domain_capacity=0, subgroup_capacities=())


def _counting(rule: Budget, changed: Sequence[ChangedNode]) -> Budget:
    if rule.nodes is None:
        return rule
    return replace(
        rule, nodes=rule.nodes.union(each.node.name for each in changed if each.like in rule.nodes)
    )


def _classes(
    problem: PlacementProblem,
    demand: Demand,
    session: Session,
    constraints: GangConstraints,
    nodes: Sequence[FreeNode],
) -> list[NodeClass]:
    pods = [batch.pods[0] for batch in demand.batches]
    states = {each.changed.node.name: NodeState(each.changed.node, free=each.free) for each in nodes}
    rejected = [evaluate(states, (), session.hooks.node_filters(pod), ()).rejected for pod in pods]
    projections = projections_for(session, pods)
    most = [
        sum(role.request[index] * role.maximum for role in problem.roles)
        for index in range(len(problem.resources))
    ]
    found = []
    for each in nodes:
        node = each.changed.node
        free = projected(projections, states[node.name], each.free)
        amounts = zip(problem.resources, most, strict=True)
        found.append(
            NodeClass(
                path=_path(each.changed.in_domains_of or node, constraints, len(problem.levels)),
                free=tuple([max(0, min(free.get(name, 0), cap)) for name, cap in amounts]),
                eligible=tuple([node.name not in names for names in rejected]),
                cost=(0,) * len(problem.roles),
                nodes=(node.name,),
                budgets=_counted_by(constraints, each.changed.like),
                label_values=label_values(session, replace(constraints, keys=problem.keys), node),
            )
        )
    return found


def _path(node: Node, constraints: GangConstraints, depth: int) -> Path:
    if constraints.topology is None or node.has_unknown_topology:
        return ()
    return domain_path(node, constraints.topology)[:depth]


def _counted_by(constraints: GangConstraints, like: NodeName) -> tuple[int, ...]:
    scopes = enumerate(constraints.scopes)
    return tuple([index for index, nodes in scopes if nodes is None or like in nodes])
