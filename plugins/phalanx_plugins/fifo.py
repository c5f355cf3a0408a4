"""Serves the gang first that waits longest among those of equal priority, within their queue.

A gang waits since its minimum first existed without scheduling gates, and not since before its PodGroup or
its controller was created: objects that were created in advance are worth no place in the queue. Neither an
eviction nor a restart, a suspension or a new leader changes this time. Namespace and name decide between
gangs of the same second.
"""

from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang


class Fifo(Plugin):
    """The time in seconds, as the API has it."""

    name = "fifo"

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """The order by this time."""
        return GangOrder(key=(view.records.queued_since(gang), gang.namespace, gang.name))
