"""Keeps the cells that queues are guaranteed: whole domains, in which gangs of no other queue are placed.

Each cycle chooses the domains anew: as many as are guaranteed, those first in which the queue has work
already, else domains in which no other queue has any. What runs in them is never evicted for that.
"""

from phalanx.framework.nodes.cells import cell_rule_name
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import PODS
from phalanx.model.rules import Budget, Rule


class CellsOfQueues(Plugin):
    """For each queue whose cells are closed to the gang, one Budget rule that leaves nothing there."""

    name = "cells"

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """None where no other queue has cells."""
        if not view.cells.cells:
            return ()
        closed: dict[QueueName, frozenset[NodeName]] = {}
        for cell in view.cells.closed_to([queue.name for queue in view.queues.path(gang.queue)]):
            closed[cell.queue] = closed.get(cell.queue, frozenset()) | cell.nodes
        return tuple(
            Budget(name=cell_rule_name(queue), remaining={PODS: 0}, nodes=nodes)
            for queue, nodes in closed.items()
        )
