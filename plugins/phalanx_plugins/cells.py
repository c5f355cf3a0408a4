"""Reserves the cells that queues are guaranteed: whole domains, closed to gangs of all other queues.

Each cycle chooses the domains again, as many as are guaranteed. It prefers domains in which the queue has
pods already, and takes no domain in which another queue has pods. Running pods are never evicted for a cell.
"""

from collections.abc import Sequence

from phalanx.framework.nodes.cells import ReservedCell
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.reasons import Evidence, Reason
from phalanx.model.resources import PODS
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule, RuleWords


class Cells(Plugin):
    """One Budget rule with nothing left for each queue whose cells are closed to the gang."""

    name = "cells"
    lasting_answers = True

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """One rule per queue with cells that the gang may not use."""
        if not view.cells.cells:
            return ()
        closed: dict[QueueName, list[ReservedCell]] = {}
        for cell in view.cells.closed_to([queue.name for queue in view.queues.path(gang.queue)]):
            closed.setdefault(cell.queue, []).append(cell)
        return tuple(
            Budget(
                name=f"cells of queue {queue}",
                remaining={PODS: 0},
                nodes=frozenset().union(*(cell.nodes for cell in cells)),
                words=_words(queue, cells),
            )
            for queue, cells in closed.items()
        )


def _words(queue: QueueName, cells: Sequence[ReservedCell]) -> RuleWords:
    domains = [f"{cell.level} {named_parts.domain(cell.domain)}" for cell in cells]
    return RuleWords(
        message=f"free capacity is in cells reserved for queue {queue}: {', '.join(domains)}",
        next_step="Wait for free capacity elsewhere, or submit to a queue with guaranteed cells",
        evidence=tuple(Evidence(domain, f"is reserved for queue {queue}") for domain in domains),
        reason=Reason.CELLS_RESERVED,
        above=Reason.CELLS_RESERVED,
    )
