"""The tree of queues. A queue in a cycle, or with an unknown parent, counts as a root."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from phalanx.model.names import DEFAULT_QUEUE, QueueName
from phalanx.model.queues import DEFAULT, Queue, QueueState

T = TypeVar("T")


class QueueTree:
    """Queues by name; the default queue always exists."""

    def __init__(self, queues: Mapping[QueueName, Queue]) -> None:
        known = {DEFAULT_QUEUE: DEFAULT, **queues}
        self._queues = {name: known[name] for name in sorted(known)}
        self._parents = {queue.parent for queue in self._queues.values()}
        self._paths = {name: tuple(self._climb(name)) for name in self._queues}
        self._children: dict[QueueName | None, list[Queue]] = {}
        for name, queue in self._queues.items():
            self._children.setdefault(self.parent_of(name), []).append(queue)

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._queues.values())

    def get(self, name: QueueName) -> Queue | None:
        return self._queues.get(name)

    def path(self, name: QueueName) -> tuple[Queue, ...]:
        """The queue and its ancestors, itself first, its root last; empty for an unknown queue."""
        return self._paths.get(name, ())

    def parent_of(self, name: QueueName) -> QueueName | None:
        """The queue above; None for a root and for an unknown queue."""
        above = self.path(name)[1:]
        return above[0].name if above else None

    def siblings(self, name: QueueName) -> list[Queue]:
        """The queue and those with the same parent."""
        return self._children.get(self.parent_of(name), [])

    def children(self, name: QueueName) -> list[Queue]:
        """The queues directly below a queue."""
        return self._children.get(name, [])

    def inherited(self, name: QueueName, setting: Callable[[Queue], T | None]) -> T | None:
        """A setting of the queue, or of the nearest ancestor that has it, or None."""
        values = map(setting, self.path(name))
        return next((value for value in values if value is not None), None)

    def not_open(self, name: QueueName) -> Queue | None:
        """The first closed, else the first held queue on the path to the root; None if all are open."""
        path = self.path(name)
        for state in (QueueState.CLOSED, QueueState.HELD):
            for queue in path:
                if queue.state is state:
                    return queue
        return None

    def is_leaf(self, name: QueueName) -> bool:
        """Whether no queue names it as its parent. Only leaves take gangs."""
        return name not in self._parents

    def _climb(self, name: QueueName) -> Iterator[Queue]:
        visited: set[QueueName] = set()
        queue = self._queues.get(name)
        while queue is not None and queue.name not in visited:
            visited.add(queue.name)
            yield queue
            queue = self._queues.get(queue.parent) if queue.parent is not None else None
