"""Project devices of claims to node amounts that add up: the solver knows no devices.

A pod with claims uses one set of devices for its kind of claims; a node offers as many sets as its devices
allow. If pods of several kinds are placed together, they also use devices of each set of kinds of requests
(`joint_slots`), which is exact on most nodes. On nodes where that does not tell what fits, such as with
constraints of claims, counters of devices, or shares of different sizes, weighted sums of the pods are
bounded (`mixed_slots`). The session says what is assumed there: only what fits for certain, or all that is
not known not to fit. The devices of claims that members share are chosen before, and are not free for their
other claims.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.device_needs import DEVICE_SLOT, Need
from phalanx.framework.device_supply import kind_resource
from phalanx.framework.mixed_devices import SAFE, Division, Kinds
from phalanx.framework.session import Session
from phalanx.framework.session_devices import PLENTY, SessionDevices
from phalanx.model.devices.claims import ClaimSpec
from phalanx.model.devices.joint_slots import FreeDevices, PlainKinds, plain_kinds
from phalanx.model.devices.limits import MIXED_WEIGHT_MAX
from phalanx.model.devices.mixed_slots import Asked, Weights
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

_MIXED: Final = f"{DEVICE_SLOT}of several kinds, as "
"""The prefix of the amounts that bound pods of several kinds together."""

_NAME_BYTES: Final = 8


class DeviceProjection(Struct, frozen=True, dict=True):
    """The projection of devices of claims."""

    devices: SessionDevices
    needs: tuple[tuple[str, Need], ...]
    """What the pods need, by resource name."""
    most: tuple[int, ...] = ()
    """A node gets at most so many pods with each need."""
    claims: Mapping[str, tuple[ClaimSpec, ...]] = {}
    """The claims of each need, on nodes that offer none of its extended resources."""
    kinds: PlainKinds | None = None
    """The kinds of requests of several needs, if all of their claims are plain."""
    weights: tuple[Weights, ...] = ()
    """Weights of pods with each need. Where the kinds do not tell what fits, one of the sums is bounded if
    only what fits for certain is assumed, else all of them."""
    division: Division = SAFE
    """What is assumed of such nodes."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with the sets of devices of the pod."""
        name = pod.shape.device_slot
        if not name:
            return requests
        if len(self.needs) == 1:
            return {**requests, name: 1}
        place = [known for known, _ in self.needs].index(name)
        mixed = {key: each[place] for key, each in zip(self._mixed, self.weights, strict=True)}
        asked = self._amounts(self._asked[place])
        return {**requests, name: 1, **{key: count for key, count in (mixed | asked).items() if count}}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """The free amounts of the node with its sets of devices."""
        devices, node = self.devices, state.node
        slots = {name: devices.count(need, node) for name, need in self.needs}
        if len(self.needs) == 1:
            return {**free, **slots}
        found = {**free, **slots, **self._unbounded}
        fixed = self.division.on(node.name)
        if fixed is not None:
            return {**found, **fixed}
        if not any(slots.values()):
            return found
        counts = self._counts(devices, node)
        if counts is not None and counts.is_exact:
            return {**found, **self._amounts(counts.most)}
        if self.division.is_relaxed:
            sums = zip(self._mixed, devices.mixed.most(self._pods, self.weights, node), strict=True)
            mixed = {key: most for key, most in sums if most is not None}
            return {**found, **mixed, **(self._amounts(counts.most) if counts is not None else {})}
        return {**found, **self._safe(devices, node, counts)}

    def _safe(self, devices: SessionDevices, node: Node, counts: FreeDevices | None) -> dict[str, int]:
        """The amounts within which pods fit for certain, of two kinds those that allow more of them."""
        mixed = devices.mixed
        if mixed.is_known(self._pods, node):
            return {}
        least = counts.least if counts is not None else None
        if least is not None and mixed.are_better(least, self._asked, self._pods, self.weights, node):
            return self._amounts(least)
        best, bound = mixed.bound(self._pods, self.weights, node)
        return {self._mixed[best]: bound}

    def is_exact(self, session: Session) -> bool:
        """Whether it is known on all nodes which pods with different needs fit together."""
        return all(session.devices.mixed.is_known(self._pods, node) for node in self._not_counted(session))

    def with_weights(self, session: Session) -> "DeviceProjection":
        """The projection with weights for the nodes of the session."""
        return replace(self, weights=session.devices.mixed.weights(self._pods, self._not_counted(session)))

    def _not_counted(self, session: Session) -> Iterator[Node]:
        """The nodes on which counts of devices do not tell which pods fit together."""
        for state in session.nodes.values():
            counts = self._counts(session.devices, state.node)
            if counts is None or not counts.is_exact:
                yield state.node

    def _counts(self, devices: SessionDevices, node: Node) -> FreeDevices | None:
        """For each set of kinds, how many devices the node has; None if that is not known."""
        if self.kinds is None:
            return None
        here = [devices.claims_on(need, node) for need in self._pods.needs]
        if here == [self.claims[name] for name, _ in self.needs]:
            return devices.free_for_any(self.kinds, self._pods.needs, node)
        plenty = (PLENTY,) * len(self.kinds.sets)
        return None if any(here) else FreeDevices(plenty, plenty)

    @cached_property
    def _mixed(self) -> tuple[str, ...]:
        """The name of the amount for each of the weights: the same for the same needs and weights."""
        content = [repr(([name for name, _ in self.needs], each)).encode() for each in self.weights]
        return tuple([_MIXED + blake2b(each, digest_size=_NAME_BYTES).hexdigest() for each in content])

    @cached_property
    def _pods(self) -> Kinds:
        return Kinds(tuple([need for _, need in self.needs]), self.most)

    @cached_property
    def _asked(self) -> Asked:
        """For a pod with each need, how many devices of each set of kinds it uses."""
        kinds = self.kinds
        return tuple([kinds.asked(self.claims[name]) if kinds is not None else () for name, _ in self.needs])

    @cached_property
    def _unbounded(self) -> dict[str, int]:
        """Amounts for sets of kinds and weighted sums that bound nothing on a node."""
        mixed = dict.fromkeys(self._mixed, PLENTY * MIXED_WEIGHT_MAX)
        return mixed | (self._amounts([PLENTY for _ in self.kinds.sets]) if self.kinds is not None else {})

    def _amounts(self, counts: Sequence[int]) -> dict[str, int]:
        """These counts for each set of kinds, by resource name."""
        if self.kinds is None:
            return {}
        return {kind_resource(self.kinds, place): count for place, count in enumerate(counts)}


