"""What each queue's gangs use on each node."""

from collections.abc import Iterable, Mapping

from phalanx.cache.usage import Ledger
from phalanx.model.conversion.membership import GangKey
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName, ShapeKey
from phalanx.model.resources import Resources, scale

Held = dict[tuple[QueueName, NodeName, ShapeKey], tuple[int, Resources]]
"""How many pods of one shape are on a node for a queue, and what one of them requests."""


class QueueUsage:
    """A ledger per queue. Only members that name our scheduler count: others are foreign pods of the node."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._ledgers: dict[QueueName, Ledger[NodeName]] = {}
        self._views: dict[QueueName, Mapping[NodeName, Resources]] = {}
        self._held: dict[GangKey, Held] = {}

    def replace(self, key: GangKey, gangs: Iterable[Gang]) -> None:
        """Count what the gangs of this key hold now, in place of what they held before."""
        before = self._held.pop(key, {})
        held = self._count(gangs)
        if held:
            self._held[key] = held
        for (queue, node, shape), (count, requests) in before.items():
            if held.get((queue, node, shape)) != (count, requests):
                self._remove(queue, node, scale(requests, count))
        for (queue, node, shape), (count, requests) in held.items():
            if before.get((queue, node, shape)) != (count, requests):
                self._add(queue, node, scale(requests, count))

    def view(self) -> Mapping[QueueName, Mapping[NodeName, Resources]]:
        """Per queue and node, sorted; queues that use nothing are not there."""
        for queue, ledger in self._ledgers.items():
            if queue not in self._views:
                self._views[queue] = ledger.view()
        return {queue: self._views[queue] for queue in sorted(self._ledgers)}

    def _count(self, gangs: Iterable[Gang]) -> Held:
        held: Held = {}
        for gang in gangs:
            for pod in gang.members:
                if pod.node is not None and pod.scheduler_name == self._scheduler_name and pod.holds_node:
                    at = (gang.queue, pod.node, pod.shape.key)
                    count, requests = held.get(at, (0, pod.shape.requests))
                    held[at] = (count + 1, requests)
        return held

    def _add(self, queue: QueueName, node: NodeName, amounts: Resources) -> None:
        self._ledgers.setdefault(queue, Ledger()).add(node, amounts)
        self._views.pop(queue, None)

    def _remove(self, queue: QueueName, node: NodeName, amounts: Resources) -> None:
        self._ledgers[queue].remove(node, amounts)
        self._views.pop(queue, None)
        if not self._ledgers[queue]:
            del self._ledgers[queue]
