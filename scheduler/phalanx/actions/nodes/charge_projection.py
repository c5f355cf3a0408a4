"""Project devices of claims that queues are charged for: limits count them, nodes do not list them.

In a problem with such pods, an amount of the resource is what queues are charged for, and every node offers
plenty of it. If pods also request the resource of nodes, a second amount holds what nodes list.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.charges import have_charges, own_charges
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources, add

ON_NODE: Final = "listed by nodes: "
"""The prefix of the amounts that nodes list, of resources that devices of claims count as too."""

PLENTY: Final = 1 << 30
"""More than the pods of a problem are charged for."""


class ChargeProjection(Struct, frozen=True):
    """The projection of what queues are charged for."""

    names: tuple[str, ...]
    """The resources that devices of claims count as."""
    listed: tuple[str, ...]
    """Those of them that pods also request of nodes."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with the devices of claims that only this pod uses."""
        if not self.names:
            return requests
        on_node = {ON_NODE + name: requests[name] for name in self.listed if requests.get(name)}
        return {**requests, **add(_part(requests, self.names), own_charges(pod)), **on_node}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """The free amounts of a node."""
        if not self.names:
            return free
        return {**self.freed(free), **dict.fromkeys(self.names, PLENTY)}

    def freed(self, amounts: Resources) -> Resources:
        """What pods free on a node."""
        if not self.listed:
            return amounts
        return {**amounts, **{ON_NODE + name: amounts.get(name, 0) for name in self.listed}}


NO_CHARGES: Final = ChargeProjection((), ())


def charge_projection(pods: Sequence[Pod]) -> ChargeProjection | None:
    """The projection for these pods; None if they are charged for nothing but their requests."""
    if not have_charges(pods):
        return None
    names = sorted({name for pod in pods for name in own_charges(pod)})
    listed = [name for name in names if any(pod.shape.requests.get(name) for pod in pods)]
    return ChargeProjection(tuple(names), tuple(listed)) if names else None


def _part(amounts: Resources, names: Iterable[str]) -> Resources:
    return {name: amounts[name] for name in names if name in amounts}
