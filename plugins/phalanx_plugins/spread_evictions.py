"""Evicts from the queues first that exceed their fair share furthest.

So tenants give back what they borrowed. Queues compare by the part of their usage that exceeds their share,
of the resource of which that part is the largest, in thousandths. Queues within their share are equal, and
last. Only scarce resources count, as in reclaim, with the usage at the start of the cycle.
"""

from typing import Final

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName

_WHOLE: Final = 1000


class SpreadEvictions(Plugin):
    """The rank depends on the queue of the gang only."""

    name = "spread-evictions"

    def __init__(self) -> None:
        self._ranks: dict[QueueName, int] = {}

    def eviction_rank(self, gang: Gang, view: SessionView) -> int:
        """The part of its queue's usage that does not exceed the share."""
        if gang.queue not in self._ranks:
            self._ranks[gang.queue] = _WHOLE - _beyond(gang.queue, view)
        return self._ranks[gang.queue]


def _beyond(queue: QueueName, view: SessionView) -> int:
    """The largest fraction of its usage of a resource that exceeds its share, in thousandths."""
    share = view.fair_shares.of(queue)
    return max(
        (
            max(0, amount - share.fair_share.get(name, 0)) * _WHOLE // amount
            for name, amount in share.used.items()
            if amount > 0 and view.fair_shares.is_scarce(name, queue)
        ),
        default=0,
    )
