"""What plugins and actions tell each other about evicting one gang for another."""

from msgspec import Struct

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import Resources


class Beneficiary(Struct, frozen=True):
    """For whom room would be made, and what it asks for in all."""

    gang: Gang
    asked: Resources


class EvictionFloor(Struct, frozen=True):
    """Of this queue and its descendants at most `room` is evicted. `nodes` None means wherever it is.

    A resource that is absent has no floor.
    """

    queue: QueueName
    room: Resources
    nodes: frozenset[NodeName] | None = None
