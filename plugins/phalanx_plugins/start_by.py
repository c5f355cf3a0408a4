"""Serves gangs whose `spec.startBy` is near before others of their queue and priority, the earliest first.

A deadline is near if fewer than `leadSeconds` are left, and stays near while the gang waits. Other deadlines
do not count, so a far deadline gives no advantage. The deadline applies to the first start only. In queues
with strict FIFO ordering it has no effect; in queues with fair users it orders the gangs of each user. It
does not change start times that backfill has reserved.
"""

from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.plugin import NEVER, GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering


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
        self._strict: frozenset[QueueName] = frozenset()

    def open(self, view: SessionView) -> None:
        """Compute the latest near deadline, and the queues in which deadlines do not count."""
        self._near = view.now + self._lead_ms
        strict = [queue.name for queue in view.queues if queue.ordering is Ordering.STRICT_FIFO]
        self._strict = frozenset(strict)

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The order by near deadline."""
        deadline = gang.deadline
        if deadline is None or deadline > self._near or gang.queue in self._strict:
            return GangOrder(key=NEVER)
        return GangOrder(key=deadline)
