"""Serves the oldest gang first among those of equal priority, within their queue.

Namespace and name decide between gangs that were created in the same second.
"""

from typing import Final

from phalanx.model.gangs import Gang


class Fifo:
    """Creation time in seconds, as the API has it."""

    name: Final = "fifo"

    def gang_key(self, gang: Gang) -> tuple[int, str, str]:
        """Smaller comes first."""
        return (gang.created, gang.namespace, gang.name)
