"""Faults: nodes that take no pods, gangs that something has to be done about, queues with problems."""

from msgspec import Struct
from phalanx.cli.verbs.views.gangs import GangRow, State
from phalanx.cli.verbs.views.nodes import GangOnNode
from phalanx.cli.verbs.views.why import category_of
from phalanx.model.reasons import Category

from phalanx_dashboard.copies import copied
from phalanx_dashboard.facts import Facts
from phalanx_dashboard.pages.gangs import GangLine, line_of


class NodeFault(Struct, frozen=True, rename="camel"):
    """A node that takes no pods."""

    name: str
    condition: str
    faults: tuple[str, ...]
    avoided: tuple[str, ...]
    devices: int
    """Amount of the shown resource that is not usable."""
    gangs: tuple[GangOnNode, ...]
    lost_device_seconds: int


class QueueProblem(Struct, frozen=True, rename="camel"):
    """A queue with a condition that is False."""

    queue: str
    problem: str


class Faults(Struct, frozen=True, rename="camel"):
    """Everything that needs somebody."""

    resource: str
    nodes: tuple[NodeFault, ...]
    gangs: tuple[GangLine, ...]
    """Gangs that failed, are being evicted, or wait for a correction of an object."""
    queues: tuple[QueueProblem, ...]


def faults(facts: Facts) -> Faults:
    resource = facts.nodes.resource
    return Faults(
        resource=resource,
        nodes=node_faults(facts),
        gangs=tuple(line_of(entry.row, resource) for entry in facts.entries if _needs_somebody(entry.row)),
        queues=tuple(QueueProblem(row.name, text) for row in facts.queues.queues for text in row.problems),
    )


def node_faults(facts: Facts) -> tuple[NodeFault, ...]:
    """The nodes that take no pods: faulty ones first."""
    return tuple(
        copied(NodeFault, row, devices=row.allocatable.get(facts.nodes.resource, 0))
        for row in facts.nodes.nodes
        if not row.takes_pods or row.faults
    )


def _needs_somebody(row: GangRow) -> bool:
    if row.state in (State.FAILED, State.RELEASING):
        return True
    return category_of(row.reason) in (Category.MISCONFIGURED, Category.IMPOSSIBLE)
