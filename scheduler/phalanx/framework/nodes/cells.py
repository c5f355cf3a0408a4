"""Cells: whole topology domains that are reserved for queues which have a guarantee of cells."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName
from phalanx.model.reasons import Objection


class ReservedCell(Struct, frozen=True):
    """A domain that only gangs of this queue and its descendants may use."""

    queue: QueueName
    level: str
    domain: str
    nodes: frozenset[NodeName]


class ReservedCells(Struct, frozen=True):
    """All reserved cells of a cycle."""

    cells: tuple[ReservedCell, ...] = ()
    """Disjoint cells, ordered by queue."""
    lacking: Mapping[QueueName, tuple[Objection, ...]] = {}
    """Per queue, why a part of its guarantee of cells cannot be met."""

    def closed_to(self, path: Collection[QueueName]) -> tuple[ReservedCell, ...]:
        """The cells that a gang may not use whose path of queues to the root is this."""
        return tuple(cell for cell in self.cells if cell.queue not in path)
