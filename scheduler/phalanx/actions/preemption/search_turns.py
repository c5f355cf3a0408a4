"""Which gangs a cycle searches victims for, if they are more than it should.

A search that fails weighs all pods that may be evicted for its gang. A tenant with many gangs of which each
differs from the others would hold up all cycles by such searches, so the work of a cycle is bounded.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from phalanx.actions.outcome import Failure

PREEMPTORS_PER_CYCLE_MAX: Final = 16
"""Gangs for which one cycle evicts. The next cycle continues with the others."""

VICTIMS_WEIGHED_MAX: Final = 512
"""Victims that searches without result weigh in one cycle, about 0.15 ms each. The next cycle continues."""

VICTIMS_WEIGHED_LEAST: Final = 16
"""What a search counts at least: 32 searches in a cycle at most."""


class SearchTurns:
    """Yields the gangs of this cycle's turn; `left` are the others.

    Half of the work goes to the first gangs in their order, and half to those that wait longest for a search.
    Each half has at least one search.
    """

    def __init__(self, waiting: Iterable[Failure], *, since: Callable[[Failure], int]) -> None:
        """`since`: the time (ms) since which a gang waits for a search."""
        self.left = deque(waiting)
        self._since = since
        self._weighed = 0
        self._succeeded = 0

    def __iter__(self) -> Iterator[Failure]:
        for _ in range(2):
            until = self._weighed + VICTIMS_WEIGHED_MAX // 2
            while self.left and self._weighed < until and self._succeeded < PREEMPTORS_PER_CYCLE_MAX:
                yield self.left.popleft()
            self.left = deque(sorted(self.left, key=self._since))

    def succeeded(self) -> None:
        """The last search has found victims."""
        self._succeeded += 1
        self._weighed += VICTIMS_WEIGHED_LEAST

    def failed(self, victims: int) -> None:
        """The last search has found no victims among so many."""
        self._weighed += max(VICTIMS_WEIGHED_LEAST, victims)
