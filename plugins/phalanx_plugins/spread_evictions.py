"""Adds the cost of an eviction by queue: less, the further the queue exceeds its fair share.

So tenants give back in proportion to what they borrowed. The queue that exceeds its share most adds no cost.
Other queues add a cost for the difference in the fraction of their usage that exceeds their share. Only
scarce resources count, as in reclaim, with the usage at the start of the cycle. The same costs choose the
gangs that are moved.
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
    """`most` is the cost for a queue within its share if all usage of another queue exceeds its share."""

    most: int = 500
    """The largest cost that protects queues within their fair share in comparison with queues beyond it. `0`
    disables it."""


class SpreadEvictions(Plugin):
    """The cost is per gang, or per member that is evicted alone."""

    name = "spread-evictions"
    Arguments = SpreadEvictionsArguments

    def __init__(self, arguments: SpreadEvictionsArguments) -> None:
        self._most = arguments.most
        self._costs: dict[QueueName, int] = {}

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The cost of an eviction in the gang's queue."""
        if not self._costs:
            beyond = {queue.name: _beyond(queue.name, view) for queue in view.queues}
            furthest = max(beyond.values())
            self._costs = {name: self._most * (furthest - part) // _WHOLE for name, part in beyond.items()}
        return self._costs.get(gang.queue, 0)


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
