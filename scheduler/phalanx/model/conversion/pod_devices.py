"""Conversion of the claims of a pod to devices."""

from phalanx.model.api import core
from phalanx.model.extended_resources import SPECIAL_CLAIM
from phalanx.model.pods import PodClaim


def read_pod_claims(written: core.Pod) -> tuple[PodClaim, ...]:
    """The claims of a pod, with the names that the controller of Kubernetes has written into its status.

    A pod with a node may have one more that a scheduler made for its extended resources. One that waits has
    none that counts: the claim of an earlier attempt is deleted.
    """
    found = _of_extended_resources(written)
    if not written.spec.resource_claims:
        return found
    made = {each.name: each.resource_claim_name for each in written.status.resource_claim_statuses}
    return (
        *(
            PodClaim(name=each.name, claim=each.resource_claim_name)
            if each.resource_claim_name
            else PodClaim(
                name=each.name,
                claim=made.get(each.name) or "",
                is_own=True,
                is_needless=each.name in made and made[each.name] is None,
            )
            for each in written.spec.resource_claims
        ),
        *found,
    )


def _of_extended_resources(written: core.Pod) -> tuple[PodClaim, ...]:
    status = written.status.extended_resource_claim_status
    if status is None or not written.spec.node_name or not status.resource_claim_name:
        return ()
    return (PodClaim(SPECIAL_CLAIM, status.resource_claim_name, is_own=True, is_special=True),)
