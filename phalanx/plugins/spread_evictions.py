"""Prices the eviction of pods by whose they are: the further a queue is beyond its fair share, the cheaper.

So tenants give back in proportion to what they borrowed, and not whoever's work is cheapest each time. The
queue that is furthest beyond pays nothing more, others pay by how much smaller the part of their use is that
is beyond. Only what is short counts, as where a reclaim compares shares.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from phalanx.framework.fair_shares import IGNORED
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.pods import Pod

_WHOLE: Final = 1000


class SpreadEvictionsArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`most`: the price for a queue with nothing beyond its share, where another has nothing but that."""

    most: int = 500


class SpreadEvictions:
    """Thousandths of `most`, per gang or member that goes alone."""

    name: Final = "spread-evictions"
    Arguments = SpreadEvictionsArguments

    def __init__(self, arguments: SpreadEvictionsArguments) -> None:
        self._most = arguments.most
        self._beyond: dict[QueueName, int] = {}

    def eviction_price(self, gang: Gang, pods: Sequence[Pod], session: Session) -> int:
        """The price of evicting something of the gang's queue."""
        if not self._beyond:
            self._beyond = {queue.name: _beyond(queue.name, session) for queue in session.queues}
        furthest = max(self._beyond.values())
        return self._most * (furthest - self._beyond.get(gang.queue, furthest)) // _WHOLE


def _beyond(queue: QueueName, session: Session) -> int:
    """Thousandths of what it uses that are beyond its share, of the resource of which most is."""
    due = session.fair_shares.of(queue).fair_share
    return max(
        (
            max(0, amount - due.get(name, 0)) * _WHOLE // amount
            for name, amount in session.ledger.usage(queue).items()
            if amount > 0 and name not in IGNORED and session.fair_shares.is_short(name, queue)
        ),
        default=0,
    )
