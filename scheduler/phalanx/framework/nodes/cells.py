"""Cells of a session: whole domains that are kept for queues which are guaranteed them."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName
from phalanx.model.reasons import Objection


def cell_rule_name(queue: QueueName) -> str:
    """The name of the rule that keeps a queue's cells."""
    return f"cells of queue {queue}"


class ReservedCell(Struct, frozen=True):
    """A domain that only gangs of this queue, and of those below it, may use."""

    queue: QueueName
    level: str
    domain: str
    nodes: frozenset[NodeName]


class ReservedCells(Struct, frozen=True):
    """Disjoint cells, by queue in their order. `lacking`: what of a queue's guarantee cannot be kept."""

    cells: tuple[ReservedCell, ...] = ()
    lacking: Mapping[QueueName, tuple[Objection, ...]] = {}

    def named_by(self, rule: str) -> tuple[ReservedCell, ...]:
        """The cells that a rule of this name keeps."""
        return tuple(cell for cell in self.cells if cell_rule_name(cell.queue) == rule)

    def closed_to(self, path: Collection[QueueName]) -> tuple[ReservedCell, ...]:
        """The cells that gangs may not use whose queue, and those above it, are these."""
        return tuple(cell for cell in self.cells if cell.queue not in path)
