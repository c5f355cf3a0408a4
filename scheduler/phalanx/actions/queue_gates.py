"""Object to demands because of the ordering or the state of their queue.

In a strict FIFO queue only repairs are placed after a start that does not fit. A gang that was proven not to
fit this cluster at all blocks no other gang. A held or closed queue, and a gang that is held, gets nothing
but repairs; starts of gangs of which no member is recorded are refused before.
"""

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.outcome import Failure
from phalanx.framework.session import Session
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering, QueueState
from phalanx.model.reasons import Category, Objection, Reason


class QueueGates:
    """The gates of one cycle. A failure blocks later demands of its queue."""

    def __init__(self, session: Session) -> None:
        self._queues = session.queues
        self._heads: dict[QueueName, Gang] = {}

    def objection(self, demand: Demand) -> Objection | None:
        """The objection to trying the demand; None if there is none."""
        if demand.stage in (Stage.REPAIR, Stage.LAUNCH):
            return None
        return self._growth_objection(demand) or self._head_objection(demand.gang)

    def failed(self, failure: Failure) -> None:
        """Note that a demand failed."""
        gang = failure.demand.gang
        queue = self._queues.get(gang.queue)
        is_strict = queue is not None and queue.ordering is Ordering.STRICT_FIFO
        is_start = failure.demand.stage is Stage.START and failure.objection is None
        if is_strict and is_start and not _is_impossible(failure):
            self._heads.setdefault(gang.queue, gang)

    def _growth_objection(self, demand: Demand) -> Objection | None:
        gang = demand.gang
        if demand.stage is Stage.START and gang.held is not None:
            return gang.held
        queue = self._queues.not_open(gang.queue)
        if queue is None:
            return None
        is_closed = queue.state is QueueState.CLOSED
        return Objection(
            Reason.QUEUE_CLOSED if is_closed else Reason.QUEUE_HELD,
            f"queue {queue.name} is {'closed' if is_closed else 'held'}: it replaces lost members only",
            "Submit to another queue" if is_closed else "Wait until an administrator opens the queue",
        )

    def _head_objection(self, gang: Gang) -> Objection | None:
        head = self._heads.get(gang.queue)
        if head is None or head.id == gang.id:
            return None
        return Objection(
            Reason.BLOCKED_BY_QUEUE_HEAD,
            f"{named_parts.titled(f'gang {head}')} is at the head of strict FIFO queue {gang.queue} "
            "and does not fit yet",
            f"Wait until {named_parts.workload(head)} starts; see its verdict for the reason",
        )


def _is_impossible(failure: Failure) -> bool:
    """Whether an earlier cycle proved that it does not fit this cluster at all."""
    refusal = failure.remembered
    return (
        refusal is not None and refusal.explained and refusal.verdict.reason.category is Category.IMPOSSIBLE
    )
