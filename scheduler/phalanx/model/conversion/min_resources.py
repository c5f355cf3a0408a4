"""`minResources` of PodGroups of other dialects: what must be free before any pod of the group starts.

A gang starts only if its minimum of pods fits, so what these pods request is free without being asked for.
More than all its pods request is meant for pods that do not exist yet, and for these no capacity is reserved.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from phalanx.model.api.core import Quantity
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.names import API_GROUP
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import Resources, format_amount, sum_of

_PATH: Final = "spec.minResources"
_REQUESTS: Final = "requests."
_OF_QUOTAS: Final = ("limits.", "count/")
"""Controllers write the names of resource quotas as well: these are no requests of pods."""


def read_min_resources(written: Mapping[str, Quantity], wrong: list[str]) -> Resources:
    """The amounts of resources that pods request. Errors are appended to `wrong` as "path: error"."""
    found: dict[str, int] = {}
    for name, quantity in written.items():
        resource = name.removeprefix(_REQUESTS)
        if not resource.startswith(_OF_QUOTAS):
            amount = read_amounts({resource: quantity}, _PATH, wrong)[resource]
            found[resource] = max(amount, found.get(resource, 0))
    return found


def min_resources_problems(needed: Resources, min_member: int, members: Sequence[Pod]) -> Iterator[Objection]:
    """An error if a gang that could start needs more than all its pods request.

    A gang of which a pod has a node is starting already.
    """
    if not needed:
        return
    pods = [pod for pod in members if not pod.deleting and pod.phase is not PodPhase.FAILED]
    if len(pods) < min_member or any(pod.node is not None for pod in pods):
        return
    requested = sum_of(pod.shape.requests for pod in pods)
    for name, amount in sorted(needed.items()):
        own = requested.get(name, 0)
        if amount > own:
            yield Objection(
                Reason.UNSUPPORTED_FIELD,
                f"PodGroup field {_PATH}: {format_amount(name, amount, up=True)} is more than the "
                f"{format_amount(name, own)} of its {len(pods)} pods, and no capacity is reserved for others",
                f"Lower {_PATH} to what the pods request, or use a PodGroup of {API_GROUP} that reserves",
            )
            return
