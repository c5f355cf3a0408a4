"""Where a placement lies: its tightest domain, and the labels that its nodes must keep until all is bound."""

from phalanx.actions.nodes.gang_constraints import nodes_of_members
from phalanx.framework.session import Session
from phalanx.framework.statement import Seats
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.names import NodeName


def tightest_domain(session: Session, gang: Gang, seats: Seats) -> tuple[str, str]:
    """Level and full path of the tightest domain that holds these seats and the members that already run."""
    topology = session.topologies.of(gang)
    if topology is None:
        return "", ""
    nodes: list[NodeName] = [node for node, _ in seats]
    nodes.extend(nodes_of_members(session, gang))
    common, *others = (session.topologies.path(node, topology) for node in dict.fromkeys(nodes))
    for path in others:
        shared = [left == right for left, right in zip(common, path, strict=False)]
        common = common[: [*shared, False].index(False)]
    return (topology.levels[len(common) - 1].name, "/".join(common)) if common else ("", "")


def required_labels(session: Session, gang: Gang, seats: Seats) -> dict[str, str]:
    """The labels that tell the domain which the gang requires, as the node of the first seat has them."""
    if gang.topology.required is None:
        return {}
    return _labels_down_to(session, gang, gang.topology.required, seats[0][0])


def subgroup_domain_labels(session: Session, gang: Gang, seats: Seats) -> dict[NodeName, dict[str, str]]:
    """Per node, the labels down to the deepest level that a subgroup of the pods there requires."""
    required = {part.name: part.required for part in gang.subgroups if part.required is not None}
    around = ancestor_chains(gang.subgroups)
    homes: dict[NodeName, dict[str, str]] = {}
    for node, pods in seats if required else ():
        named = dict.fromkeys(name for pod in pods for name in around.get(pod.subgroup, ()))
        labels = [_labels_down_to(session, gang, required[name], node) for name in named if name in required]
        if labels:
            homes[node] = max(labels, key=len)
    return homes


def _labels_down_to(session: Session, gang: Gang, level: str, node: NodeName) -> dict[str, str]:
    """The labels of a node that tell in which domain of the level it lies."""
    topology = session.topologies.of(gang)
    if topology is None:
        return {}
    depth = [each.name for each in topology.levels].index(level) + 1
    keys = [each.node_label for each in topology.levels]
    return dict(zip(keys[:depth], session.topologies.path(node, topology), strict=False))
