"""Serves the sibling queue with the lowest weighted dominant share first.

A queue's dominant share is the largest fraction, over all resources, of what our nodes can allocate, less
what foreign pods hold, that the queue and its descendants use; it is divided by the queue's weight. Ghodsi
et al., "Dominant Resource Fairness", NSDI 2011. Fractions are exact: no floating point decides who is next.
"""

from fractions import Fraction
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.model.queues import Queue
from phalanx.model.resources import PODS


class DrfArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """`ignored`: resources that do not count; by default the number of pods, which nobody runs short of."""

    ignored: tuple[str, ...] = (PODS,)


class DominantShare:
    """Shares are computed when asked for, from the ledger, so that each placement counts at once."""

    name: Final = "drf"
    Arguments = DrfArguments

    def __init__(self, arguments: DrfArguments) -> None:
        self._ignored = arguments.ignored
        self._totals: dict[str, int] = {}

    def open(self, session: Session) -> None:
        """Count once what there is."""
        self._totals = {
            name: amount
            for name, amount in session.fair_shares.capacity.items()
            if amount > 0 and name not in self._ignored
        }

    def queue_key(self, queue: Queue, session: Session) -> Fraction:
        """The weighted dominant share.

        Only what the queue uses is looked at: nodes may offer thousands of resources that nobody asks for.
        """
        most, of = 0, 1
        for name, amount in session.ledger.usage(queue.name).items():
            total = self._totals.get(name, 0)
            if total and amount * of > most * total:
                most, of = amount, total
        return Fraction(most, of * max(1, queue.weight))
