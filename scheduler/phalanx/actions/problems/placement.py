"""What an answer means for the session: which pods get which nodes, as a statement that can be taken back."""

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.gang_constraints import nodes_of_members
from phalanx.framework.session import Session
from phalanx.framework.statement import Assignments, Statement
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.gpu_shares import NO_DEVICES, Devices
from phalanx.model.names import NodeName


class DemandPlacement(Struct, frozen=True):
    """Seats for (a part of) a demand. Without a certificate they are only kept, for pods to come.

    `devices` are those that were chosen for shares; where none was, the tightest is taken.
    """

    demand: Demand
    seats: Assignments
    certificate: Certificate | None = None
    devices: Devices = NO_DEVICES


def _only(seats: Assignments, *, placeholders: bool) -> Assignments:
    """The seats of stand-ins, or of the others."""
    found = [(node, tuple(pod for pod in pods if pod.is_placeholder == placeholders)) for node, pods in seats]
    return [(node, pods) for node, pods in found if pods]


def apply_placement(session: Session, placing: DemandPlacement) -> Statement:
    """Make the session so: pods are placed, and for stand-ins among them room is kept.

    The statement may be rolled back while no later one stands.
    """
    gang, seats, devices = placing.demand.gang, placing.seats, placing.devices
    with session.statement() as statement:
        if placing.certificate is None:
            statement.hold_capacity(gang=gang, assignments=seats)
            return statement
        if gang.reserves:
            devices = statement.choose_devices(seats, devices)
            seats, kept = _only(seats, placeholders=False), _only(placing.seats, placeholders=True)
            if kept:
                statement.hold_capacity(gang=gang, assignments=kept, devices=devices)
        level, domain = tightest_domain(session, gang, seats)
        statement.place(
            gang=gang,
            assignments=seats,
            cause=placing.demand.cause,
            certificate=placing.certificate,
            level=level,
            domain=domain,
            within=required_labels(session, gang, seats),
            homes=subgroup_domain_labels(session, gang, seats),
            devices=devices,
        )
    return statement


def tightest_domain(session: Session, gang: Gang, seats: Assignments) -> tuple[str, str]:
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


def required_labels(session: Session, gang: Gang, seats: Assignments) -> dict[str, str]:
    """The labels that tell the domain which the gang requires, as the node of the first seat has them."""
    if gang.topology.required is None:
        return {}
    return _labels_down_to(session, gang, gang.topology.required, seats[0][0])


def subgroup_domain_labels(
    session: Session, gang: Gang, seats: Assignments
) -> dict[NodeName, dict[str, str]]:
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
