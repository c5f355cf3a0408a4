"""Reclaims borrowed capacity from other queues: by guarantees first, then by weighted fair shares.

Two queues are compared below their lowest common ancestor. A gang may evict gangs that guarantees cover less
than it: whole gangs on borrowed capacity. A gang without coverage may evict others without coverage if that
brings the queues nearer to their fair shares. Either it stays within the shares of its queues; then the last
victim may bring a queue below its share. Or it crosses the share of its queue; then every other queue keeps
its share. Shares count for short resources only: the demand exceeds the capacity, or a limit of a common
ancestor. docs/guarantees.md has the rules with examples.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import EvictionPolicy, Plugin
from phalanx.framework.queues.guarantees import Coverage, Sides, below_common_ancestor
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import PodUid, QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, subtract

_ANY_COVERAGE: Final = Coverage.FULL + 1


class _Right(Struct, frozen=True):
    """What the beneficiary may take from one other queue."""

    requested: Resources
    sides: Sides
    coverage: Coverage
    is_within_share: bool = False
    """Whether its queues are within their fair shares after its start."""
    may_cross_share: bool = False
    """Whether its queues are below their fair shares before its start."""
    spare: Resources = NONE
    """What the other queue may lose if it must keep its fair share."""

    @property
    def takes_below(self) -> int:
        """Pods with less coverage may be evicted. For a fair share queues keep amounts, not certain pods."""
        return _ANY_COVERAGE if self.is_within_share or self.may_cross_share else self.coverage


class Reclaim(Plugin):
    """Guarantees first, then weighted fair shares."""

    name = "reclaim"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        """The rights of guarantees and shares."""
        return _Rights(view)


class _Rights(EvictionPolicy):
    def __init__(self, view: SessionView) -> None:
        super().__init__(view)
        self._beneficiary: Beneficiary | None = None
        self._rights: dict[QueueName, _Right | None] = {}
        self._coverages: dict[tuple[QueueName, frozenset[str]], Coverage] = {}
        """The coverage of the beneficiary, by its side and the short resources."""
        self._held: Mapping[QueueName, Resources] = {}

    def reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        """That the queue of the victim exceeds its guarantee or its fair share.

        Pods of the victim must be covered less than the beneficiary, or a fair share must allow it.
        """
        right = self._right(victim.queue, beneficiary)
        if right is None or not right.takes_below:
            return None
        sides, guarantees = right.sides, self.view.guarantees
        parts = guarantees.usage_covered_less(victim, sides.theirs, sides.short, right.takes_below)
        if not any(all(part.get(name, 0) <= most for name, most in right.spare.items()) for part in parts):
            return None
        return f"queue {victim.queue} uses more than its {'guarantee' if right.coverage else 'fair share'}"

    def protected_pods(self, victim: Gang, beneficiary: Beneficiary) -> frozenset[PodUid]:
        """Pods of a gang of another queue that are covered as far as the beneficiary."""
        right = self._right(victim.queue, beneficiary)
        if right is None or not right.takes_below:
            return frozenset()
        sides = right.sides
        return self.view.guarantees.covered_pods(victim, sides.theirs, sides.short, right.takes_below)

    def queue_limits(self, beneficiary: Beneficiary) -> tuple[QueueEvictionLimit, ...]:
        """Limits for each queue that is not on the path of the beneficiary's queue to the root."""
        path = {queue.name for queue in self.view.queues.path(beneficiary.gang.queue)}
        found: list[QueueEvictionLimit] = []
        for queue in self.view.queues:
            right = self._right(queue.name, beneficiary) if queue.name not in path else None
            if right is not None:
                found += _limits_of(queue, right, self.view, self._held)
        return tuple(found)

    def least(self, beneficiary: Beneficiary) -> Resources:
        """What a gang takes beyond the fair shares of its own queues must come from its victims.

        Otherwise a gang of high priority would use capacity that another queue may take back at once. From a
        gang with coverage no other queue takes by a fair share.
        """
        least = {
            name: min(amount, beyond)
            for name, amount in beneficiary.requested.items()
            if (beyond := _beyond_own_shares(name, beneficiary, self.view)) > 0
        }
        return NONE if least and _is_covered(beneficiary, self.view) else least

    def _right(self, queue: QueueName, beneficiary: Beneficiary) -> _Right | None:
        """The right against this queue; None if there is none. Usage does not change in one search."""
        if beneficiary is not self._beneficiary:
            self._beneficiary, self._rights, self._coverages = beneficiary, {}, {}
            self._held = self.view.held_usage()
        if queue not in self._rights:
            gang = beneficiary.gang
            is_other = gang.may_preempt and queue != gang.queue
            sides = self.view.guarantees.sides(beneficiary, queue) if is_other else None
            right = None if sides is None else self._right_against(queue, sides, beneficiary)
            self._rights[queue] = right
        return self._rights[queue]

    def _right_against(self, queue: QueueName, sides: Sides, beneficiary: Beneficiary) -> _Right:
        known = (sides.mine, sides.short)
        if known not in self._coverages:
            self._coverages[known] = _coverage(beneficiary, sides, self.view)
        right = _Right(beneficiary.requested, sides, self._coverages[known])
        return right if right.coverage else _with_share(right, queue, beneficiary, self.view, self._held)


