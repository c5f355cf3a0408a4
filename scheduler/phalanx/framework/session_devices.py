"""The devices of one session: how many pods each node has devices for, and which devices they get."""

from collections.abc import Mapping, Sequence
from typing import Final

from phalanx.framework.device_needs import DeviceNeeds, Need
from phalanx.model.devices.claims import Claim, ClaimGrant, ClaimSpec, DeviceClass
from phalanx.model.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.pod_claims import Unresolved
from phalanx.model.devices.pools import DeviceId
from phalanx.model.devices.slots import SlotCounter
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod

PLENTY: Final = 1 << 20
"""More pods than a node can run."""

NONE_TAKEN: Final = frozenset[DeviceId]()

Granted = Mapping[PodUid, tuple[ClaimGrant, ...]]
"""The claims of each pod, with what was decided for them."""


class DeviceCache:
    """What sessions share: results of selectors, and counts while the classes are the same objects."""

    def __init__(self) -> None:
        self.matcher: Final = Matcher()
        self._classes: Mapping[str, DeviceClass] = {}
        self._counters: dict[tuple[ClaimSpec, ...], SlotCounter] = {}
        self._state: tuple[ClusterDevices, DeviceState] | None = None

    def state(self, devices: ClusterDevices) -> DeviceState:
        """The state of these devices; that of the last session if nothing has changed."""
        if self._state is None or self._state[0] is not devices:
            self._state = (devices, DeviceState(devices, self.matcher))
        return self._state[1]

    def counters(self, classes: Mapping[str, DeviceClass]) -> dict[tuple[ClaimSpec, ...], SlotCounter]:
        """The counters for these classes, by what they count."""
        if classes is not self._classes:
            self._classes, self._counters = classes, {}
        return self._counters


class SessionDevices:
    """Counts and allocates. What is taken in the session is kept by the statements that take it."""

    def __init__(
        self, devices: ClusterDevices, cache: DeviceCache, taken: Mapping[NodeName, frozenset[DeviceId]]
    ) -> None:
        """`taken`: what this cycle has allocated so far on each node; it changes during the cycle."""
        self._state = cache.state(devices)
        self._taken = taken
        self._counters = cache.counters(devices.classes)
        self._counted: dict[tuple[Need, NodeName], tuple[frozenset[DeviceId], int]] = {}
        self.needs: Final = DeviceNeeds(devices, self._state, cache.matcher)

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need the node has devices now: so many can be allocated together.

        A device that several nodes can use does not count, since what they have of it does not add up.
        """
        if need.objection is not None or not need.claims:
            return 0 if need.objection is not None else PLENTY
        taken = self._taken.get(node.name, NONE_TAKEN)
        known = self._counted.get((need, node.name))
        if known is None or known[0] != taken:
            counter = self._counters.get(need.claims)
            if counter is None:
                counter = self._counters[need.claims] = self._state.slots(need.claims)
            slots = counter.count(self._state.on(node, besides=taken), CLAIM_SEARCH_DEVICES_MAX)
            known = (taken, 0 if slots.uses_shared_pools else slots.count)
            self._counted[need, node.name] = known
        return known[1]

    def allocate(self, node: Node, pods: Sequence[Pod]) -> tuple[Granted, frozenset[DeviceId]] | None:
        """Devices for these pods together, and all that the cycle has then taken on the node; None if there
        are not enough.

        One pod after the other is tried first, as the counts are made.
        """
        claims = [self._claims(pod) for pod in pods]
        return self._one_by_one(node, pods, claims) or self._together(node, pods, claims)

    def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        found = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        return () if isinstance(found, Unresolved) else found

    def _one_by_one(
        self, node: Node, pods: Sequence[Pod], claims: Sequence[tuple[Claim, ...]]
    ) -> tuple[Granted, frozenset[DeviceId]] | None:
        taken = self._taken.get(node.name, NONE_TAKEN)
        granted = {}
        for pod, own in zip(pods, claims, strict=True):
            answer = self._state.allocate(own, self._state.on(node, besides=taken))
            if answer.claims is None:
                return None
            granted[pod.uid] = grants(own, answer, node)
            taken |= _devices(granted[pod.uid])
        return granted, taken

    def _together(
        self, node: Node, pods: Sequence[Pod], claims: Sequence[tuple[Claim, ...]]
    ) -> tuple[Granted, frozenset[DeviceId]] | None:
        taken = self._taken.get(node.name, NONE_TAKEN)
        everything = [claim for own in claims for claim in own]
        answer = self._state.allocate(everything, self._state.on(node, besides=taken))
        if answer.claims is None:
            return None
        found = iter(grants(everything, answer, node))
        granted = {pod.uid: tuple(next(found) for _ in own) for pod, own in zip(pods, claims, strict=True)}
        for each in granted.values():
            taken |= _devices(each)
        return granted, taken


def _devices(granted: Sequence[ClaimGrant]) -> frozenset[DeviceId]:
    return frozenset(
        device.device
        for each in granted
        if each.allocation is not None
        for device in each.allocation.devices
        if not device.admin_access
    )
