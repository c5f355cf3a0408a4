"""Serves sibling queues of higher `spec.priority` first.

Shares are compared only among queues of equal priority.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.queues import Queue


class QueuePriority(Plugin):
    """A larger number goes first."""

    name = "queue-priority"

    def queue_order(self, queue: Queue, view: SessionView) -> int:
        """Smaller comes first."""
        return -queue.priority
