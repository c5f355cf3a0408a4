"""Prices the eviction of pods by whose they are: the further a queue is beyond its fair share, the cheaper.

So tenants give back in proportion to what they borrowed, and not whoever's work is cheapest each time. The
queue that is furthest beyond pays nothing more, others pay by how much smaller the part of their use is that
is beyond. Only what is short counts, as where a reclaim compares shares; all as the cycle began. Who is moved
is chosen by the same prices.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.pods import Pod

_WHOLE: Final = 1000


class SpreadEvictionsArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`most`: the price for a queue with nothing beyond its share, where another has nothing but that."""

    most: int = 500


class SpreadEvictions(Plugin):
    """Thousandths of `most`, per gang or member that goes alone."""

    name = "spread-evictions"
    Arguments = SpreadEvictionsArguments

    def __init__(self, arguments: SpreadEvictionsArguments) -> None:
        self._most = arguments.most
        self._prices: dict[QueueName, int] = {}

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The price of evicting something of the gang's queue."""
        if not self._prices:
            beyond = {queue.name: _beyond(queue.name, view) for queue in view.queues}
            furthest = max(beyond.values())
            self._prices = {name: self._most * (furthest - part) // _WHOLE for name, part in beyond.items()}
        return self._prices.get(gang.queue, 0)


def _beyond(queue: QueueName, view: SessionView) -> int:
    """Thousandths of what it uses that are beyond its share, of the resource of which most is."""
    share = view.fair_shares.of(queue)
    return max(
        (
            max(0, amount - share.fair_share.get(name, 0)) * _WHOLE // amount
            for name, amount in share.used.items()
            if amount > 0 and view.fair_shares.is_scarce(name, queue)
        ),
        default=0,
    )
