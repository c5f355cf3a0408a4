"""The change log of one event, or of several, while it is being written."""

from collections.abc import Iterable

from phalanx.cache.events import NOTHING, Changes
from phalanx.model.names import GangId, NodeName, PodUid


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
