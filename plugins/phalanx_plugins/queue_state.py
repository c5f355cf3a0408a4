"""Starts no gangs whose `spec.hold` is true, nor gangs of a queue whose `spec.state` is Held or Closed.

The state of a queue counts for its descendants too. Running gangs continue. Lost members of a started gang
are replaced, and a partly bound gang is completed. A pod without a group that its controller recreates is new
work and waits.
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
        """Refuse a gang that has not started. One that starts over is held by its own field only."""
        if gang.spec.hold and not gang.started and not gang.active:
            return Objection(
                Reason.HELD,
                "spec.hold of the PodGroup is true: the gang is not started",
                f"Run `phalanx release {gang.name} -n {gang.namespace}`, or remove spec.hold",
            )
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
