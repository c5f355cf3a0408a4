"""The overview: gangs by state, devices, rates, the next gangs, nodes with faults, the last decisions."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from phalanx.cli.verbs.views.queues import QueueRow
from phalanx.cli.verbs.views.top import Decision

from phalanx_dashboard.copies import copied
from phalanx_dashboard.facts import Facts
from phalanx_dashboard.pages.faults import NodeFault, node_faults
from phalanx_dashboard.pages.gangs import GangLine, line_of

_WAITING_SHOWN: Final = 10
"""Waiting gangs, and nodes with faults, on the overview."""


class Overview(Struct, frozen=True, rename="camel"):
    """The first page."""

    resource: str
    gangs: Mapping[str, int]
    """Gangs by state."""
    total: int | None
    used: int | None
    nodes: Mapping[str, int]
    """Nodes by condition."""
    binds_per_minute: int
    starts_per_minute: int
    queues: tuple[QueueRow, ...]
    """The roots of the tree."""
    waiting: tuple[GangLine, ...]
    """The first waiting gangs."""
    faults: tuple[NodeFault, ...]
    decisions: tuple[Decision, ...]


def overview(facts: Facts) -> Overview:
    frame = facts.frame
    return copied(
        Overview,
        frame,
        queues=tuple(row for row in frame.queues.queues if row.depth == 0),
        waiting=tuple(line_of(row, frame.resource) for row in frame.waiting[:_WAITING_SHOWN]),
        faults=node_faults(facts)[:_WAITING_SHOWN],
    )
