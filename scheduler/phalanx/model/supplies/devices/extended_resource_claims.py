"""The claim for extended resources as other claims are: what it asks for, and of which class."""

from collections.abc import Mapping

from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.claims import ClaimSpec, DeviceClass, Request
from phalanx.model.supplies.devices.extended_resources import (
    ExtendedRequests,
    ExtendedResourceClaim,
    class_of_resources,
    extended_resource_claim,
)


def extended_resources(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """The names of extended resources that devices satisfy, each with the name of the class."""
    return class_of_resources((each.name, each.extended_resource, each.created) for each in classes.values())


def claim_on(asked: ExtendedRequests, node: Node, classes: Mapping[str, str]) -> ExtendedResourceClaim | None:
    """The claim that a pod needs on the node; None if the node offers all of these resources itself.

    `classes`: by resource. One that has no class is requested of the node.
    """
    missing = [each for each in asked.resources if each in classes and not node.lists(each)]
    return extended_resource_claim(asked, missing, classes) if missing else None


def spec_of(claim: ExtendedResourceClaim) -> ClaimSpec:
    """What the claim asks for."""
    return ClaimSpec(
        requests=tuple(
            (
                Request(
                    name=each.name,
                    field=f"spec.devices.requests[{index}].exactly",
                    device_class=each.device_class,
                    count=each.count,
                ),
            )
            for index, each in enumerate(claim.requests)
        )
    )