def _with_share(
    right: _Right,
    queue: QueueName,
    beneficiary: Beneficiary,
    view: SessionView,
    held: Mapping[QueueName, Resources],
) -> _Right:
    """The right of a gang without coverage, as far as fair shares allow it."""
    if beneficiary.is_surplus:
        return right
    theirs = below_common_ancestor(queue, beneficiary.gang.queue, view)
    if not all(_exceeds_share(each, right, view, held) for each in theirs):
        return right
    mine = below_common_ancestor(beneficiary.gang.queue, queue, view)
    if all(_stays_within_share(each, right, view) for each in mine):
        return replace(right, is_within_share=True)
    if not all(_is_below_share(each, right, view) for each in mine):
        return right
    beyond = _beyond_share(theirs[0], right, view, held)
    return replace(right, may_cross_share=True, spare={name: max(0, beyond[name]) for name in beyond})


def _coverage(beneficiary: Beneficiary, sides: Sides, view: SessionView) -> Coverage:
    """The coverage of the gang. In part it counts only within the fair shares of what is not covered.

    Otherwise a gang that is evicted in its own queue, for one that no guarantee covers, would take as much
    from other queues as that one uses beyond the shares.
    """
    coverage = view.guarantees.coverage_after_start(beneficiary, sides.mine, sides.short)
    if coverage is not Coverage.PARTIAL:
        return coverage
    requested = beneficiary.requested
    others = sides.short - view.guarantees.covered_after_start(beneficiary, sides.mine)
    for queue in view.queues.path(beneficiary.gang.queue):
        if any(_above_share(queue, name, view) + requested[name] > 0 for name in others):
            return Coverage.NONE
        if queue.name == sides.mine:
            break
    return coverage


def _is_covered(beneficiary: Beneficiary, view: SessionView) -> bool:
    """Whether a guarantee of some queue on its path covers it, compared with the siblings of that queue."""
    sides = (
        _sides_among_siblings(queue, beneficiary, view) for queue in view.queues.path(beneficiary.gang.queue)
    )
    return any(each is not None and _coverage(beneficiary, each, view) for each in sides)


def _sides_among_siblings(queue: Queue, beneficiary: Beneficiary, view: SessionView) -> Sides | None:
    """The queue of its path and a sibling; None without one. Against all siblings the same is short."""
    others = (each.name for each in view.queues.siblings(queue.name) if each.name != queue.name)
    sibling = next(others, None)
    return view.guarantees.sides(beneficiary, sibling) if sibling is not None else None


def _short(right: _Right, queue: Queue, view: SessionView) -> list[str]:
    """The requested resources for which shares of this queue count."""
    is_scarce = view.fair_shares.is_scarce
    return [
        name
        for name, amount in sorted(right.requested.items())
        if amount and (name in right.sides.short or is_scarce(name, queue.name))
    ]


def _stays_within_share(queue: Queue, right: _Right, view: SessionView) -> bool:
    return all(
        _above_share(queue, name, view) + right.requested[name] <= 0 for name in _short(right, queue, view)
    )


def _is_below_share(queue: Queue, right: _Right, view: SessionView) -> bool:
    return all(_above_share(queue, name, view) < 0 for name in _short(right, queue, view))


