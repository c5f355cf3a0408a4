"""Demands that are not tried now, though they might find room: by the ordering of their queue, or its state.

In a queue that is a strict FIFO nothing new is placed once a start has found no room; repairs of what runs
are. A gang that this cluster could never hold, as an earlier cycle has proven, keeps nobody waiting. In a
queue that is held or closed no surplus is placed; starts do not come this far.
"""

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.outcome import Failure
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering, QueueState
from phalanx.model.reasons import Category, Objection, Reason


class QueueGates:
    """What it is told of failures holds for all that is asked afterwards."""

    def __init__(self, session: Session) -> None:
        self._queues = session.queues
        self._first: dict[QueueName, Gang] = {}

    def objection(self, demand: Demand) -> Objection | None:
        """Why the demand is not tried; None where it may be."""
        if demand.stage is Stage.REPAIR:
            return None
        growth = self._does_not_grow(demand.gang) if demand.stage is Stage.SURPLUS else None
        return growth or self._is_behind(demand.gang)

    def failed(self, failure: Failure) -> None:
        """A demand found no room."""
        gang = failure.demand.gang
        queue = self._queues.get(gang.queue)
        is_strict = queue is not None and queue.ordering is Ordering.STRICT_FIFO
        is_start = failure.demand.stage is Stage.START and failure.objection is None
        if is_strict and is_start and not _is_hopeless(failure):
            self._first.setdefault(gang.queue, gang)

    def _does_not_grow(self, gang: Gang) -> Objection | None:
        queue = self._queues.not_open(gang.queue)
        if queue is None:
            return None
        is_closed = queue.state is QueueState.CLOSED
        return Objection(
            Reason.QUEUE_CLOSED if is_closed else Reason.QUEUE_HELD,
            f"queue {queue.name} is {'closed' if is_closed else 'held'}: it replaces lost members only",
            "Submit to another queue" if is_closed else "Wait until an administrator opens the queue",
        )

    def _is_behind(self, gang: Gang) -> Objection | None:
        first = self._first.get(gang.queue)
        if first is None or first.id == gang.id:
            return None
        return Objection(
            Reason.BLOCKED_BY_QUEUE_HEAD,
            f"gang {first} is at the head of strict FIFO queue {gang.queue} and does not fit yet",
            f"Wait until {first} starts; see its verdict for the reason",
        )


def _is_hopeless(failure: Failure) -> bool:
    """Whether an earlier cycle has proven that this cluster could never hold it."""
    known = failure.remembered
    return known is not None and known.explained and known.verdict.reason.category is Category.IMPOSSIBLE
