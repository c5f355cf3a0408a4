"""The claims of a pod: which objects they are, and on which nodes they can be satisfied."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from phalanx.model.nodes import Node
from phalanx.model.pods import PodClaim
from phalanx.model.supplies.devices.allocator import Answer, NodeDevices, allocate
from phalanx.model.supplies.devices.claims import Claim, DeviceClasses
from phalanx.model.supplies.devices.limits import CLAIM_CONSUMERS_MAX
from phalanx.model.supplies.devices.matching import Matcher

NOT_CREATED: Final = "its ResourceClaim has not been created yet"


class Unresolved(Struct, frozen=True, gc=False):
    """Why a pod cannot be scheduled: a field of the pod or a claim, and its problem."""

    text: str


def resolve(
    claims: Sequence[PodClaim], *, namespace: str, pod_uid: str, find: Callable[[str, str], Claim | None]
) -> tuple[Claim, ...] | Unresolved:
    """The objects of these claims in order, each once though a pod may name it several times.

    `find` returns a claim by namespace and name.
    """
    found: dict[str, Claim] = {}
    for index, each in enumerate(claims):
        claim = find(namespace, each.claim) if each.claim else None
        if each.is_needless or (each.is_for_extended and claim is None):
            continue
        problem = _problem(each, claim, pod_uid)
        if problem:
            return Unresolved(f"spec.resourceClaims[{index}]: {problem}")
        assert claim is not None
        found[claim.name] = renewed(claim) if each.is_renewed else claim
    return tuple(found.values())


def renewed(claim: Claim) -> Claim:
    """The claim that is made for the next pod in place of this one's."""
    return structs.replace(claim, allocation=None, reserved_for=(), unbound="", has_failed=False, ready_by=0)


def own_claims(entries: Sequence[PodClaim]) -> frozenset[str]:
    """The names of the claims that were made for the pod, or that no other pod names. It may name the first
    as claims of others too.

    The owner that a claim names does not matter: a tenant can write any.
    """
    return frozenset([each.claim for each in entries if (each.is_own or each.is_sole) and each.claim])


def _problem(each: PodClaim, claim: Claim | None, pod_uid: str) -> str:
    if not each.claim:
        return NOT_CREATED
    if claim is None:
        return f"ResourceClaim {each.claim} does not exist"
    if claim.deleting:
        return f"{claim} is being deleted"
    if each.is_own and claim.owner != pod_uid:
        return f"{claim} was not created for this pod"
    if (
        claim.allocation is not None
        and pod_uid not in claim.reserved_for
        and len(claim.reserved_for) >= CLAIM_CONSUMERS_MAX
    ):
        return f"{claim} is in use by {CLAIM_CONSUMERS_MAX} pods, the limit of the API"
    return ""


def unavailable(claims: Sequence[Claim], node: Node) -> Claim | None:
    """A claim whose allocation cannot be used from the node."""
    return next(
        (each for each in claims if each.allocation is not None and not each.allocation.nodes.allows(node)),
        None,
    )


def allocate_for_pod(
    claims: Sequence[Claim], place: NodeDevices, *, classes: DeviceClasses, matcher: Matcher
) -> Answer:
    """Allocate those of the pod's claims that have no allocation, if the others can be used from the node."""
    elsewhere = unavailable(claims, place.node)
    if elsewhere is not None:
        return Answer(reason=f"{elsewhere} is allocated for other nodes")
    waiting = tuple(each.spec for each in claims if each.allocation is None)
    return allocate(place, waiting, classes=classes, matcher=matcher)
