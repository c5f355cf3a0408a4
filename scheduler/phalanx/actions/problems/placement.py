"""Apply the placement of a demand to the session, as a statement that can be rolled back."""

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.gang_constraints import nodes_of_members
from phalanx.framework.nodes.topology import domain_name
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments
from phalanx.model.snapshot import Topology
from phalanx.model.supplies.supply import NO_PARTS, Parts, SessionSupply


class DemandPlacement(Struct, frozen=True):
    """The assignments of a demand, or of a part of it, to nodes."""

    demand: Demand
    assignments: Assignments

    certificate: Certificate | None = None
    """None if the capacity is only held for future pods."""

    parts: Parts = NO_PARTS
    """The chosen parts of nodes; for other pods the tightest is chosen."""

    is_joint: bool = False
    """Whether the certificate compares placements beside all gangs of the cycle, not only earlier ones."""


def _only(assignments: Assignments, *, placeholders: bool) -> Assignments:
    """The assignments of placeholders, or of the other pods."""
    found = [
        (node, tuple(pod for pod in pods if pod.is_placeholder == placeholders)) for node, pods in assignments
    ]
    return [(node, pods) for node, pods in found if pods]


def apply_placement(session: Session, placement: DemandPlacement) -> Statement:
    """Place the pods, and hold capacity for placeholders among them.

    The statement may be rolled back while no later statement exists.
    """
    gang, assignments, parts = placement.demand.gang, placement.assignments, placement.parts
    with session.respecting_nominations(gang), session.statement() as statement:
        if placement.certificate is None:
            statement.hold_capacity(gang=gang, assignments=assignments)
            return statement
        if gang.reserves:
            parts = statement.choose_parts(assignments, parts)
            held = _only(placement.assignments, placeholders=True)
            assignments = _only(assignments, placeholders=False)
            if held:
                statement.hold_capacity(gang=gang, assignments=held, parts=parts)
        level, domain = tightest_domain(session, gang, assignments)
        statement.place(
            gang=gang,
            assignments=assignments,
            cause=placement.demand.cause,
            certificate=placement.certificate,
            level=level,
            domain=domain,
            within=required_labels(session, gang, assignments),
            node_labels=subgroup_domain_labels(session, gang, assignments),
            parts=parts,
            annotations=session.hooks.bound_annotations(gang),
        )
    return statement


class Lacking(Struct, frozen=True):
    """Of which supply placed pods would not get what they need, and why."""

    supply: SessionSupply
    why: str
    on_nodes: bool = False
    """Whether devices of single nodes do not suffice for pods that differ; else those of several nodes."""


def lacking_of(session: Session, assignments: Assignments) -> Lacking | None:
    """What these pods would not get where the problem places them; None if they get all.

    The problem bounds what nodes and sets of nodes have. The bounds are not always exact.
    """
    for supply in session.supplies:
        why = supply.lacking(assignments)
        if why is not None:
            return Lacking(supply, why)
    return None


def tightest_domain(session: Session, gang: Gang, assignments: Assignments) -> tuple[str, str]:
    """The level and path of the narrowest domain with these assignments and the members that already run."""
    topology = session.topologies.of(gang)
    if topology is None:
        return "", ""
    nodes: list[NodeName] = [node for node, _ in assignments]
    nodes.extend(nodes_of_members(session, gang))
    common, *others = (session.topologies.path(node, topology) for node in dict.fromkeys(nodes))
    for path in others:
        shared = [left == right for left, right in zip(common, path, strict=False)]
        common = common[: [*shared, False].index(False)]
    return (topology.levels[len(common) - 1].name, domain_name(common)) if common else ("", "")


def required_labels(session: Session, gang: Gang, assignments: Assignments) -> dict[str, str]:
    """The labels of the domain that the gang requires, as the first node has them."""
    if gang.topology.required is None:
        return {}
    topology = session.topologies.of(gang)
    return _labels_down_to(session, topology, gang.topology.required, assignments[0][0])


def subgroup_domain_labels(
    session: Session, gang: Gang, assignments: Assignments
) -> dict[NodeName, dict[str, str]]:
    """For each node, the labels down to the deepest level that a subgroup of its pods requires."""
    required = {
        part.name: (session.topologies.of_subgroup(gang, part), part.required)
        for part in gang.subgroups
        if part.required is not None
    }
    ancestors = ancestor_chains(gang.subgroups)
    found: dict[NodeName, dict[str, str]] = {}
    for node, pods in assignments if required else ():
        named = dict.fromkeys(name for pod in pods for name in ancestors.get(pod.subgroup, ()))
        labels = [_labels_down_to(session, *required[name], node) for name in named if name in required]
        if labels:
            found[node] = max(labels, key=len)
    return found


def _labels_down_to(
    session: Session, topology: Topology | None, level: str, node: NodeName
) -> dict[str, str]:
    """The labels of the node that identify its domain of the level."""
    if topology is None:
        return {}
    depth = [found.name for found in topology.levels].index(level) + 1
    keys = [found.node_label for found in topology.levels]
    return dict(zip(keys[:depth], session.topologies.path(node, topology), strict=False))