def _above_share(queue: Queue, name: str, view: SessionView) -> int:
    """By how much the usage of the queue exceeds its fair share of a resource; negative below it."""
    share, used = view.fair_shares.of(queue.name).fair_share, view.ledger.usage(queue.name)
    return used.get(name, 0) - share.get(name, 0)


def _beyond_share(
    queue: Queue, right: _Right, view: SessionView, held: Mapping[QueueName, Resources]
) -> dict[str, int]:
    """By how much the queue exceeds its fair share of resources that count; negative below it.

    If it exceeds its share of a short resource, those do not count that only its limits make scarce: a limit
    of cores that nobody lacks does not keep devices beyond their share.
    """
    share, used = view.fair_shares.of(queue.name).fair_share, _evictable(queue, view, held)
    beyond = {name: used.get(name, 0) - share.get(name, 0) for name in _short(right, queue, view)}
    short = {name: amount for name, amount in beyond.items() if name in right.sides.short}
    return short if any(amount > 0 for amount in short.values()) else beyond


def _exceeds_share(
    queue: Queue, right: _Right, view: SessionView, held: Mapping[QueueName, Resources]
) -> bool:
    return any(amount > 0 for amount in _beyond_share(queue, right, view, held).values())


def _beyond_own_shares(name: str, beneficiary: Beneficiary, view: SessionView) -> int:
    """By how much its start brings a queue of its path above a fair share that others lack; at least 0."""
    beyond = 0
    path = view.queues.path(beneficiary.gang.queue)
    for queue in path if beneficiary.requested[name] else ():
        more = _above_share(queue, name, view) + beneficiary.requested[name]
        if more > beyond and _lacks_share_beside(queue, name, beneficiary, view):
            beyond = more
    return beyond


def _lacks_share_beside(queue: Queue, name: str, beneficiary: Beneficiary, view: SessionView) -> bool:
    """Whether a sibling uses less than its fair share of a short resource."""
    sides = _sides_among_siblings(queue, beneficiary, view)
    return (
        sides is not None
        and name in sides.short
        and any(
            _above_share(other, name, view) < 0
            for other in view.queues.siblings(queue.name)
            if other.name != queue.name
        )
    )


def _limits_of(
    queue: Queue, right: _Right, view: SessionView, held: Mapping[QueueName, Resources]
) -> Iterator[QueueEvictionLimit]:
    """What the queue may lose: by a guarantee, whole gangs that are not covered, and preferably no more than
    it uses beyond its own guarantee; by a fair share, what exceeds its own share and what it keeps."""
    if right.coverage:
        yield from _preferred_limits(queue, right, view, held)
        return
    beyond = _beyond_share(queue, right, view, held)
    if right.is_within_share:
        above = {name: amount - 1 for name, amount in beyond.items() if amount > 0}
        yield QueueEvictionLimit(queue.name, above, except_largest=True)
    else:
        yield QueueEvictionLimit(queue.name, {name: max(0, beyond[name]) for name in beyond})
    counts = right.sides.short.union(_short(right, queue, view))
    for kept in view.guarantees.kept_usage(queue.name, counts):
        yield QueueEvictionLimit(queue.name, kept.spare, kept.nodes, priority=kept.priority)


def _preferred_limits(
    queue: Queue, right: _Right, view: SessionView, held: Mapping[QueueName, Resources]
) -> Iterator[QueueEvictionLimit]:
    """What the queue uses beyond its guarantees."""
    for selector in (None, *view.ledger.guaranteed(queue.name)):
        guarantee = view.fair_shares.of(queue.name, selector).guarantee
        if selector is None:
            used, nodes = _evictable(queue, view, held), None
        else:
            used, nodes = view.ledger.usage(queue.name, selector), view.ledger.nodes_of(selector)
        beyond = {
            name: max(0, used.get(name, 0) - amount)
            for name, amount in guarantee.items()
            if amount and name in right.requested
        }
        yield QueueEvictionLimit(queue.name, beyond, nodes, is_hard=False)


def _evictable(queue: Queue, view: SessionView, held: Mapping[QueueName, Resources]) -> Resources:
    """The usage of its pods; capacity that is held for pods cannot be freed by evictions."""
    return subtract(view.ledger.usage(queue.name), held.get(queue.name, NONE))
