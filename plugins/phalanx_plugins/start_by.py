"""Serves gangs whose `spec.startBy` is near before others of their queue and priority, the earliest first.

Near is from `leadSeconds` before that time on, and for as long as the gang waits: one that missed its time
keeps its place. Until then the time counts for nothing, so a far one gives nobody an advantage. It counts for
the first start only. In a queue that is a strict FIFO it moves nobody; where users take turns, it orders the
gangs of each user. A start that backfill has promised to somebody before stays promised.
"""

from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.plugin import NEVER, GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering


class StartByArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`lead_seconds`: so long before its time a gang begins to go ahead; an hour by default."""

    lead_seconds: Annotated[int, Meta(ge=0, le=10**9)] = 3600


class StartBy(Plugin):
    """Earliest deadline first, among deadlines that are near."""

    name = "start-by"
    Arguments = StartByArguments

    def __init__(self, arguments: StartByArguments) -> None:
        self._lead_ms = arguments.lead_seconds * 1000
        self._near = 0
        self._strict: frozenset[QueueName] = frozenset()

    def open(self, view: SessionView) -> None:
        """Which times are near now, and where they count."""
        self._near = view.now + self._lead_ms
        strict = [queue.name for queue in view.queues if queue.ordering is Ordering.STRICT_FIFO]
        self._strict = frozenset(strict)

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The earliest near deadline first."""
        deadline = gang.deadline
        if deadline is None or deadline > self._near or gang.queue in self._strict:
            return GangOrder(key=NEVER)
        return GangOrder(key=deadline)
