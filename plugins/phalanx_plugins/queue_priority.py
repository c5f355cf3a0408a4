"""Serves sibling queues of higher `spec.priority` first.

Shares are compared only among queues of equal priority.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.queues import Queue


class QueuePriority(Plugin):
    """A queue with a larger number is served first."""

    name = "queue-priority"

    def queue_order(self, queue: Queue, view: SessionView) -> int:
        return -queue.priority
