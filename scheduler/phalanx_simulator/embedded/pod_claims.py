"""The ResourceClaims of a pod, as the claim controller and kubelets read them from spec and status."""

from typing import Final

from phalanx_simulator.embedded.store import Object

EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that a scheduler made for extended resources of a pod."""


def is_for_extended(claim: Object) -> bool:
    """Whether a scheduler made the claim for the extended resources of a pod."""
    return (claim["metadata"].get("annotations") or {}).get(EXTENDED) == "true"


def claim_names(pod: Object) -> list[str]:
    """The claims that the pod names, and the one for its extended resources; an empty name for one that is
    not made yet."""
    status = pod.get("status", {})
    made = {each["name"]: each for each in status.get("resourceClaimStatuses") or ()}
    names = [
        entry.get("resourceClaimName") or made.get(entry["name"], {}).get("resourceClaimName") or ""
        for entry in pod["spec"].get("resourceClaims") or ()
    ]
    special = status.get("extendedResourceClaimStatus")
    return [*names, special["resourceClaimName"]] if special else names
