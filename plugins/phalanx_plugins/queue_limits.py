"""Holds every queue to its limit, on all nodes and per flavor, for all ancestors.

A limit counts the usage of the queue and its descendants. It is a hard bound on placements. No pod is evicted
if a limit is lowered below the usage.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.queues import Queue
from phalanx.model.resources import Resources
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule


class QueueLimits(Plugin):
    """One Budget rule per limit on the path from the gang's queue to the root."""

    name = "queue-limits"
    lasting_answers = True

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The rest of each limit; negative if the usage exceeds it."""
        return tuple(rule for queue in view.queues.path(gang.queue) for rule in _budgets_of(queue, view))


def _budgets_of(queue: Queue, view: SessionView) -> list[Rule]:
    budgets: list[Rule] = []
    if queue.limit:
        used = view.ledger.usage(queue.name)
        budgets.append(_budget(f"limit of queue {queue.name}", queue, queue.limit, used))
    for flavor in queue.flavors:
        if flavor.limit:
            used = view.ledger.usage(queue.name, flavor.node_selector)
            nodes = view.ledger.nodes_of(flavor.node_selector)
            name = f"limit of queue {queue.name} for flavor {flavor.name}"
            budgets.append(_budget(name, queue, flavor.limit, used, nodes))
    return budgets


def _budget(
    name: str, queue: Queue, limit: Resources, used: Resources, nodes: frozenset[NodeName] | None = None
) -> Budget:
    remaining = {resource: amount - used.get(resource, 0) for resource, amount in limit.items()}
    return Budget(name=name, remaining=remaining, nodes=nodes, queue=queue.name)
