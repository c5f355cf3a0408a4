"""What queues are charged on nodes for pods with claims, and how usage of nodes shows it."""

from collections.abc import Mapping, Sequence
from typing import Final

from phalanx.model.charges import have_charges, plus_devices
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments
from phalanx.model.resources import NONE, Resources, add

_CHARGED: Final = "charged for claims: "
"""The prefix of amounts in a usage of nodes that only queues are charged for."""


def loads_with_devices(
    assignments: Assignments, loads: Sequence[Resources], counted: set[str]
) -> list[Resources]:
    """What a queue is charged on each node, whose requests are `loads`. See `plus_devices`."""
    return [plus_devices(load, pods, counted) for (_, pods), load in zip(assignments, loads, strict=True)]


def with_marked_charges(
    usage: Mapping[NodeName, Resources], assignments: Assignments
) -> Mapping[NodeName, Resources]:
    """The usage of nodes by these pods, with the devices of their claims as marked amounts."""
    if not any(have_charges(pods) for _, pods in assignments):
        return usage
    found, counted = dict(usage), set[str]()
    for node, pods in assignments:
        marked = {_CHARGED + name: each for name, each in plus_devices(NONE, pods, counted).items()}
        found[node] = add(found.get(node, NONE), marked)
    return found


def is_marked_charge(resource: str) -> bool:
    """Whether queues are charged for the amount, and nodes have nothing of it."""
    return resource.startswith(_CHARGED)


def without_marked(amounts: Resources) -> Resources:
    """The amounts that are used on a node."""
    if not any(map(is_marked_charge, amounts)):
        return amounts
    return {name: amount for name, amount in amounts.items() if not is_marked_charge(name)}


def marked_as_charged(amounts: Resources) -> Resources:
    """What queues are charged: marked amounts count as the resource."""
    charged: dict[str, int] = {}
    for name, amount in amounts.items():
        resource = name.removeprefix(_CHARGED)
        charged[resource] = charged.get(resource, 0) + amount
    return charged
