"""The devices of claims that all members of a gang use: chosen once in a session, before nodes are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.devices.claims import Allocation, Claim
from phalanx.model.devices.cluster import DeviceState
from phalanx.model.devices.pools import DeviceId
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod

PodCapacity = Callable[[Pod, Node], int]
"""How many pods like this one fit the node now, apart from devices; 0 if it may not run there."""


class SharedUse(Struct, frozen=True):
    """Claims that pods share, how many pods wait for them, and one of these; None if they are unknown."""

    claims: tuple[Claim, ...]
    pods: int
    pod: Pod | None


class SharedChoices:
    """The choices of one session. What a placement of the cycle chose for a claim holds for later ones."""

    def __init__(
        self,
        state: DeviceState,
        nodes: Mapping[NodeName, NodeState],
        capacity: PodCapacity,
        chosen: Mapping[str, Allocation],
    ) -> None:
        """`chosen`: what placements of this cycle allocated, by UID of the claim."""
        self._state = state
        self._nodes = nodes
        self._pod_capacity = capacity
        self._chosen = chosen
        self._found: dict[str, tuple[frozenset[DeviceId], tuple[Allocation, ...] | None]] = {}

    def allocations(
        self, name: str, use: SharedUse, taken: frozenset[DeviceId], freed: frozenset[DeviceId]
    ) -> tuple[Allocation, ...] | None:
        """The devices of each of these claims; None if there are not enough.

        The devices are those on whose nodes all pods fit, else most. `name` identifies the use.
        The choice remains while none of its devices is taken.
        """
        known = [each.allocation or self._chosen.get(each.uid) for each in use.claims]
        missing = [claim for claim, found in zip(use.claims, known, strict=True) if found is None]
        chosen: Sequence[Allocation] | None = ()
        if missing:
            earlier = self._found.get(name)
            if earlier is None or earlier[1] is None or devices_of(earlier[1]) & taken:
                earlier = (taken, self._best(missing, use, known, taken, freed))
                self._found[name] = earlier
            chosen = earlier[1]
        if chosen is None:
            return None
        rest = iter(chosen)
        return tuple(each if each is not None else next(rest) for each in known)

    def _best(
        self,
        missing: Sequence[Claim],
        use: SharedUse,
        known: Sequence[Allocation | None],
        taken: frozenset[DeviceId],
        freed: frozenset[DeviceId],
    ) -> tuple[Allocation, ...] | None:
        fixed = [each.nodes for each in known if each is not None]
        nodes = [
            state.node for state in self._nodes.values() if all(each.allows(state.node) for each in fixed)
        ]
        best, most = None, 0
        for choice in self._state.shared(missing, nodes, besides=taken, without=freed):
            nodes_left = [self._nodes[name].node for name in choice.nodes]
            capacity = sum(1 if use.pod is None else self._pod_capacity(use.pod, node) for node in nodes_left)
            if capacity > most:
                best, most = choice.allocations, capacity
            if use.pod is not None and capacity >= use.pods:
                break
        return best


def devices_of(allocations: Sequence[Allocation]) -> frozenset[DeviceId]:
    """The devices that allocations use up."""
    return frozenset(each.device for found in allocations for each in found.devices if not each.admin_access)


EVERYWHERE: Final = ""
"""In place of the name of a node: devices that several nodes can use."""
