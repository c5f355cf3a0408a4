"""Project devices of claims to node amounts that add up: the solver knows no devices.

A pod with claims uses one set of devices for its kind of claims; a node offers as many sets as its devices
allow. If pods of several kinds are placed together, they also use devices of each set of kinds of requests
(`joint_slots`), which is exact. On nodes where that does not tell what fits, such as with constraints of
claims or counters of devices, a weighted sum of the pods is bounded (`mixed_slots`): safe but not exact. With
more than a few kinds of pods, one of them gets such a node. The devices of claims that members share are
chosen before, and are not free for their other claims.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.device_needs import DEVICE_SLOT, Need
from phalanx.framework.device_supply import kind_resource
from phalanx.framework.session import Session
from phalanx.framework.session_devices import PLENTY, SessionDevices
from phalanx.model.devices.claims import ClaimSpec
from phalanx.model.devices.joint_slots import PlainKinds, plain_kinds
from phalanx.model.devices.mixed_slots import Weights
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

_MIXED: Final = f"{DEVICE_SLOT}of several kinds, as "
"""The prefix of the amounts that bound pods of several kinds together."""

_NAME_BYTES: Final = 8


class DeviceProjection(Struct, frozen=True):
    """The projection of devices of claims."""

    needs: tuple[tuple[str, Need], ...]
    """What the pods need, by resource name."""
    claims: Mapping[str, tuple[ClaimSpec, ...]]
    """The claims of each need, on nodes that offer none of its extended resources."""
    kinds: PlainKinds | None = None
    """The kinds of requests of several needs, if all of their claims are plain."""
    weights: tuple[Weights, ...] = ()
    """Weights of pods with each need. One of them is used on each node where the kinds do not tell what
    fits; the others bound nothing there."""

    def request(self, pod: Pod) -> Resources:
        """The sets of devices that the pod requests."""
        name = pod.shape.device_slot
        if not name:
            return {}
        if len(self.needs) == 1:
            return {name: 1}
        asked = self.kinds.asked(self.claims[name]) if self.kinds is not None else ()
        place = [known for known, _ in self.needs].index(name)
        mixed = {self._mixed(each): each[place] for each in self.weights}
        return {name: 1, **{key: count for key, count in (mixed | self._amounts(asked)).items() if count}}

    def free(self, devices: SessionDevices, node: Node, free: Resources) -> Resources:
        """The free amounts of the node with its sets of devices."""
        slots = {name: devices.count(need, node) for name, need in self.needs}
        found = {**free, **slots}
        if len(self.needs) == 1:
            return found
        mixed = {self._mixed(each): PLENTY for each in self.weights}
        counts = self._counts(devices, node) if any(slots.values()) else self._plenty
        if counts is not None:
            return {**found, **mixed, **self._amounts(counts)}
        bound = devices.mixed.bound(self._all, self.weights, node)
        if bound is not None:
            mixed[self._mixed(self.weights[bound[0]])] = bound[1]
        return {**found, **mixed, **self._amounts(self._plenty)}

    def with_weights(self, session: Session) -> "DeviceProjection":
        """The projection with weights for the nodes of the session."""
        nodes = (state.node for state in session.nodes.values())
        unknown = (node for node in nodes if self._counts(session.devices, node) is None)
        return replace(self, weights=session.devices.mixed.weights(self._all, unknown))

    def _counts(self, devices: SessionDevices, node: Node) -> Sequence[int] | None:
        """For each set of kinds, how many devices the node has; None if that is not known."""
        if self.kinds is None:
            return None
        here = [devices.claims_on(need, node) for need in self._all]
        if here == [self.claims[name] for name, _ in self.needs]:
            return devices.free_for_any(self.kinds, self._all, node)
        return None if any(here) else self._plenty

    def _mixed(self, weights: Weights) -> str:
        """The name of the amount: the same for the same needs and weights."""
        content = repr(([name for name, _ in self.needs], weights)).encode()
        return _MIXED + blake2b(content, digest_size=_NAME_BYTES).hexdigest()

    @property
    def _all(self) -> tuple[Need, ...]:
        return tuple(need for _, need in self.needs)

    @property
    def _plenty(self) -> Sequence[int]:
        """For each set of kinds, more devices than pods use: they bound nothing on the node."""
        return [PLENTY for _ in self.kinds.sets] if self.kinds is not None else ()

    def _amounts(self, counts: Sequence[int]) -> dict[str, int]:
        """These counts for each set of kinds, by resource name."""
        if self.kinds is None:
            return {}
        return {kind_resource(self.kinds, place): count for place, count in enumerate(counts)}


def device_projection(session: Session, pods: Sequence[Pod]) -> DeviceProjection | None:
    """The projection for these pods; None if none has claims."""
    asked = {pod.shape.device_slot: pod.shape for pod in pods if pod.shape.device_slot}
    found = {name: session.devices.needs.of(shape) for name, shape in sorted(asked.items())}
    if len(found) < 2:
        return DeviceProjection(tuple(found.items()), {}) if found else None
    claims = {name: session.devices.all_claims(need) for name, need in found.items()}
    kinds = plain_kinds([spec for some in claims.values() for spec in some])
    return DeviceProjection(tuple(found.items()), claims, kinds).with_weights(session)


def keeps_devices_apart(resource: str) -> bool:
    """Whether the amount keeps pods with different claims apart that might fit together."""
    return resource.startswith(_MIXED)


def is_device_slot(resource: str) -> bool:
    """Whether the resource is a projected set of devices of claims."""
    return resource.startswith(DEVICE_SLOT)
