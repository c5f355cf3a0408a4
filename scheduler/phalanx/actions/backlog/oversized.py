"""Refuse gangs whose pods are larger than every node, without building a problem."""

from collections.abc import Mapping

from phalanx.actions import formatting
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import requests_parts


def oversized_resource(gang: Gang, largest: Resources) -> str:
    """A resource of which too few members request no more than some node has; empty if there is none.

    `largest`: the largest allocatable amounts of a node. Devices come first.
    """
    if gang.reserves or len(gang.members) < gang.min_member:
        return ""
    exceeded = [_exceeded(pod, largest) for pod in gang.members]
    if sum(1 for name in exceeded if not name) >= gang.min_member:
        return ""
    return next(name for name in exceeded if name)


def objection_to_oversized(gang: Gang, resource: str, largest: Resources) -> Objection:
    """The objection to a gang because of this resource."""
    asked = max(pod.shape.requests.get(resource, 0) for pod in gang.members)
    most = formatting.amount(resource, largest.get(resource, 0))
    return Objection(
        reason=Reason.ABOVE_CLUSTER_CAPACITY,
        message=f"a pod requests {formatting.amount(resource, asked)}, but the largest node has {most}",
        next_step="Request less per pod, or add larger nodes",
    )


def _exceeded(pod: Pod, largest: Mapping[str, int]) -> str:
    requests = pod.shape.requests
    if requests_parts(requests):
        return ""
    names = [name for name, amount in requests.items() if amount > largest.get(name, 0)]
    return min(names, key=lambda name: ("/" not in name, name), default="")
