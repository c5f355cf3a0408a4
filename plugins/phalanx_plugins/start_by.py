"""Serves gangs whose `spec.startBy` is near before others of their queue and priority, the earliest first.

It does so in queues with `allowStartBy` only, since everybody who creates a PodGroup may name a time. A
deadline is near if fewer than `leadSeconds` are left. Other deadlines do not count: a far one gives no
advantage, nor does one that has passed: nobody can keep it any more. The deadline applies to the first start
only. In queues with strict FIFO ordering it has no effect; in queues with fair users it orders the gangs of
each user. It does not change start times that backfill has reserved.
"""

from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.plugin import NEVER, GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering, allows_start_by


class StartByArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the configuration file may set."""

    lead_seconds: Annotated[int, Meta(ge=0, le=10**9)] = 3600
    """A gang with `spec.startBy` goes ahead of its equals from this time before its deadline."""


class StartBy(Plugin):
    """Earliest deadline first (EDF) among near deadlines."""

    name = "start-by"
    Arguments = StartByArguments

    def __init__(self, arguments: StartByArguments) -> None:
        self._lead_ms = arguments.lead_seconds * 1000
        self._near = 0
        self._counts: frozenset[QueueName] = frozenset()

    def open(self, view: SessionView) -> None:
        """Compute the latest near deadline, and the queues in which deadlines count."""
        self._near = view.now + self._lead_ms
        self._counts = frozenset(
            queue.name
            for queue in view.queues
            if queue.ordering is not Ordering.STRICT_FIFO and allows_start_by(view.queues.path(queue.name))
        )

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The order by near deadline."""
        deadline = gang.deadline
        if deadline is None or gang.queue not in self._counts or not view.now < deadline <= self._near:
            return GangOrder(key=NEVER)
        return GangOrder(key=deadline)
