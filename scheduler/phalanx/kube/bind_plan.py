"""The plain functions of binding: what is checked, what is written first, what an answer means."""

from typing import Final, Protocol

import msgspec
from msgspec import Struct

from phalanx.kube.bind_outcomes import BindOutcome, BindRefused, Bound
from phalanx.kube.errors import ApiError
from phalanx.model.api.core import Pod
from phalanx.model.decisions import Bind, Placement

_encode: Final = msgspec.json.Encoder().encode


class PodGroupRef(Struct, frozen=True):
    """The PodGroup of a gang."""

    namespace: str
    name: str
    uid: str


class PlacementCheck(Protocol):
    """Whether a plan still holds against the newest state. Each says why not, in plain words, or None."""

    def gang(self, placement: Placement) -> str | None:
        """Asked right before the gang's first bind."""
        ...

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        """Asked right before each bind is sent."""
        ...


def placement_patch(placement: Placement, *, version: str, epoch: int) -> bytes:
    """Merge patch of a PodGroup's status: where the gang goes, and whose decision that is.

    The resourceVersion stands in for the UID: in patches of a custom resource's status a real API server does
    not look at that.
    """
    where = {"level": placement.level or None, "domain": placement.domain or None}
    whose = {"leader": epoch, "decision": f"cycle-{placement.cycle}"}
    return _encode(
        {"metadata": {"resourceVersion": version}, "status": {"placement": where, "placementEpoch": whose}}
    )


def judge(bind: Bind, found: Pod, refusal: ApiError | None) -> BindOutcome | None:
    """What the pod as read says about its bind; None when it may be sent. `refusal`: the bind's answer."""
    node = found.spec.node_name
    if found.metadata.uid != bind.pod:
        return BindRefused(bind, "Recreated", "the name belongs to another pod now", found)
    if node == bind.node:
        return Bound(bind)
    if node:
        return BindRefused(bind, "AlreadyBound", f"the pod is bound to node {node}", found)
    if found.metadata.deletion_timestamp is not None:
        return BindRefused(bind, "Deleting", "the pod is being deleted", found)
    if refusal is not None:
        return BindRefused(bind, refusal.reason, refusal.message, found)
    return None
