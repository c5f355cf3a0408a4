"""Reserves the cells that queues are guaranteed: whole domains, closed to gangs of all other queues.

Each cycle chooses the domains again, as many as are guaranteed. It prefers domains in which the queue has
pods already, and takes no domain in which another queue has pods. Running pods are never evicted for a cell.
"""

from phalanx.framework.nodes.cells import cell_rule_name
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import PODS
from phalanx.model.rules import Budget, Rule


class Cells(Plugin):
    """One Budget rule with nothing left for each queue whose cells are closed to the gang."""

    name = "cells"
    lasting_answers = True

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """One rule per queue with cells that the gang may not use."""
        if not view.cells.cells:
            return ()
        closed: dict[QueueName, frozenset[NodeName]] = {}
        for cell in view.cells.closed_to([queue.name for queue in view.queues.path(gang.queue)]):
            closed[cell.queue] = closed.get(cell.queue, frozenset()) | cell.nodes
        return tuple(
            Budget(name=cell_rule_name(queue), remaining={PODS: 0}, nodes=nodes)
            for queue, nodes in closed.items()
        )
