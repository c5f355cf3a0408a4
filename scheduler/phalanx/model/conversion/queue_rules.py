"""What queues allow the gangs of a namespace: which queue is charged, and which priorities count.

The rules are those of `docs/tenants.md`. They follow from the objects in the cluster alone, so that a
scheduler that restarts charges the same queues.
"""

from collections.abc import Hashable, Iterable, Mapping

from phalanx.model.names import DEFAULT_QUEUE, NO_QUEUE, QueueName
from phalanx.model.queues import (
    Queue,
    QueueState,
    allows_non_preemptible,
    allows_start_by,
    max_min_runtime_ms,
)
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import Resources, format_amount

Labels = Mapping[str, str]


class QueueRules:
    """The rules of one tree of queues, for the namespaces with these labels. Answers are remembered."""

    def __init__(self, queues: Mapping[QueueName, Queue], namespaces: Mapping[str, Labels]) -> None:
        """`queues`: a tree without cycles, sorted by name. A namespace that is missing has no labels."""
        self._queues = queues
        self._namespaces = namespaces
        self._children: dict[QueueName, list[QueueName]] = {}
        for queue in queues.values():
            if queue.parent is not None:
                self._children.setdefault(queue.parent, []).append(queue.name)
        self._open: dict[tuple[QueueName, str], QueueName | None] = {}
        self._any_open: dict[str, QueueName] = {}

    def namespace_labels(self, namespace: str) -> Labels:
        return self._namespaces.get(namespace, {})

    def charged(self, names: Iterable[QueueName | None], namespace: str) -> QueueName:
        """The queue to charge for pods of the namespace: the first of `names` that accepts them, then
        `default`, then the first leaf by name. NO_QUEUE if no queue accepts them.

        A queue with children stands for the first leaf below it, by name, that accepts them.
        """
        for name in (*names, DEFAULT_QUEUE):
            leaf = self._open_leaf(name, namespace) if name is not None else None
            if leaf is not None:
                return leaf
        if namespace not in self._any_open:
            leaves = (self._open_leaf(name, namespace) for name in sorted(self._queues))
            self._any_open[namespace] = min((leaf for leaf in leaves if leaf is not None), default=NO_QUEUE)
        return self._any_open[namespace]

    def bounds(self, name: QueueName) -> Hashable:
        """What the queue allows PodGroups: the highest priority, the longest minimum run time, startBy, and
        where they may be not preemptible."""
        named = [
            (tuple(queue.guarantee), *((flavor.name, tuple(flavor.guarantee)) for flavor in queue.flavors))
            for queue in self.path(name)
        ]
        allows = allows_non_preemptible(self.path(name)), allows_start_by(self.path(name))
        return self.max_pod_group_priority(name), self.max_min_runtime_ms(name), allows, tuple(named)

    def max_pod_group_priority(self, name: QueueName) -> int | None:
        """The highest priority that PodGroups of the queue may have whatever their pods; None for none."""
        written = [queue.max_pod_group_priority for queue in self.path(name)]
        return min((value for value in written if value is not None), default=None)

    def max_min_runtime_ms(self, name: QueueName) -> int:
        """The longest `disruption.minRuntime` that counts in the queue, in milliseconds."""
        return max_min_runtime_ms(self.path(name))

    def objection(self, name: QueueName, namespace: str, needed: Resources) -> Objection | None:
        """Why the queue never starts pods of the namespace that request so much together, as it is now."""
        path = self.path(name)
        if not path:
            return Objection(Reason.QUEUE_NOT_FOUND, f"queue {name} does not exist", f"Create queue {name}")
        if name in self._children:
            text = f"queue {name} is not a leaf: only queues without child queues accept work"
            return Objection(Reason.QUEUE_NOT_LEAF, text, f"Submit to a leaf queue below {name}")
        labels = self.namespace_labels(namespace)
        found = (_objection_of(queue, namespace, labels, needed) for queue in path)
        return next(filter(None, found), None)

    def _open_leaf(self, name: QueueName, namespace: str) -> QueueName | None:
        key = (name, namespace)
        if key not in self._open:
            self._open[key] = self._find_open_leaf(name, namespace)
        return self._open[key]

    def _find_open_leaf(self, name: QueueName, namespace: str) -> QueueName | None:
        if name not in self._queues:
            return None
        if name not in self._children:
            return name if self._accepts(name, namespace) else None
        leaves = (self._open_leaf(child, namespace) for child in self._children[name])
        return min((leaf for leaf in leaves if leaf is not None), default=None)

    def _accepts(self, name: QueueName, namespace: str) -> bool:
        labels = self.namespace_labels(namespace)
        return all(queue.accepts(labels) for queue in self.path(name))

    def path(self, name: QueueName) -> list[Queue]:
        """The queue and its ancestors; empty for an unknown queue."""
        found: list[Queue] = []
        queue = self._queues.get(name)
        while queue is not None:
            found.append(queue)
            queue = self._queues.get(queue.parent) if queue.parent is not None else None
        return found


def _objection_of(queue: Queue, namespace: str, labels: Labels, needed: Resources) -> Objection | None:
    """What one queue on the path has against it."""
    if queue.problems:
        problem = queue.problems[0]
        return Objection(problem.reason, f"queue {queue.name}: {problem.message}", problem.next_step)
    if not queue.accepts(labels):
        text = f"queue {queue.name} does not accept namespace {namespace}"
        return Objection(Reason.NAMESPACE_NOT_ALLOWED, text, "Submit to another queue")
    if queue.state is QueueState.CLOSED:
        return Objection(Reason.QUEUE_CLOSED, f"queue {queue.name} is closed", "Submit to another queue")
    if queue.state is QueueState.HELD:
        text = f"queue {queue.name} is held: it starts no work for now"
        return Objection(Reason.QUEUE_HELD, text, "Wait until an administrator opens the queue")
    for name, limit in sorted(queue.limit.items()):
        if needed.get(name, 0) > limit:
            text = (
                f"the pods need {format_amount(name, needed[name], up=True)}, "
                f"the limit of queue {queue.name} is {format_amount(name, limit)}"
            )
            return Objection(Reason.ABOVE_QUEUE_LIMIT, text, "Request less, or submit to another queue")
    return None
