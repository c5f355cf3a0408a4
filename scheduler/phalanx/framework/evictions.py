"""What plugins and actions tell each other about evicting one gang for another."""

from msgspec import Struct

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources


class Beneficiary(Struct, frozen=True):
    """For whom room would be made, what it asks for in all, and one pod of each kind for which it does."""

    gang: Gang
    asked: Resources
    kinds: tuple[Pod, ...] = ()


class QueueEvictionLimit(Struct, frozen=True):
    """Of this queue and its descendants at most `room` is evicted. `nodes` None means wherever it is.

    A resource that is absent has no floor. `except_largest`: of each resource, the gang that loses most of
    it is
    not counted.
    """

    queue: QueueName
    room: Resources
    nodes: frozenset[NodeName] | None = None
    except_largest: bool = False


class PodEvictionLimit(Struct, frozen=True):
    """Of these pods at most `most` are evicted, over all for whom room is made. `name`: who says so.

    One that is not firm gives way where nobody else makes room, by as few pods as can be. `grows_at`: when
    more may go (ms) though nothing changes, None for never.
    """

    name: str
    pods: frozenset[PodUid]
    most: int
    firm: bool = True
    grows_at: int | None = None
