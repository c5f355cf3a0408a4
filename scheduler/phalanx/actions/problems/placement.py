"""What an answer means for the session: which pods get which nodes, as a statement that can be taken back."""

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.domains import required_labels, subgroup_domain_labels, tightest_domain
from phalanx.actions.problems.pod_assignment import Role, in_rank_order
from phalanx.framework.session import Session
from phalanx.framework.statement import Seats, Statement
from phalanx.model.certificates import Certificate
from phalanx.model.gpu_shares import NO_DEVICES, Devices
from phalanx.model.names import NodeName
from phalanx.solver.problem import Assignment


class DemandPlacement(Struct, frozen=True):
    """Seats for (a part of) a demand. Without a certificate they are only kept, for pods to come.

    `devices` are those that were chosen for shares; where none was, the tightest is taken.
    """

    demand: Demand
    seats: Seats
    certificate: Certificate | None = None
    devices: Devices = NO_DEVICES


def assign_pods(session: Session, demand: Demand, assignments: Sequence[Assignment]) -> Seats:
    """Each batch's pods, in the order of their ranks, on nodes in the order of the network.

    So neighbours in rank are neighbours in the network, as far as nodes and domains have room.
    """
    topology = session.topologies.of(demand.gang) if len(assignments) > 1 else None
    paths = session.topologies.paths(topology) if topology is not None else {}
    along = sorted(assignments, key=lambda each: (each.role, paths.get(each.node, ()), each.node))
    places: list[list[NodeName]] = [[] for _ in demand.batches]
    for each in along:
        places[each.role] += [each.node] * each.count
    roles = [Role(batch.pods, nodes) for batch, nodes in zip(demand.batches, places, strict=True)]
    pods = [iter(ordered) for ordered in in_rank_order(roles, paths)]
    return [(each.node, tuple(islice(pods[each.role], each.count))) for each in along]


def _only(seats: Seats, *, placeholders: bool) -> Seats:
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
            statement.keep(gang=gang, seats=seats)
            return statement
        if gang.reserves:
            devices = statement.deal(seats, devices)
            seats, kept = _only(seats, placeholders=False), _only(placing.seats, placeholders=True)
            if kept:
                statement.keep(gang=gang, seats=kept, devices=devices)
        level, domain = tightest_domain(session, gang, seats)
        statement.place(
            gang=gang,
            seats=seats,
            cause=placing.demand.cause,
            certificate=placing.certificate,
            level=level,
            domain=domain,
            within=required_labels(session, gang, seats),
            homes=subgroup_domain_labels(session, gang, seats),
            devices=devices,
        )
    return statement
