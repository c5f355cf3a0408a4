"""What queues are charged for pods: their requests, and the devices of their claims.

Devices of claims are no requests. Where they are is decided with the devices of nodes, so these amounts count
for queues only. A claim that several pods use is charged once.
"""

from collections.abc import Iterable, Mapping, Sequence

from phalanx.model.pods import Pod
from phalanx.model.resources import Resources, add, scale, sum_of


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
