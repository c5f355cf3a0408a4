"""Starts nothing in a queue whose `spec.state` is Held or Closed, nor in those below it.

What runs goes on. A gang that has started gets its lost members back, and one that is partly bound is
completed. A pod without a group that its controller makes anew is new work and waits.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.queues import QueueState
from phalanx.model.reasons import Objection, Reason


class States(Plugin):
    """Looks at the queue and at all above it."""

    name = "queue-state"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a gang that has not begun."""
        queue = view.queues.not_open(gang.queue)
        if queue is None or gang.started or gang.starts_over or gang.active:
            return None
        if queue.state is QueueState.CLOSED:
            return Objection(
                Reason.QUEUE_CLOSED,
                f"queue {queue.name} is closed: it starts no work",
                "Submit to another queue",
            )
        return Objection(
            Reason.QUEUE_HELD,
            f"queue {queue.name} is held: it starts no work for now",
            "Wait until an administrator opens the queue",
        )
