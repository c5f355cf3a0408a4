"""Lets a queue take back what it is due from queues that use more than they are due.

Two queues compare where their paths up the tree part. A gang that stays within the guarantee of its queue,
and of those above it up to there, may take whatever others use beyond their guarantees. One that stays within
the fair shares takes from queues above theirs, until they are not: the last gang that goes may bring a queue
below its fair share, never below its guarantee. So whoever lost a gang this way may not take it back, as that
would be more than its share again. Fair shares count of resources that are short: of which more is asked for
than there is, or than its limit or one above allows. Guarantees of flavors are kept on their nodes, and count
for gangs that can run nowhere else.
"""

from collections.abc import Iterator, Mapping

from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import Plugin
from phalanx.framework.queues.guarantees import apart, are_within
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, subtract


class Reclaim(Plugin):
    """Guarantees first, then weighted fair shares."""

    name = "reclaim"

    def __init__(self) -> None:
        self._asked_for: Beneficiary | None = None
        self._known: dict[QueueName, bool] = {}
        self._nobodys: Mapping[QueueName, Resources] = {}

    def may_evict(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> bool:
        """Whether the victim's queue has too much, and the beneficiary's would not."""
        self._turn_to(beneficiary, view)
        if victim.queue not in self._known:
            self._known[victim.queue] = _may_take_from(victim.queue, beneficiary, view, self._nobodys)
        return self._known[victim.queue]

    def explain_eviction(self, victim: Gang, beneficiary: Beneficiary, view: SessionView) -> str:
        """Of what its queue has too much."""
        mine = apart(beneficiary.gang.queue, victim.queue, view)
        due = "guarantee" if are_within(mine, beneficiary, view) else "fair share"
        return f"queue {victim.queue} uses more than its {due}"

    def queue_eviction_limits(
        self, beneficiary: Beneficiary, view: SessionView
    ) -> tuple[QueueEvictionLimit, ...]:
        """One for each queue beside the path of the beneficiary's."""
        path = {queue.name for queue in view.queues.path(beneficiary.gang.queue)}
        others = [queue for queue in view.queues if queue.name not in path]
        self._turn_to(beneficiary, view)
        return tuple(
            floor for queue in others for floor in _floors_of(queue, beneficiary, view, self._nobodys)
        )

    def _turn_to(self, beneficiary: Beneficiary, view: SessionView) -> None:
        """While one is looked at, nothing is booked: what was found for it holds for all its victims."""
        if beneficiary is not self._asked_for:
            self._asked_for, self._known = beneficiary, {}
            self._nobodys = view.held_usage()


def _may_take_from(
    queue: QueueName, beneficiary: Beneficiary, view: SessionView, nobodys: Mapping[QueueName, Resources]
) -> bool:
    gang = beneficiary.gang
    if not gang.may_preempt or queue == gang.queue:
        return False
    theirs = apart(queue, gang.queue, view)
    mine = apart(gang.queue, queue, view)
    if not theirs or not mine:
        return False
    if are_within(mine, beneficiary, view):
        return True
    return all(_is_within_fair_share(queue, beneficiary, view) for queue in mine) and all(
        _is_above_fair_share(queue, beneficiary, view, nobodys) for queue in theirs
    )


def _floors_of(
    queue: Queue, beneficiary: Beneficiary, view: SessionView, nobodys: Mapping[QueueName, Resources]
) -> Iterator[QueueEvictionLimit]:
    due = view.fair_shares.of(queue.name)
    evictable = _evictable(queue, view, nobodys)
    mine = apart(beneficiary.gang.queue, queue.name, view)
    if not are_within(mine, beneficiary, view):
        to_share = {
            name: amount - due.fair_share.get(name, 0) - 1
            for name, amount in evictable.items()
            if beneficiary.asked.get(name, 0) and view.fair_shares.is_scarce(name, queue.name)
        }
        above = {name: amount for name, amount in to_share.items() if amount >= 0}
        yield QueueEvictionLimit(queue.name, above, except_largest=True)
    yield QueueEvictionLimit(queue.name, _beyond(evictable, due.guarantee))
    for selector in view.ledger.guaranteed(queue.name):
        kept = view.fair_shares.of(queue.name, selector).guarantee
        used = view.ledger.usage(queue.name, selector)
        yield QueueEvictionLimit(queue.name, _beyond(used, kept), view.ledger.nodes_of(selector))


def _beyond(used: Resources, kept: Resources) -> dict[str, int]:
    return {name: max(0, used.get(name, 0) - amount) for name, amount in kept.items() if amount}


def _is_within_fair_share(queue: Queue, beneficiary: Beneficiary, view: SessionView) -> bool:
    due = view.fair_shares.of(queue.name).fair_share
    used = view.ledger.usage(queue.name)
    return all(
        used.get(name, 0) + amount <= due.get(name, 0)
        for name, amount in beneficiary.asked.items()
        if amount and view.fair_shares.is_scarce(name, queue.name)
    )


def _is_above_fair_share(
    queue: Queue, beneficiary: Beneficiary, view: SessionView, nobodys: Mapping[QueueName, Resources]
) -> bool:
    """Of something that the beneficiary asks for."""
    due = view.fair_shares.of(queue.name).fair_share
    used = _evictable(queue, view, nobodys)
    return any(
        used.get(name, 0) > due.get(name, 0)
        for name, amount in beneficiary.asked.items()
        if amount and view.fair_shares.is_scarce(name, queue.name)
    )


def _evictable(queue: Queue, view: SessionView, nobodys: Mapping[QueueName, Resources]) -> Resources:
    """What its pods use; room that is kept for pods cannot be taken by evicting others."""
    return subtract(view.ledger.usage(queue.name), nobodys.get(queue.name, NONE))
