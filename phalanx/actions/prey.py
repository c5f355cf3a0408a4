"""Which queues a gang might evict from: whoever found no victims looks again when there is another one.

Neither shares nor use of others are part of what a refusal rests on, as they change with each placement.
"""

from functools import cached_property

from phalanx.actions.demand import Demand
from phalanx.actions.make_room import beneficiary_of
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName, ShapeKey

_Key = tuple[QueueName, bool, tuple[tuple[str, int], ...], frozenset[ShapeKey]]


class Prey:
    """Answers for one session as it is when it is asked first; equal demands share an answer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[_Key, tuple[QueueName, ...]] = {}

    def of(self, demand: Demand) -> tuple[QueueName, ...]:
        """Other queues of which some gang may be evicted for this demand, by one gang of each, sorted."""
        gang = demand.gang
        others = [each for queue, each in self._holders.items() if queue != gang.queue]
        if not others:
            return ()
        beneficiary = beneficiary_of(demand)
        shapes = frozenset(batch.pods[0].shape.key for batch in demand.batches)
        key = (gang.queue, gang.may_preempt, tuple(sorted(beneficiary.asked.items())), shapes)
        if key not in self._known:
            rights = self._session.plugins.eviction_rights
            self._known[key] = tuple(
                each.queue
                for each in others
                if any(right.may_evict(each, beneficiary, self._session) for right in rights)
            )
        return self._known[key]

    @cached_property
    def _holders(self) -> dict[QueueName, Gang]:
        """Per queue the first gang that holds a node and may ever be evicted."""
        found: dict[QueueName, Gang] = {}
        for gang in self._session.gangs.values():
            if gang.queue not in found and gang.disruption.preemptible and gang.nodes:
                found[gang.queue] = gang
        return dict(sorted(found.items()))
