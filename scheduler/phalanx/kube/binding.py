"""The pure part of binding: outcomes, the checks before a bind, the patch of a placement.

Exactly one outcome is reported for every bind that the binder accepted.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from phalanx.kube.errors import ApiError
from phalanx.model.api.core import Pod
from phalanx.model.conversion.records import written_record
from phalanx.model.decisions import Bind, Placement
from phalanx.model.named_parts import plain
from phalanx.model.names import PodUid
from phalanx.model.records import GangRecord
from phalanx.model.supplies.devices.api import ResourceClaim
from phalanx.model.supplies.devices.claims import AwaitedClaim
from phalanx.model.supplies.volumes.published import UnboundClaim

_encode: Final = msgspec.json.Encoder().encode


class Bound(Struct, frozen=True):
    """The API server confirms that the pod is bound to the decided node."""

    bind: Bind


class BindRefused(Struct, frozen=True):
    """The pod is certainly not bound by this scheduler."""

    bind: Bind
    reason: str
    """The reason of the API (Conflict, Forbidden, ...), or AlreadyBound, Recreated, Deleting, GaveUp."""
    message: str
    pod: Pod | None = None
    """The pod as read after the refusal, where it was read."""


class BindAborted(Struct, frozen=True):
    """The bind was never sent or certainly not applied, and is not retried.

    The placement is no longer valid, or the scheduler stops.
    """

    bind: Bind
    reason: str
    is_withdrawn: bool = False
    """Whether a cycle has ended the placement: nothing failed."""


class LeadershipLost(Struct, frozen=True):
    """Leadership ended before the bind was sent, or the scheduler stopped before its outcome was known."""

    bind: Bind
    sent: bool
    """Whether a request was sent: the bind may have been applied, or may still be."""


BindOutcome = Bound | BindRefused | BindAborted | LeadershipLost


PROVISIONING_FAILED: Final = "ProvisioningFailed"
"""The reason of BindRefused if a volume of the pod was not provisioned for its node."""


class PodGroupRef(Struct, frozen=True):
    """The PodGroup object of a gang."""

    namespace: str
    name: str
    uid: str


class PlacementCheck(Protocol):
    """Compares a placement with the newest state. Each method returns an objection as text, or None."""

    def gang(self, placement: Placement) -> str | None:
        """Check the whole placement, right before the first bind of the gang.

        That devices are not ready yet is no objection.
        """
        ...

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        """Check one bind, right before it is sent."""
        ...


Resume = Callable[[Exception | None], None]
"""Called when a record is stored, or with the error for which it is not."""

WhenRecorded = Callable[[Placement, Resume], None]


class BinderCallbacks(Struct, frozen=True):
    """What the binder needs of the rest of the scheduler."""

    check: PlacementCheck
    on_outcome: Callable[[Placement, BindOutcome], None]
    try_acquire: Callable[[PodUid], bool] = lambda _: True
    """Stop other writes to a pod; False while one of them is in flight."""
    pod_group_version: Callable[[PodGroupRef], str] = lambda _: ""
    """The resourceVersion of a PodGroup as last seen; empty where it must be read."""
    when_recorded: WhenRecorded = lambda _, resume: resume(None)
    """Calls a function when the record of a gang without a PodGroup is stored, or with why it is not."""
    newest_record: Callable[[Placement], GangRecord | None] = lambda placement: placement.record
    """The record of the gang after the last cycle. A placement that is written late replaces no newer one."""
    unbound_claims: Callable[[Bind], tuple[UnboundClaim, ...] | None] = lambda _: ()
    """The claims of a placed pod that are not bound yet; None if the pod or its node is gone."""
    awaited_claims: Callable[[Bind], tuple[AwaitedClaim, ...]] = lambda _: ()
    """The claims to devices of a placed pod whose binding conditions are not true yet."""
    on_awaited: Callable[[Placement, str], None] = lambda _placement, _why: None
    """Called when a placement waits for such a claim, with the claim, the device and the condition; with an
    empty text when it does not wait any more."""
    on_claim: Callable[[ResourceClaim], None] = lambda _: None
    """Called with each claim to devices as it was read or written."""
    pods_version: Callable[[], str] = lambda: ""
    """The resourceVersion up to which pods are known, for the log."""


def placement_patch(placement: Placement, record: GangRecord | None, *, version: str, epoch: int) -> bytes:
    """Encode the merge patch of a PodGroup's status with a placement, who decided it, and the gang's record.

    The resourceVersion takes the place of a UID precondition: API servers ignore the UID in a patch of a
    custom resource's status.
    """
    where = {"level": placement.level or None, "domain": placement.domain or None}
    decided_by = {"leader": epoch, "decision": f"cycle-{placement.cycle}"}
    status: dict[str, object] = {"placement": where, "placementEpoch": decided_by}
    if record is not None:
        status["record"] = written_record(record)
    return _encode({"metadata": {"resourceVersion": version}, "status": status})


def outcome_of(bind: Bind, found: Pod, refusal: ApiError | None) -> BindOutcome | None:
    """Derive the outcome of a bind from the pod as read; None when the bind may be sent.

    `refusal` is the error with which the API server answered the bind.
    """
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


OUTCOME_NAMES: Final[dict[type[BindOutcome], str]] = {
    Bound: "bound",
    BindRefused: "refused",
    BindAborted: "aborted",
    LeadershipLost: "leadership-lost",
}
"""In metrics."""


def reason_of(outcome: BindOutcome) -> str:
    """Why the pod is not bound; empty if it is."""
    match outcome:
        case BindRefused(reason=reason, message=message):
            return f"{reason}: {message}"
        case BindAborted(reason=reason):
            return plain(reason)
        case LeadershipLost(sent=sent):
            return "leadership lost after the bind was sent" if sent else "leadership lost"
        case Bound():
            return ""
