"""Serves sibling queues of higher `spec.priority` first.

Only among queues of equal priority are the shares compared.
"""

from typing import Final

from phalanx.framework.session import Session
from phalanx.model.queues import Queue


class QueuePriority:
    """A larger number goes first."""

    name: Final = "queue-priority"

    def queue_order(self, queue: Queue, session: Session) -> int:
        """Smaller comes first."""
        return -queue.priority
