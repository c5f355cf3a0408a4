"""What nodes have free, as a bound on which gangs may start: of others no solve is needed."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from phalanx.framework.minimum_members import pods_to_minimum
from phalanx.framework.queues.division import Bundles, bundle_of
from phalanx.limits import AMOUNT_MAX
from phalanx.model.charges import total_requests
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add, largest, subtract
from phalanx.model.supplies.known import requests_parts


class Need(Struct, frozen=True):
    """What a gang needs at least."""

    amounts: Resources
    """Of each resource, what some member requests at least, whichever members start."""
    count: int
    """How many members start."""
    is_uniform: bool
    """Whether all members request the same."""
    device: tuple[str, int] | None
    """One of the amounts that is of a device, if there is one."""


def need_of(gang: Gang) -> Need | None:
    """None if requests do not bound what a gang needs: it has parts of nodes or claims, or members to come.

    The gang waits, and no member has or had a node.
    """
    pods = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    count = gang.min_member - gang.active
    if gang.reserves or not 0 < count <= len(pods):
        return None
    shapes = {pod.shape.key: pod.shape.requests for pod in pods}
    if any(map(requests_parts, shapes.values())) or any(pod.device_claims or pod.claims for pod in pods):
        return None
    requests = [pod.shape.requests for pod in pods]
    names = sorted({name for each in shapes.values() for name in each})
    least = {name: sorted(each.get(name, 0) for each in requests)[count - 1] for name in names}
    amounts = {name: amount for name, amount in least.items() if amount > 0}
    device = next(((name, amount) for name, amount in amounts.items() if "/" in name), None)
    return Need(amounts, count, len(shapes) == 1, device)


class Lacks(Struct, frozen=True):
    """What a gang lacks that waits."""

    need: Need | None
    """None if requests do not bound it."""
    pods: Sequence[Pod]
    """The pods to its minimum."""

    @property
    def bundles(self) -> Bundles:
        """What a queue is charged for them together."""
        return bundle_of(total_requests(self.pods))


def lacks_of(gang: Gang) -> Lacks:
    """What a gang lacks of which no member has or had a node."""
    return Lacks(need_of(gang), pods_to_minimum(gang, lambda pod: True))


class _Nodes(Struct, frozen=True):
    """Nodes with so much of a device free."""

    largest: Resources
    """Of each resource, the most that one of them has free."""
    places: int
    """How many members they take as far as the device goes."""


class FreeCapacity:
    """The free amounts of nodes at the begin of a cycle, less what the cycle has placed."""

    def __init__(self, nodes: Mapping[NodeName, NodeState]) -> None:
        self._states = nodes
        self._taken: dict[NodeName, Resources] = {}
        self._nodes: dict[tuple[str, int] | None, _Nodes] = {}

    def take(self, node: NodeName, requests: Resources) -> None:
        """Note that a pod was placed on the node."""
        self._taken[node] = add(self._taken.get(node, NONE), requests)
        self._nodes.clear()

    def may_take(self, need: Need) -> bool:
        """Whether these amounts do not exclude that a gang starts that needs this."""
        nodes = self._with(need.device)
        if need.is_uniform and nodes.places < need.count:
            return False
        most = nodes.largest if need.is_uniform else self._with(None).largest
        return all(amount <= most.get(name, 0) for name, amount in need.amounts.items())

    def _with(self, device: tuple[str, int] | None) -> _Nodes:
        if device not in self._nodes:
            self._nodes[device] = self._find(device)
        return self._nodes[device]

    def _free(self) -> Iterator[Resources]:
        for name, state in self._states.items():
            taken = self._taken.get(name)
            yield state.free if taken is None else subtract(state.free, taken)

    def _find(self, device: tuple[str, int] | None) -> _Nodes:
        if device is None:
            return _Nodes(largest(self._free()), AMOUNT_MAX)
        name, amount = device
        found = [free for free in self._free() if free.get(name, 0) >= amount]
        return _Nodes(largest(found), sum(free[name] // amount for free in found))
