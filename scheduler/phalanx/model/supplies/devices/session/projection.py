"""Project devices of claims to node amounts that add up: the solver knows no devices.

A pod with claims uses one set of devices for its kind of claims; a node offers as many sets as its devices
allow. If pods of several kinds are placed together, they also use devices of each set of kinds of requests
(`joint_slots`), which is exact on most nodes. On nodes where that does not tell what fits, such as with
constraints of claims, counters of devices, or shares of different sizes, the session says what is assumed:
all that is not known not to fit, or only what fits for certain. Where a placement turned out to be too much,
it also says which part of it the node takes. The devices of claims that members share are chosen before, and
are not free for their other claims.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct

from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.claims import ClaimSpec
from phalanx.model.supplies.devices.joint_slots import FreeDevices, PlainKinds
from phalanx.model.supplies.devices.session.needs import DEVICE_SLOT, Need
from phalanx.model.supplies.devices.session.shared_amounts import BOUNDS, DeviceBounds, kind_resource

_TOGETHER: Final = f"{DEVICE_SLOT}of several kinds"
"""The amount that bounds pods of several kinds where it is not certain that they fit together."""


PLENTY: Final = 1 << 20
"""More pods than a node can run."""


class DeviceAmounts(Protocol):
    """What nodes of a session have of devices now."""

    def count(self, need: Need, node: Node) -> int: ...
    def claims_on(self, need: Need, node: Node) -> tuple[ClaimSpec, ...]: ...
    def free_for_any(self, kinds: PlainKinds, needs: Sequence[Need], node: Node) -> FreeDevices: ...


class DeviceProjection(Struct, frozen=True, dict=True):
    """The projection of devices of claims."""

    devices: DeviceAmounts
    needs: tuple[tuple[str, Need], ...]
    """What the pods need, by resource name."""
    claims: Mapping[str, tuple[ClaimSpec, ...]] = {}
    """The claims of each need, on nodes that offer none of its extended resources."""
    kinds: PlainKinds | None = None
    """The kinds of requests of several needs, if all of their claims are plain."""
    bounds: DeviceBounds = BOUNDS
    """What is assumed of nodes where the kinds do not tell what fits."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with the sets of devices of the pod."""
        name = pod.shape.device_slot
        if not name:
            return requests
        if len(self.needs) == 1:
            return {**requests, name: 1}
        asked = self._amounts(self._asked[[known for known, _ in self.needs].index(name)])
        together = {_TOGETHER: 1} if self.bounds.are_certain else {}
        return {**requests, name: 1, **together, **{key: count for key, count in asked.items() if count}}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """The free amounts of the node with its sets of devices."""
        devices, node = self.devices, state.node
        slots = {name: devices.count(need, node) for name, need in self.needs}
        if len(self.needs) == 1:
            return {**free, **slots}
        part = self.bounds.on(node.name)
        if part is not None:
            slots = {name: min(count, part.get(name, 0)) for name, count in slots.items()}
        found = {**free, **slots, **self._unbounded}
        counts = self._counts(devices, node) if any(slots.values()) else None
        if not self.bounds.are_certain or (counts is not None and counts.is_exact):
            return found if counts is None else {**found, **self._amounts(counts.most)}
        if counts is not None and counts.least is not None:
            return {**found, **self._amounts(counts.least)}
        is_one_kind = sum(map(bool, slots.values())) < 2
        return found if is_one_kind else {**found, _TOGETHER: 1}

    def _counts(self, devices: DeviceAmounts, node: Node) -> FreeDevices | None:
        """For each set of kinds, how many devices the node has; None if that is not known."""
        if self.kinds is None:
            return None
        needs = tuple([need for _, need in self.needs])
        here = [devices.claims_on(need, node) for need in needs]
        if here == [self.claims[name] for name, _ in self.needs]:
            return devices.free_for_any(self.kinds, needs, node)
        plenty = (PLENTY,) * len(self.kinds.sets)
        return None if any(here) else FreeDevices(plenty, plenty)

    @cached_property
    def _asked(self) -> tuple[tuple[int, ...], ...]:
        """For a pod with each need, how many devices of each set of kinds it uses."""
        kinds = self.kinds
        return tuple([kinds.asked(self.claims[name]) if kinds is not None else () for name, _ in self.needs])

    @cached_property
    def _unbounded(self) -> dict[str, int]:
        """Amounts that bound nothing on a node."""
        together = {_TOGETHER: PLENTY} if self.bounds.are_certain else {}
        return together | (self._amounts([PLENTY for _ in self.kinds.sets]) if self.kinds is not None else {})

    def _amounts(self, counts: Sequence[int]) -> dict[str, int]:
        """These counts for each set of kinds, by resource name."""
        if self.kinds is None:
            return {}
        return {kind_resource(self.kinds, place): count for place, count in enumerate(counts)}
