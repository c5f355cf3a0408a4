"""Starts no gangs whose `spec.hold` is true, nor gangs of a queue whose `spec.state` is Held or Closed.

The state of a queue counts for its descendants too. Running gangs continue, and their lost members are
replaced: those that Phalanx bound and did not evict for others. Everything else waits: what a gang needs to a
minimum that was raised, an evicted gang, and a pod without a group that its controller creates again.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.queues import QueueState
from phalanx.model.reasons import Objection, Reason


class QueueStates(Plugin):
    """Checks the queue and its ancestors."""

    name = "queue-state"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a gang without recorded members. The others get their lost members only."""
        if gang.held is not None and not gang.active:
            return gang.held
        queue = view.queues.not_open(gang.queue)
        if queue is None or view.records.of(gang).is_placed:
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
