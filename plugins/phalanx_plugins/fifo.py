"""Serves the oldest gang first among those of equal priority, within their queue.

Namespace and name decide between gangs that were created in the same second.
"""

from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class Fifo(Plugin):
    """Creation time in seconds, as the API has it."""

    name = "fifo"

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The order by creation time."""
        return GangOrder(key=(gang.created, gang.namespace, gang.name))