def device_projection(session: Session, pods: Sequence[Pod], most: Sequence[int]) -> DeviceProjection | None:
    """The projection for these pods; None if none has claims. `most`: a node gets at most so many like each
    of them."""
    asked: dict[str, int] = {}
    shapes = {}
    for pod, count in zip(pods, most, strict=True):
        name = pod.shape.device_slot
        if name:
            asked[name] = asked.get(name, 0) + count
            shapes[name] = pod.shape
    found = tuple([(name, session.devices.needs.of(shapes[name])) for name in sorted(asked)])
    if len(found) < 2:
        return DeviceProjection(session.devices, found) if found else None
    claims = {name: session.devices.all_claims(need) for name, need in found}
    kinds = plain_kinds([spec for some in claims.values() for spec in some])
    counts = tuple([asked[name] for name, _ in found])
    division = session.devices.mixed.division
    projection = DeviceProjection(session.devices, found, counts, claims, kinds, division=division)
    return projection.with_weights(session)


def keeps_devices_apart(resource: str) -> bool:
    """Whether the amount keeps pods with different claims apart that might fit together."""
    return resource.startswith(_MIXED)


def is_device_slot(resource: str) -> bool:
    """Whether the resource is a projected set of devices of claims."""
    return resource.startswith(DEVICE_SLOT)
