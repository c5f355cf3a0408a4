"""The devices of one session: how many pods each node has devices for, and which devices they get."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.device_needs import DeviceNeeds, Need
from phalanx.framework.extended_nodes import ExtendedNodes
from phalanx.framework.settled_gangs import SettledGangs
from phalanx.framework.shared_choices import EVERYWHERE, PodCapacity, SharedChoices, devices_of
from phalanx.model.devices.claims import (
    Allocation,
    Claim,
    ClaimGrant,
    ClaimSpec,
    DeviceClass,
    special_uid,
)
from phalanx.model.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.devices.joint_slots import PlainKinds
from phalanx.model.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.pod_claims import Unresolved, own_claims
from phalanx.model.devices.pools import DeviceId
from phalanx.model.devices.slots import SlotCounter, Slots
from phalanx.model.devices.special_claims import claim_on, spec_of
from phalanx.model.extended_resources import SpecialClaim, special_claim, special_name
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.snapshot import Snapshot

PLENTY: Final = 1 << 20
"""More pods than a node can run."""

NONE_TAKEN: Final = frozenset[DeviceId]()
_OTHER_NODES: Final = "the devices of its shared claims cannot be used from the node"
_NO_SHARED: Final = "not enough free devices match its shared claims"

Granted = Mapping[PodUid, tuple[ClaimGrant, ...]]
"""The claims of each pod, with what was decided for them."""


class DeviceChanges:
    """What a cycle has changed so far. Devices that several nodes can use are under EVERYWHERE."""

    def __init__(self) -> None:
        self.taken: dict[NodeName, frozenset[DeviceId]] = {}
        """By node, the devices that claims got."""
        self.freed: dict[NodeName, frozenset[DeviceId]] = {}
        """By node, the devices of pods that are assumed to have ended."""
        self.shared: dict[str, Allocation] = {}
        """By UID of the claim, what claims got that several pods use."""


class Granting(Struct, frozen=True):
    """Devices for some pods on a node: the grants, and the changes that they cause."""

    granted: Granted
    taken: Mapping[NodeName, frozenset[DeviceId]]
    shared: Mapping[str, Allocation]


class DeviceCache:
    """What sessions share: results of selectors, and counts while the classes are the same objects."""

    def __init__(self) -> None:
        self.matcher: Final = Matcher()
        self.settled: Final = SettledGangs()
        self._nodes = ExtendedNodes()
        self._classes: Mapping[str, DeviceClass] = {}
        self._counters: dict[tuple[ClaimSpec, ...], SlotCounter] = {}
        self._state: tuple[ClusterDevices, DeviceState] | None = None

    def state(self, devices: ClusterDevices) -> DeviceState:
        """The state of these devices; that of the last session if nothing has changed."""
        if self._state is None or self._state[0] is not devices:
            earlier = self._state[1] if self._state is not None else None
            self._state = (devices, DeviceState(devices, self.matcher, earlier))
        return self._state[1]

    def with_extended(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the extended resources that devices of nodes provide."""
        return self._nodes.added_to(snapshot, self.state(snapshot.devices))

    def counters(self, classes: Mapping[str, DeviceClass]) -> dict[tuple[ClaimSpec, ...], SlotCounter]:
        """The counters for these classes, by what they count."""
        if classes is not self._classes:
            self._classes, self._counters = classes, {}
        return self._counters


