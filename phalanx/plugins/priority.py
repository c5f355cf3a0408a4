"""Serves gangs of higher priority first, within their queue.

A PodGroup's priority governs that of its pods. Surplus members of a gang go before the minimums of gangs of
lower priority, and after those of equal priority.
"""

from typing import Final

from phalanx.model.gangs import Gang


class Priority:
    """A larger number goes first."""

    name: Final = "priority"

    def gang_rank(self, gang: Gang) -> int:
        """Smaller comes first."""
        return -gang.priority
