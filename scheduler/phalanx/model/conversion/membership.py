"""Which pods may belong together: the key under which a pod looks for its gang."""

from typing import NamedTuple

from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.gangs import GangKind
from phalanx.model.names import GangId
from phalanx.model.pods import Pod


class GangKey(NamedTuple):
    """All pods of one key are candidates for one gang.

    `name` is the PodGroup's name, the controller's UID for a label gang, or the UID of a pod that is alone.
    """

    kind: GangKind
    namespace: str
    name: str


def gang_key(pod: Pod) -> GangKey:
    """Where a pod looks for its gang: its PodGroup, else with `min-member` its controller, else itself."""
    if pod.group is not None:
        return GangKey(GangKind.POD_GROUP, pod.namespace, pod.group)
    if pod.min_member is not None and pod.controller is not None:
        return GangKey(GangKind.LABEL, pod.namespace, pod.controller.uid)
    return GangKey(GangKind.POD, pod.namespace, pod.uid)


def gang_id(key: GangKey, group: PodGroup | None) -> GangId:
    """The identity of the gang of a key: a PodGroup that was made again under the same name is a new gang."""
    if key.kind is GangKind.POD_GROUP:
        return GangId(group.uid if group is not None else f"missing:{key.namespace}/{key.name}")
    return GangId(f"{key.namespace}/{key.name}" if key.kind is GangKind.LABEL else key.name)


def is_member(pod: Pod, group: PodGroup) -> bool:
    """Whether a pod that names this PodGroup may join: the PodGroup's controller must own the pod as well.

    The UIDs of the pod's direct owners are compared. An owner of an owner cannot be seen without reading
    other kinds, so a PodGroup that belongs to the owner of the pods' owner (a JobSet's, say, whose Jobs own
    the pods) must be created without a controller.
    """
    return group.controller is None or group.controller.uid in pod.owners
