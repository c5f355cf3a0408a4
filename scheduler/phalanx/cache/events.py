"""Input events of the cache, and the changes that it returns for each of them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from phalanx.model.api.core import Pod
from phalanx.model.decisions import Bind
from phalanx.model.events import ApiEvent, Applied, Deleted, NotListed, Relisted
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import BindBackoff
from phalanx.model.records import GangRecord

__all__ = [
    "NOTHING",
    "Applied",
    "Assumed",
    "Awaited",
    "AwaitsDevices",
    "Changes",
    "Deleted",
    "Event",
    "Forgotten",
    "NotListed",
    "Recorded",
    "Relisted",
]


class Assumed(Struct, frozen=True):
    """The scheduler decided to bind this pod to this node. The decision counts until the API shows the node,
    or until Forgotten.

    `queue`: the queue that is charged; empty if unknown.
    """

    bind: Bind
    queue: str = ""


class Forgotten(Struct, frozen=True):
    """The bind of an assumed pod did not happen. The pod waits again, with a back-off if `hold` is given."""

    pod: PodUid
    bind_backoff: BindBackoff | None = None


class AwaitsDevices(Struct, frozen=True):
    """Whether the bind of an assumed pod waits until drivers have prepared devices of its gang."""

    pod: PodUid
    is_so: bool


class Recorded(Struct, frozen=True):
    """Records of gangs as they are stored outside of PodGroups; None for those that are stored no more."""

    records: Mapping[GangId, GangRecord | None]


class Awaited(Struct, frozen=True):
    """Pods that a controller will make: `pods` came or changed, and those with the keys `gone` are no longer
    awaited. See `model/awaited_pods.py`."""

    pods: tuple[Pod, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()


Event = ApiEvent | Assumed | Forgotten | AwaitsDevices | Recorded | Awaited


class Changes(Struct, frozen=True, gc=False):
    """What one event, or several, changed in the cache. It is empty if no decision can depend on the change.

    `capacity_grew`: more may fit than before, and the snapshot's `capacity_version` has grown.
    `cluster_changed`: more may fit the empty cluster than before, and `cluster_version` has grown too.
    `supplies_freed`: supplies of which gangs that use them may have more than before, and whose versions in
    the snapshot have grown.
    `may_unblock`: a waiting gang that could not be placed may be placeable now, so a cycle is worth running.
    `has_new_verdicts`: a cycle is worth running soon although no gang became placeable: the verdict of a
    waiting gang may change, a gang that has not started lost a bound member, or a gang lost its last pod.
    `workload_kinds`: kinds of the objects above new pods of ours, and of what decides where volumes are
    provisioned; they must be listed.
    """

    pods: tuple[PodUid, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    gangs: tuple[GangId, ...] = ()
    capacity_grew: bool = False
    cluster_changed: bool = False
    supplies_freed: tuple[str, ...] = ()
    may_unblock: bool = False
    has_new_verdicts: bool = False
    workload_kinds: tuple[str, ...] = ()


NOTHING = Changes()


class ChangeLog(Struct):
    """Collects changes, each one once, in the order of its first occurrence."""

    _pods: dict[PodUid, None] = {}
    _nodes: dict[NodeName, None] = {}
    _gangs: dict[GangId, None] = {}
    capacity_grew: bool = False
    cluster_changed: bool = False
    supplies_freed: dict[str, None] = {}
    supplies_changed: dict[str, None] = {}
    queues_changed: bool = False
    """Whether a queue was added, changed or removed, apart from its past usage."""
    _may_unblock: bool = False
    _has_new_verdicts: bool = False
    _workload_kinds: dict[str, None] = {}

    def pod(self, uid: PodUid) -> None:
        """This pod was added, changed or removed."""
        self._pods[uid] = None

    def node(self, name: NodeName) -> None:
        """This node, or its usage, changed."""
        self._nodes[name] = None

    def gang(self, id_: GangId) -> None:
        """Members or the spec of this gang changed."""
        self._gangs[id_] = None

    def gangs(self, ids: Iterable[GangId]) -> None:
        """Members or the spec of these gangs changed."""
        self._gangs.update(dict.fromkeys(ids))

    def workload_kinds(self, names: Iterable[str]) -> None:
        """Objects of these kinds must be listed: they are above new pods of ours, or decide about volumes."""
        self._workload_kinds.update(dict.fromkeys(names))

    def mark_may_unblock(self) -> None:
        """A gang that could not be placed before may be placeable now."""
        self._may_unblock = True

    def mark_new_verdicts(self) -> None:
        """The verdict of a gang may change, but the gang has not become placeable."""
        self._has_new_verdicts = True

    def mark_capacity_grew(self) -> None:
        """More may fit than before, for any gang."""
        self.capacity_grew = True
        self._may_unblock = True

    def mark_cluster_changed(self) -> None:
        """More may fit than before, even the empty cluster, or an objection to a gang may end."""
        self.cluster_changed = True
        self.mark_capacity_grew()

    def mark_supply_freed(self, name: str, *, do_gangs_wait: bool) -> None:
        """More of a supply may be free than before. `do_gangs_wait`: some gangs that use it do."""
        self.supplies_freed[name] = None
        self._may_unblock = self._may_unblock or do_gangs_wait

    def mark_supply_changed(self, name: str, *, do_gangs_wait: bool) -> None:
        """There may be more of a supply than before, even in the empty cluster."""
        self.supplies_changed[name] = None
        self.mark_supply_freed(name, do_gangs_wait=do_gangs_wait)

    def changes(self) -> Changes:
        if not (self._pods or self._nodes or self._gangs or self._may_unblock or self.supplies_freed):
            return NOTHING
        return Changes(
            pods=tuple(self._pods),
            nodes=tuple(self._nodes),
            gangs=tuple(self._gangs),
            capacity_grew=self.capacity_grew,
            cluster_changed=self.cluster_changed,
            supplies_freed=tuple(self.supplies_freed),
            may_unblock=self._may_unblock,
            has_new_verdicts=self._has_new_verdicts,
            workload_kinds=tuple(self._workload_kinds),
        )
