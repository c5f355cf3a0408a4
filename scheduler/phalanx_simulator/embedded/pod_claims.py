"""The ResourceClaims of a pod, as the claim controller and kubelets read them from spec and status."""

from phalanx_simulator.embedded.store import Object


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
