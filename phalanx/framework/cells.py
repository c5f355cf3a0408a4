"""Cells of a session: whole domains that are kept for queues which are guaranteed them."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName
from phalanx.model.reasons import Problem


class KeptCell(Struct, frozen=True):
    """A domain that only gangs of this queue, and of those below it, may use."""

    queue: QueueName
    level: str
    domain: str
    nodes: frozenset[NodeName]


class KeptCells(Struct, frozen=True):
    """Disjoint cells, by queue in their order. `lacking`: what of a queue's guarantee cannot be kept."""

    cells: tuple[KeptCell, ...] = ()
    lacking: Mapping[QueueName, tuple[Problem, ...]] = {}

    def closed_to(self, path: Collection[QueueName]) -> tuple[KeptCell, ...]:
        """The cells that gangs may not use whose queue, and those above it, are these."""
        return tuple(cell for cell in self.cells if cell.queue not in path)
