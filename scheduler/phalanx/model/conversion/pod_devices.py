"""Conversion of the claims of a pod to devices."""

from phalanx.model.api import core
from phalanx.model.pods import PodClaim


def read_pod_claims(written: core.Pod) -> tuple[PodClaim, ...]:
    """The claims of a pod, with the names that the controller of Kubernetes has written into its status."""
    if not written.spec.resource_claims:
        return ()
    made = {each.name: each.resource_claim_name for each in written.status.resource_claim_statuses}
    return tuple(
        PodClaim(name=each.name, claim=each.resource_claim_name)
        if each.resource_claim_name
        else PodClaim(
            name=each.name,
            claim=made.get(each.name) or "",
            is_own=True,
            is_needless=each.name in made and made[each.name] is None,
        )
        for each in written.spec.resource_claims
    )
