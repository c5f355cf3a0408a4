"""Reclaims guarantees and fair shares from queues that use more than theirs.

Two queues are compared below their lowest common ancestor. A gang within the guarantees of its queue and of
the ancestors below the common one may evict what other queues use beyond their guarantees. A gang within the
fair shares may evict from queues above their fair shares until they are not above any more: the last victim
may bring a queue below its fair share, but never below its guarantee. The queue that lost a gang cannot evict
in turn, since it would exceed its share. Fair shares count for scarce resources only: those for which the
demand exceeds the capacity, or a limit of the queue or its ancestors. Guarantees of flavors apply on their
nodes, and to gangs that can run on no other nodes.
"""

from collections.abc import Iterator, Mapping

from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import Plugin
from phalanx.framework.queues.guarantees import are_within_guarantees, below_common_ancestor
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, subtract


class Reclaim(Plugin):
    """Guarantees first, then weighted fair shares."""

    name = "reclaim"

    def __init__(self) -> None:
        self._beneficiary: Beneficiary | None = None
        self._known: dict[QueueName, bool] = {}
        self._held: Mapping[QueueName, Resources] = {}

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
        """Whether the queue of the victim exceeds its share and that of the beneficiary would not."""
        self._remember(beneficiary, view)
        if victim.queue not in self._known:
            self._known[victim.queue] = _may_take_from(victim.queue, beneficiary, view, self._held)
        return self._known[victim.queue]

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> str:
        """The reason: the queue of the victim exceeds its guarantee or its fair share."""
        mine = below_common_ancestor(beneficiary.gang.queue, victim.queue, view)
        exceeded = "guarantee" if are_within_guarantees(mine, beneficiary, view) else "fair share"
        return f"queue {victim.queue} uses more than its {exceeded}"

    def queue_eviction_limits(
        self, beneficiary: Beneficiary, view: SessionView
    ) -> tuple[QueueEvictionLimit, ...]:
        """Limits for each queue that is not on the path of the beneficiary's queue to the root."""
        path = {queue.name for queue in view.queues.path(beneficiary.gang.queue)}
        others = [queue for queue in view.queues if queue.name not in path]
        self._remember(beneficiary, view)
        return tuple(limit for queue in others for limit in _limits_of(queue, beneficiary, view, self._held))

    def _remember(self, beneficiary: Beneficiary, view: SessionView) -> None:
        """Forget answers about another beneficiary. Usage does not change while victims are chosen."""
        if beneficiary is not self._beneficiary:
            self._beneficiary, self._known = beneficiary, {}
            self._held = view.held_usage()


def _may_take_from(
    queue: QueueName, beneficiary: Beneficiary, view: SessionView, held: Mapping[QueueName, Resources]
) -> bool:
    gang = beneficiary.gang
    if not gang.may_preempt or queue == gang.queue:
        return False
    theirs = below_common_ancestor(queue, gang.queue, view)
    mine = below_common_ancestor(gang.queue, queue, view)
    if not theirs or not mine:
        return False
    if are_within_guarantees(mine, beneficiary, view):
        return True
    return all(_is_within_fair_share(queue, beneficiary, view) for queue in mine) and all(
        _is_above_fair_share(queue, beneficiary, view, held) for queue in theirs
    )


def _limits_of(
    queue: Queue, beneficiary: Beneficiary, view: SessionView, held: Mapping[QueueName, Resources]
) -> Iterator[QueueEvictionLimit]:
    share = view.fair_shares.of(queue.name)
    evictable = _evictable(queue, view, held)
    mine = below_common_ancestor(beneficiary.gang.queue, queue.name, view)
    if not are_within_guarantees(mine, beneficiary, view):
        to_share = {
            name: amount - share.fair_share.get(name, 0) - 1
            for name, amount in evictable.items()
            if beneficiary.requested.get(name, 0) and view.fair_shares.is_scarce(name, queue.name)
        }
        above = {name: amount for name, amount in to_share.items() if amount >= 0}
        yield QueueEvictionLimit(queue.name, above, except_largest=True)
    yield QueueEvictionLimit(queue.name, _beyond(evictable, share.guarantee))
    for selector in view.ledger.guaranteed(queue.name):
        guarantee = view.fair_shares.of(queue.name, selector).guarantee
        used = view.ledger.usage(queue.name, selector)
        yield QueueEvictionLimit(queue.name, _beyond(used, guarantee), view.ledger.nodes_of(selector))


def _beyond(used: Resources, guarantee: Resources) -> dict[str, int]:
    return {name: max(0, used.get(name, 0) - amount) for name, amount in guarantee.items() if amount}


def _is_within_fair_share(queue: Queue, beneficiary: Beneficiary, view: SessionView) -> bool:
    share = view.fair_shares.of(queue.name).fair_share
    used = view.ledger.usage(queue.name)
    return all(
        used.get(name, 0) + amount <= share.get(name, 0)
        for name, amount in beneficiary.requested.items()
        if amount and view.fair_shares.is_scarce(name, queue.name)
    )


def _is_above_fair_share(
    queue: Queue, beneficiary: Beneficiary, view: SessionView, held: Mapping[QueueName, Resources]
) -> bool:
    """Whether the queue exceeds its fair share of some resource that the beneficiary requests."""
    share = view.fair_shares.of(queue.name).fair_share
    used = _evictable(queue, view, held)
    return any(
        used.get(name, 0) > share.get(name, 0)
        for name, amount in beneficiary.requested.items()
        if amount and view.fair_shares.is_scarce(name, queue.name)
    )


def _evictable(queue: Queue, view: SessionView, held: Mapping[QueueName, Resources]) -> Resources:
    """The usage of its pods; capacity that is held for pods cannot be freed by evictions."""
    return subtract(view.ledger.usage(queue.name), held.get(queue.name, NONE))
