"""What the cache is told, and what it says about each: its input events, and the changes that follow."""

from collections.abc import Iterable

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


class ChangeLog:
    """Each thing that changed once, in the order of its first change."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, None] = {}
        self._nodes: dict[NodeName, None] = {}
        self._gangs: dict[GangId, None] = {}
        self.capacity_grew = False
        self._may_help = False
        self._may_tell = False

    def pod(self, uid: PodUid) -> None:
        """This pod was added, changed or removed."""
        self._pods[uid] = None

    def node(self, name: NodeName) -> None:
        """This node, or what is used on it, changed."""
        self._nodes[name] = None

    def gangs(self, ids: Iterable[GangId]) -> None:
        """Members or terms of these gangs changed."""
        self._gangs.update(dict.fromkeys(ids))

    def helps(self) -> None:
        """A gang that could not be placed before may be placeable now."""
        self._may_help = True

    def tells(self) -> None:
        """The verdict on a gang may be another now; it cannot be placed any better than before."""
        self._may_tell = True

    def grew(self) -> None:
        """More fits now than before, whoever it is that fits."""
        self.capacity_grew = True
        self._may_help = True

    def changes(self) -> Changes:
        """All of it, frozen."""
        if not (self._pods or self._nodes or self._gangs or self._may_help):
            return NOTHING
        return Changes(
            pods=tuple(self._pods),
            nodes=tuple(self._nodes),
            gangs=tuple(self._gangs),
            capacity_grew=self.capacity_grew,
            may_unblock=self._may_help,
            has_new_verdicts=self._may_tell,
        )
