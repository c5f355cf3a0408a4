"""What kube-controller-manager does with ResourceClaims of pods that have ended or are gone."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from phalanx.model.api.core import Pod
from phalanx.model.names import PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.supplies.devices.api import ConsumerReference, ResourceClaim, ResourceClaimStatus

_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def uses_claims(pod: Pod | None) -> bool:
    """Whether the pod keeps what its claims have: it exists, has not ended, and may still run."""
    if pod is None or pod.status.phase in _ENDED:
        return False
    return bool(pod.spec.node_name) or pod.metadata.deletion_timestamp is None


def with_consumer(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with the pod among those that use it."""
    meta, consumers = pod.metadata, claim.status.reserved_for
    if any(each.uid == meta.uid for each in consumers):
        return claim
    added = ConsumerReference(resource="pods", name=meta.name, uid=meta.uid)
    status: ResourceClaimStatus = replace(claim.status, reserved_for=(*consumers, added))
    return replace(claim, status=status)


def released(claim: ResourceClaim, uses: Callable[[PodUid], bool]) -> ResourceClaim | None:
    """The claim without the pods that do not use it any more; None if it is deleted.

    Without its last consumer it has no devices. It is deleted with the pod that owns it. A consumer that is
    no pod stays: who ends it is not known here.
    """
    consumers = claim.status.reserved_for
    rest = tuple(each for each in consumers if not _is_pod(each) or uses(PodUid(each.uid)))
    if rest == consumers and rest:
        return claim
    if rest:
        status: ResourceClaimStatus = replace(claim.status, reserved_for=rest)
        return replace(claim, status=status)
    owners = [each.uid for each in claim.metadata.owner_references if each.kind == "Pod"]
    if owners and not any(uses(PodUid(uid)) for uid in owners):
        return None
    if not consumers:
        return claim
    is_deleting = claim.metadata.deletion_timestamp is not None
    return None if is_deleting else replace(claim, status=ResourceClaimStatus())


def made_again(claims: Iterable[ResourceClaim], old: Pod, new: Pod) -> tuple[ResourceClaim, ...]:
    """The claims that are made of templates for the pod in place of the old one: without devices."""
    found = []
    for claim in claims:
        owners = claim.metadata.owner_references
        if any(each.uid == old.metadata.uid for each in owners):
            owners = tuple(replace(each, uid=new.metadata.uid) for each in owners)
            metadata = replace(
                claim.metadata,
                uid=f"{claim.metadata.uid}-again",
                owner_references=owners,
                deletion_timestamp=None,
            )
            found.append(replace(claim, metadata=metadata, status=ResourceClaimStatus()))
    return tuple(found)


def _is_pod(consumer: ConsumerReference) -> bool:
    return (consumer.api_group, consumer.resource) == ("", "pods")
