"""What the cache is told, and what it says about each: its input events, and the changes that follow."""

from msgspec import Struct

from phalanx.model.events import Applied, Deleted, Relisted
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import BindBackoff, Device

__all__ = ["NOTHING", "Applied", "Assumed", "Changes", "Deleted", "Event", "Forgotten", "Relisted"]


class Assumed(Struct, frozen=True):
    """We decided that this pod goes to this node; until the API says so, or Forgotten, it counts as there.

    `device`: where on the node its share of a GPU is.
    """

    pod: PodUid
    node: NodeName
    device: Device | None = None


class Forgotten(Struct, frozen=True):
    """The bind of an assumed pod certainly did not happen: the pod waits again, held if a `hold` is given."""

    pod: PodUid
    bind_backoff: BindBackoff | None = None


Event = Applied | Deleted | Relisted | Assumed | Forgotten


class Changes(Struct, frozen=True, gc=False):
    """What one event, or several, changed in the cache; empty when nothing changed that a decision can see.

    `capacity_grew`: something now lets more fit than before (the snapshot's `capacity_version` has grown).
    `may_unblock`: a waiting gang may be placeable now that was not before, so a cycle is worth running.
    `has_new_verdicts`: there is something new to say of a gang that waits, even if none is placeable since.
    """

    pods: tuple[PodUid, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    gangs: tuple[GangId, ...] = ()
    capacity_grew: bool = False
    may_unblock: bool = False
    has_new_verdicts: bool = False


NOTHING = Changes()
