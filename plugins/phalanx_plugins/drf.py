"""Serves sibling queues below their guarantee first, then the one with the lowest weighted dominant share.

A gang that the guarantee of the sibling would cover after its start goes before a gang that it would not
(docs/guarantees.md): nobody can reclaim its capacity, and it may reclaim that of the other one. Guarantees
that do not fit count as they are scaled, then as they are written. Then a queue goes first that is below its
guarantee before the start.

A queue is below its guarantee while it uses less than the guarantee of every guaranteed resource that its
waiting gangs need, on all nodes or on those of a flavor. Such queues are served by the used fraction of their
guarantee.

The dominant share of another queue is the largest fraction, over all resources, of the capacity that the
queue and its descendants use above the guarantee, divided by the weight of the queue. The capacity is the
allocatable amount of our nodes without foreign pods. With `fairness.usageHalfLifeMinutes` in the
configuration, decayed past usage counts as well. Ghodsi et al., "Dominant Resource Fairness", NSDI 2011.
Fractions are exact, without floating point.
"""

from fractions import Fraction

from msgspec import Struct
from phalanx.framework.plugin import Beneficiary, Plugin
from phalanx.framework.queues.division import QueueShare
from phalanx.framework.queues.water_filling import dominant_share
from phalanx.framework.view import SessionView
from phalanx.model.queues import Queue, past_unit
from phalanx.model.resources import PODS, Resources, add


class DrfArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """By default the number of pods does not count, because it is never scarce."""

    ignored: tuple[str, ...] = (PODS,)
    """Resources that do not count in the dominant share of a queue."""


class DominantShare(Plugin):
    """Shares are computed from the ledger on demand, so that each placement counts at once."""

    name = "drf"
    Arguments = DrfArguments

    def __init__(self, arguments: DrfArguments) -> None:
        self._ignored = arguments.ignored
        self._totals: dict[str, int] = {}

    def open(self, view: SessionView) -> None:
        """Compute the capacity once per cycle."""
        self._totals = {
            name: amount
            for name, amount in view.fair_shares.capacity.items()
            if amount > 0 and name not in self._ignored
        }

    def start_order(self, queue: Queue, start: Beneficiary, view: SessionView) -> tuple[int, int]:
        """First starts that the guarantee of the queue would cover the furthest, as far as it exists."""
        coverage = view.guarantees.coverage_among_siblings
        return -coverage(start, queue.name, is_scaled=True), -coverage(start, queue.name)

    def queue_order(self, queue: Queue, view: SessionView) -> tuple[bool, Fraction]:
        """First queues below their guarantee, by its used fraction, then the others by weighted share."""
        part = _guaranteed_part(queue, view)
        if part is not None:
            return False, part
        guarantee = view.fair_shares.of(queue.name).guarantee
        above = _above(view.ledger.usage(queue.name), guarantee)
        if queue.name in view.past_usage:
            past = view.past_usage[queue.name].amounts
            above = add(_in_thousandths(above), _above(past, _in_thousandths(guarantee)))
            return True, dominant_share(above, _in_thousandths(self._totals)) / max(1, queue.weight)
        return True, dominant_share(above, self._totals) / max(1, queue.weight)


def _above(used: Resources, guarantee: Resources) -> Resources:
    return {name: max(0, amount - guarantee.get(name, 0)) for name, amount in used.items()}


def _in_thousandths(amounts: Resources) -> Resources:
    return {name: amount * past_unit(name) for name, amount in amounts.items()}


def _guaranteed_part(queue: Queue, view: SessionView) -> Fraction | None:
    """The smallest used fraction of a guarantee that the queue is below; None if it is below none."""
    parts = []
    for selector in (None, *view.ledger.guaranteed(queue.name)):
        share = view.fair_shares.of(queue.name, selector)
        used = view.ledger.usage(queue.name, selector)
        ratios = [Fraction(used.get(name, 0), share.rounded_down[name]) for name in _waited_for(share)]
        if ratios and max(ratios) < 1:
            parts.append(max(ratios))
    return min(parts, default=None)


def _waited_for(share: QueueShare) -> list[str]:
    """The guaranteed resources that waiting gangs of the queue need."""
    return [
        name
        for name, amount in share.rounded_down.items()
        if amount > 0 and share.demand.get(name, 0) > share.used.get(name, 0)
    ]
