"""What an answer means for the session: which pods get which nodes, as a statement that can be taken back."""

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from phalanx.actions.demand import Demand
from phalanx.actions.frame import nodes_of_members
from phalanx.framework.session import Session
from phalanx.framework.statement import Seats, Statement
from phalanx.model.certificates import Certificate
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.solver.problem import Assignment


class Placing(Struct, frozen=True):
    """Seats for (a part of) a demand. Without a certificate they are only kept, for pods to come."""

    demand: Demand
    seats: Seats
    certificate: Certificate | None = None


def seats_of(demand: Demand, assignments: Iterable[Assignment]) -> Seats:
    """Give each batch's pods, in their order, to the nodes in the order of the assignments."""
    pods: list[Iterator[Pod]] = [iter(batch.pods) for batch in demand.batches]
    return [(each.node, tuple(islice(pods[each.role], each.count))) for each in assignments]


def put(session: Session, placing: Placing) -> Statement:
    """Make the session so. The statement may be rolled back while no later one stands."""
    gang, seats = placing.demand.gang, placing.seats
    with session.statement() as statement:
        if placing.certificate is None:
            statement.keep(gang=gang, seats=seats)
            return statement
        level, domain = _tightest_domain(session, gang, seats)
        statement.place(
            gang=gang,
            seats=seats,
            cause=placing.demand.cause,
            certificate=placing.certificate,
            level=level,
            domain=domain,
            within=_required_labels(session, gang, seats),
        )
    return statement


def _tightest_domain(session: Session, gang: Gang, seats: Seats) -> tuple[str, str]:
    """Level and full path of the tightest domain that holds these seats and the members that already run."""
    topology = session.topologies.of(gang)
    if topology is None:
        return "", ""
    paths = session.topologies.paths(topology)
    nodes: list[NodeName] = [node for node, _ in seats]
    nodes.extend(nodes_of_members(session, gang))
    common = paths.get(nodes[0], ())
    for node in nodes[1:]:
        shared = [left == right for left, right in zip(common, paths.get(node, ()), strict=False)]
        common = common[: [*shared, False].index(False)]
    return (topology.levels[len(common) - 1].name, "/".join(common)) if common else ("", "")


def _required_labels(session: Session, gang: Gang, seats: Seats) -> dict[str, str]:
    """The labels that tell the domain which the gang requires, as the node of the first seat has them."""
    topology = session.topologies.of(gang)
    if topology is None or gang.topology.required is None:
        return {}
    depth = [level.name for level in topology.levels].index(gang.topology.required) + 1
    path = session.topologies.paths(topology)[seats[0][0]]
    keys = [level.node_label for level in topology.levels]
    return dict(zip(keys[:depth], path, strict=False))
