"""What queues are charged for pods: their requests, and the devices of their claims.

Devices of claims are no requests. Where they are is decided with the devices of nodes, so these amounts count
for queues only. A claim that several pods use is charged once.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.resources import NONE, Resources, add, scale, sum_of

_CHARGED: Final = "charged for claims: "
"""The prefix of amounts in a usage of nodes that only queues are charged for."""


def total_requests(pods: Sequence[Pod]) -> Resources:
    """The total requests of these pods. Adjacent pods of one shape are multiplied, not added."""
    total: Mapping[str, int] = {}
    position = 0
    while position < len(pods):
        shape = pods[position].shape
        end = position + 1
        while end < len(pods) and pods[end].shape is shape:
            end += 1
        part = scale(shape.requests, end - position) if end - position > 1 else shape.requests
        total = add(total, part) if total else part
        position = end
    return total


def have_charges(pods: Iterable[Pod]) -> bool:
    """Whether queues are charged for more than the requests of these pods."""
    return any(pod.charges for pod in pods)


def total_charges(pods: Sequence[Pod]) -> Resources:
    """What a queue is charged for these pods together."""
    total = total_requests(pods)
    return plus_devices(total, pods, set()) if have_charges(pods) else total


def charged_for(pod: Pod) -> Resources:
    """What a queue is charged for a pod alone."""
    return total_charges((pod,))


def own_charges(pod: Pod) -> Resources:
    """The devices of claims that only this pod uses."""
    return sum_of(dict(each.amounts) for each in pod.charges if not each.claim)


def shared_charges(pods: Iterable[Pod], besides: Container[str] = ()) -> Resources:
    """The devices of claims that several pods may use, each claim once, without the claims `besides`."""
    claims = {each.claim: each.amounts for pod in pods for each in pod.charges if each.claim}
    return sum_of(dict(amounts) for claim, amounts in claims.items() if claim not in besides)


def plus_devices(amounts: Resources, pods: Iterable[Pod], counted: set[str]) -> Resources:
    """The amounts with the devices of these pods. Claims that are `counted` do not count; those that count
    are added."""
    total = dict(amounts)
    for pod in pods:
        for each in pod.charges:
            if each.claim in counted:
                continue
            if each.claim:
                counted.add(each.claim)
            for name, amount in each.amounts:
                total[name] = total.get(name, 0) + amount
    return dict(sorted(total.items()))


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