class SessionDevices:
    """Counts and allocates. What is taken in the session is kept by the statements that take it."""

    def __init__(
        self,
        devices: ClusterDevices,
        cache: DeviceCache,
        changes: DeviceChanges,
        nodes: Mapping[NodeName, NodeState],
        capacity: PodCapacity,
    ) -> None:
        """`changes`: those of the cycle so far. `capacity`: how many pods fit a node apart from devices."""
        self._state = cache.state(devices)
        self._extended = devices.extended
        self._changes = changes
        self._choices = SharedChoices(self._state, nodes, capacity, changes.shared)
        self._counters = cache.counters(devices.classes)
        self._counted: dict[tuple[Need, NodeName], tuple[object, Slots]] = {}
        self._joint: dict[tuple[PlainKinds, NodeName], tuple[object, tuple[int, ...] | None]] = {}
        self.needs: Final = DeviceNeeds(devices, self._state, cache.matcher, cache.settled)

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need the node has devices now: so many can be allocated together.

        A device that several nodes can use does not count for claims of one pod, since what nodes have of it
        does not add up.
        """
        return self._slots(need, node).count

    def free_for_any(self, kinds: PlainKinds, node: Node) -> tuple[int, ...] | None:
        """For each set of these kinds of requests, how many free devices match one of them; None if
        that does not tell what fits."""
        taken, freed = self._taken(node.name), self._freed(node.name)
        known = self._joint.get((kinds, node.name))
        if known is None or known[0] != (taken, freed):
            place = self._state.on(node, besides=taken, without=freed)
            known = ((taken, freed), self._state.free_for_any(kinds, place))
            self._joint[kinds, node.name] = known
        return known[1]

    def why_none(self, need: Need, node: Node) -> str:
        """Why the node has no devices for a pod; empty if it has some."""
        slots = self._slots(need, node)
        return slots.reason or "no free devices" if slots.count <= 0 else ""

    def _slots(self, need: Need, node: Node) -> Slots:
        if need.objection is not None:
            return Slots(0, is_exact=True, reason=need.objection.message)
        taken, freed = self._taken(node.name), self._freed(node.name)
        if need.shared:
            allocations = self._choices.allocations(need.name, self.needs.use_of(need), taken, freed)
            if allocations is None:
                return Slots(0, is_exact=True, reason=_NO_SHARED)
            if not all(each.nodes.allows(node) for each in allocations):
                return Slots(0, is_exact=True, reason=_OTHER_NODES)
            taken |= devices_of(allocations)
        claims = self.claims_on(need, node)
        if not claims:
            return Slots(PLENTY, is_exact=True)
        known = self._counted.get((need, node.name))
        if known is None or known[0] != (taken, freed):
            counter = self._counters.get(claims)
            if counter is None:
                counter = self._counters[claims] = self._state.slots(claims)
            place = self._state.on(node, besides=taken, without=freed)
            slots = counter.count(place, CLAIM_SEARCH_DEVICES_MAX)
            if slots.uses_shared_pools:
                text = "a claim of one pod with devices that several nodes can use is not supported yet"
                slots = replace(slots, count=0, reason=text)
            known = ((taken, freed), slots)
            self._counted[need, node.name] = known
        return known[1]

    def claims_on(self, need: Need, node: Node) -> tuple[ClaimSpec, ...]:
        """The claims of a pod on the node: extended resources that it offers itself need none there."""
        special = self._special(need, node)
        return need.claims if special is None else (*need.claims, spec_of(special))

    def all_claims(self, need: Need) -> tuple[ClaimSpec, ...]:
        """The claims of a pod on nodes that offer none of its extended resources."""
        asked = need.extended
        backed = [each for each in asked.resources if each in self._extended] if asked is not None else ()
        if asked is None or not backed:
            return need.claims
        return (*need.claims, spec_of(special_claim(asked, backed, self._extended)))

    def _special(self, need: Need, node: Node) -> SpecialClaim | None:
        return None if need.extended is None else claim_on(need.extended, node, self._extended)

    def _taken(self, node: NodeName) -> frozenset[DeviceId]:
        taken = self._changes.taken
        return taken.get(node, NONE_TAKEN) | taken.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def _freed(self, node: NodeName) -> frozenset[DeviceId]:
        freed = self._changes.freed
        return freed.get(node, NONE_TAKEN) | freed.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def allocate(self, node: Node, pods: Sequence[Pod]) -> Granting | None:
        """Devices for these pods together; None if there are not enough.

        One pod after the other is tried first, as the counts are made.
        """
        need = self.needs.of(pods[0].shape)
        shared, taken = {}, self._taken(node.name)
        if need.shared:
            use = self.needs.use_of(need)
            found = self._choices.allocations(need.name, use, taken, self._freed(node.name))
            if found is None or not all(each.nodes.allows(node) for each in found):
                return None
            shared = {
                claim.uid: each
                for claim, each in zip(use.claims, found, strict=True)
                if claim.allocation is None
            }
            taken |= devices_of(tuple(shared.values()))
        special = {pod.uid: self._special(self.needs.of(pod.shape), node) for pod in pods}
        claims = [self._own_claims(pod, special[pod.uid]) for pod in pods]
        own = self._one_by_one(node, pods, claims, taken) or self._together(node, pods, claims, taken)
        if own is None:
            return None
        granted = {pod.uid: self._in_order(pod, own[pod.uid], shared, special[pod.uid]) for pod in pods}
        return Granting(granted, self._taken_by(node, own, shared), shared)

    def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        found = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        return () if isinstance(found, Unresolved) else found

    def _own_claims(self, pod: Pod, special: SpecialClaim | None) -> tuple[Claim, ...]:
        """Those that were made for the pod, and the one that is to be made for its extended resources."""
        own = own_claims(pod.device_claims)
        found = [each for each in self._claims(pod) if each.name in own]
        if special is not None:
            name = special_name(pod.name, pod.uid)
            found.append(Claim(pod.namespace, name, special_uid(pod.uid), spec_of(special)))
        return tuple(found)

    def _in_order(
        self,
        pod: Pod,
        own: Sequence[ClaimGrant],
        shared: Mapping[str, Allocation],
        special: SpecialClaim | None,
    ) -> tuple[ClaimGrant, ...]:
        """The grants of all claims of the pod, in the order in which it names them; then the one for its
        extended resources."""
        decided = {each.uid: each for each in own}
        named = [
            decided.get(claim.uid)
            or ClaimGrant(claim.namespace, claim.name, claim.uid, shared.get(claim.uid))
            for claim in self._claims(pod)
        ]
        made = decided.get(special_uid(pod.uid))
        return (*named, replace(made, special=special)) if made is not None else tuple(named)

    def _taken_by(
        self, node: Node, own: Granted, shared: Mapping[str, Allocation]
    ) -> dict[NodeName, frozenset[DeviceId]]:
        """All that the cycle has then taken, for the keys that change."""
        found = {}
        if any(own.values()):
            here = devices_of([each.allocation for some in own.values() for each in some if each.allocation])
            found[node.name] = self._changes.taken.get(node.name, NONE_TAKEN) | here
        if shared:
            key = NodeName(EVERYWHERE)
            found[key] = self._changes.taken.get(key, NONE_TAKEN) | devices_of(tuple(shared.values()))
        return found

    def _one_by_one(
        self, node: Node, pods: Sequence[Pod], claims: Sequence[tuple[Claim, ...]], taken: frozenset[DeviceId]
    ) -> Granted | None:
        granted = {}
        for pod, own in zip(pods, claims, strict=True):
            place = self._state.on(node, besides=taken, without=self._freed(node.name))
            answer = self._state.allocate(own, place)
            if answer.claims is None:
                return None
            granted[pod.uid] = grants(own, answer, node)
            taken |= devices_of([each.allocation for each in granted[pod.uid] if each.allocation])
        return granted

    def _together(
        self, node: Node, pods: Sequence[Pod], claims: Sequence[tuple[Claim, ...]], taken: frozenset[DeviceId]
    ) -> Granted | None:
        everything = [claim for own in claims for claim in own]
        place = self._state.on(node, besides=taken, without=self._freed(node.name))
        answer = self._state.allocate(everything, place)
        if answer.claims is None:
            return None
        found = iter(grants(everything, answer, node))
        return {pod.uid: tuple(next(found) for _ in own) for pod, own in zip(pods, claims, strict=True)}

    def freed_by(self, pods: Sequence[Pod]) -> dict[NodeName, frozenset[DeviceId]]:
        """All devices that are free when these pods have ended as well, for the keys that change.

        Those of a claim that other pods use too stay in use.
        """
        ended = {pod.uid for pod in pods}
        found: dict[NodeName, frozenset[DeviceId]] = {}
        for pod in pods:
            for claim in self._claims(pod) if pod.device_claims else ():
                if claim.allocation is not None and ended.issuperset(claim.reserved_for):
                    local = NodeName(claim.allocation.nodes.only_node or EVERYWHERE)
                    before = found.get(local, self._changes.freed.get(local, NONE_TAKEN))
                    found[local] = before | devices_of((claim.allocation,))
        return found

    def are_any_in_use(self, devices: Iterable[Sequence[DeviceId]]) -> bool:
        """Whether claims have some of these devices, as the cycle began."""
        return any(self._state.is_in_use(each) for some in devices for each in some)

    def are_renewed(self, pod: Pod) -> bool:
        """Whether all claims of this pod are its own, on devices of its node, and end with it: then the next
        pod gets claims of its own."""
        entries = [each for each in pod.device_claims if not each.is_needless]
        if not all(each.is_own and not each.is_special for each in entries):
            return False
        found = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        return not isinstance(found, Unresolved) and all(
            each.allocation is not None
            and each.allocation.nodes.only_node == pod.node
            and {*each.reserved_for} == {pod.uid}
            for each in found
        )

    def counts_with(
        self, kinds: PlainKinds, node: Node, ended: frozenset[DeviceId]
    ) -> tuple[int, ...] | None:
        """As `free_for_any`, if these devices were free as well."""
        if not ended:
            return self.free_for_any(kinds, node)
        freed = self._freed(node.name) | ended
        return self._state.free_for_any(
            kinds, self._state.on(node, besides=self._taken(node.name), without=freed)
        )

    def given_up(
        self, grants_of: Sequence[tuple[NodeName, ClaimGrant]]
    ) -> dict[NodeName, frozenset[DeviceId]]:
        """What the cycle has taken when these grants of claims of one pod are given up."""
        found: dict[NodeName, frozenset[DeviceId]] = {}
        for node, each in grants_of:
            if each.allocation is not None and each.uid not in self._changes.shared:
                before = found.get(node, self._changes.taken.get(node, NONE_TAKEN))
                found[node] = before - devices_of((each.allocation,))
        return found
