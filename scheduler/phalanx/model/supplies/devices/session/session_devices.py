"""The devices of one session: how many pods each node has devices for, and which devices they get."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Assignments, Pod, PodClaim
from phalanx.model.reasons import Objection, Reason
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.allocator import Candidate
from phalanx.model.supplies.devices.claims import (
    Allocation,
    Claim,
    ClaimGrant,
    ClaimSpec,
    Request,
    special_uid,
)
from phalanx.model.supplies.devices.extended_resources import SpecialClaim, special_claim, special_name
from phalanx.model.supplies.devices.joint_slots import FreeDevices, PlainKinds, plain_kinds
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.pod_claims import Unresolved, own_claims
from phalanx.model.supplies.devices.pools import PoolId
from phalanx.model.supplies.devices.session.cache import DeviceCache
from phalanx.model.supplies.devices.session.claim_users import claims_of_next
from phalanx.model.supplies.devices.session.counts import SessionCounts
from phalanx.model.supplies.devices.session.grants import (
    ClaimingPods,
    DeviceChanges,
    DeviceGrants,
    Granted,
    Granting,
    Places,
    claims_of_placeholder,
    depends_on_others,
    devices_granted,
    in_order,
)
from phalanx.model.supplies.devices.session.member_claims import ClaimsOfMembers
from phalanx.model.supplies.devices.session.needs import DeviceNeeds, Need
from phalanx.model.supplies.devices.session.shared_amounts import (
    BOUNDS,
    DeviceBounds,
    DevicesNow,
    SharedDeviceAmounts,
    Wanted,
)
from phalanx.model.supplies.devices.session.shared_choices import (
    EVERYWHERE,
    PodCapacity,
    SharedChoices,
    devices_of,
)
from phalanx.model.supplies.devices.session.shared_devices import SharedDevices
from phalanx.model.supplies.devices.shared_pools import SharedPools
from phalanx.model.supplies.devices.slots import Slots
from phalanx.model.supplies.devices.special_claims import claim_on, spec_of
from phalanx.model.supplies.devices.uses import DeviceUse
from phalanx.model.supplies.supply import SessionSupply, SharedAmounts

PLENTY: Final = 1 << 20
"""More pods than a node can run."""

NONE_TAKEN: Final = frozenset[DeviceUse]()
_OTHER_NODES: Final = "the devices of its shared claims cannot be used from the node"
_FIXED: Final = "the devices of its claims cannot be used from the node"
_LACKING: Final = "devices that several nodes can use do not suffice together for the claims of its pods"
_NO_SHARED: Final = "not enough free devices match its shared claims"


class SessionDevices(SessionSupply):
    """Counts and allocates. What is taken in the session is kept by the statements that take it."""

    reason = Reason.INSUFFICIENT_CAPACITY
    next_step = "Wait until claims release devices, or let claims ask for fewer kinds of devices"

    def __init__(
        self,
        snapshot: Snapshot,
        cache: DeviceCache,
        changes: DeviceChanges,
        nodes: Mapping[NodeName, NodeState],
        capacity: PodCapacity,
    ) -> None:
        """`changes`: those of the cycle so far. `capacity`: how many pods fit a node apart from devices."""
        devices, gangs = snapshot.devices, snapshot.gangs.values()
        self._state = cache.state(devices)
        self._extended = devices.extended
        self._are_unallocated = devices.are_unallocated
        self._changes = changes
        self._counters = cache.counters(devices.classes)
        self.bounds = BOUNDS
        """What is assumed of nodes at present."""
        self._counted: dict[tuple[Need, NodeName], tuple[object, Slots]] = {}
        self._joint: dict[tuple[PlainKinds, NodeName], tuple[object, FreeDevices]] = {}
        self._all: tuple[tuple[object, ...], frozenset[DeviceUse]] = ((), NONE_TAKEN)
        self._nodes = nodes
        self._anywhere: dict[Need, tuple[ClaimSpec, ...]] = {}
        self._cache = cache
        self._bounds: dict[object, tuple[object, tuple[SharedAmounts, ...]]] = {}
        moved = frozenset(pod for each in snapshot.memory.moves.values() for pod in each.pods)
        self.needs: Final = DeviceNeeds(
            devices, self._state, gangs, cache.matcher, cache.settled, snapshot.now, moved
        )
        self.counts: Final = SessionCounts(cache.counts, self._state, lambda: self._shared_pools)
        """How many devices there are, for queues."""
        choices = SharedChoices(self._state, nodes, capacity, self._own_devices, changes.shared)
        changed = (self._all_taken, self._all_freed)
        self.shared: Final = SharedDevices(choices, self.needs, changed)
        """The devices of claims that pods of a gang share."""
        self.members: Final = ClaimsOfMembers(self._state, cache.compositions)
        """What members of gangs ask of devices."""

    def with_needs(self, gang: Gang) -> Gang:
        """With what the claims need."""
        return self.needs.with_needs(gang)

    def pod_with_needs(self, pod: Pod) -> Pod:
        """With what its claims need."""
        return self.needs.pod_with_need(pod)

    def objection(self, gang: Gang) -> Objection | None:
        """Why the claims cannot have devices."""
        return self.needs.objection(gang)

    def lacking(self, assignments: Assignments) -> str | None:
        """Counts are not exact for claims that are not plain, and where devices of several nodes and those of
        one node match the same requests."""
        if self.may_decline(assignments) and self.allocate(assignments) is None:
            return _LACKING
        return None

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need the node has devices now: so many can be allocated together.

        A device that several nodes can use counts on each of them: see `shared_amounts_for`.
        """
        return self._slots(need, node).count

    def free_for_any(self, kinds: PlainKinds, needs: Sequence[Need], node: Node) -> FreeDevices:
        """For each set of these kinds of requests, how many free devices match one of them. Devices that are
        chosen for claims that are shared are not free."""
        taken, freed = self._taken_beside_shared(needs, node), self._freed(node.name)
        known = self._joint.get((kinds, node.name))
        if known is None or known[0] != (taken, freed):
            place = self._state.on(node, besides=taken, without=freed)
            known = ((taken, freed), self._state.free_for_any(kinds, place))
            self._joint[kinds, node.name] = known
        return known[1]

    def key(self, pods: Sequence[Pod]) -> Hashable:
        """Equal while the same is assumed of the devices of nodes, for such pods of a gang."""
        return self.shared.key(pods), self.bounds

    @contextmanager
    def assuming(self, bounds: DeviceBounds) -> Iterator[None]:
        """Within this context, this is assumed of nodes."""
        before, self.bounds = self.bounds, bounds
        try:
            yield
        finally:
            self.bounds = before

    def _taken_beside_shared(self, needs: Sequence[Need], node: Node) -> frozenset[DeviceUse]:
        """What the cycle has taken, and what is chosen for claims that are shared."""
        taken = self._taken(node.name)
        for users in dict.fromkeys(need.users for need in needs):
            need = next(each for each in needs if each.users == users)
            taken |= devices_of(tuple(self.shared.chosen(need).values()))
        return taken

    def why_none(self, need: Need, node: Node) -> str:
        """Why the node has no devices for a pod; empty if it has some."""
        slots = self._slots(need, node)
        return slots.reason or "no free devices" if slots.count <= 0 else ""

    def _slots(self, need: Need, node: Node) -> Slots:
        if need.objection is not None:
            return Slots(0, is_exact=True, reason=need.objection.message)
        if not self._allows(need, node):
            return Slots(0, is_exact=True, reason=_FIXED)
        taken, freed = self._taken(node.name), self._freed(node.name)
        if need.users:
            chosen, own = self.shared.chosen(need), self.shared.of_pod(need)
            if None in own:
                return Slots(0, is_exact=True, reason=_NO_SHARED)
            if not all(each is not None and each.nodes.allows(node) for each in own):
                return Slots(0, is_exact=True, reason=_OTHER_NODES)
            taken |= devices_of(tuple(chosen.values()))
        return self._own_slots(need, node, taken, freed)

    def _allows(self, need: Need, node: Node) -> bool:
        """Whether claims that have devices already can be used from the node."""
        return self._are_unallocated or all(each.allows(node) for each in need.allowed)

    def _own_devices(self, pod: Pod, node: Node, taken: frozenset[DeviceUse]) -> int:
        """For how many such pods the node has devices of their own beside these."""
        return self._own_slots(self.needs.of(pod.shape), node, taken, self._freed(node.name)).count

    def _own_slots(
        self, need: Need, node: Node, taken: frozenset[DeviceUse], freed: frozenset[DeviceUse]
    ) -> Slots:
        """For how many pods the node has devices of their own."""
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

    def taken_besides(self, held: Places) -> Places:
        """What the cycle has taken, without these."""
        return {node: some - held.get(node, NONE_TAKEN) for node, some in self._changes.taken.items()}

    def _taken(self, node: NodeName) -> frozenset[DeviceUse]:
        taken = self._changes.taken
        return taken.get(node, NONE_TAKEN) | taken.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def _freed(self, node: NodeName) -> frozenset[DeviceUse]:
        freed = self._changes.freed
        return freed.get(node, NONE_TAKEN) | freed.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def _all_taken(self) -> frozenset[DeviceUse]:
        """What the cycle has taken, on any node."""
        taken = tuple(self._changes.taken.values())
        if self._all[0] != taken:
            self._all = (taken, NONE_TAKEN.union(*taken))
        return self._all[1]

    def _all_freed(self) -> frozenset[DeviceUse]:
        return NONE_TAKEN.union(*self._changes.freed.values())

    def shared_amounts_for(self, gang: Gang) -> Sequence[SharedAmounts]:
        """What several nodes have together for the waiting pods of the gang, where they need more."""
        if not gang.claims_devices or not self._state.inventory.shared_pools:
            return ()
        waiting = [pod for pod in gang.members if pod.shape.device_slot and pod.is_waiting and not pod.gated]
        names = Counter(pod.shape.device_slot for pod in waiting)
        first = {pod.shape.device_slot: pod for pod in reversed(waiting)}
        needs = {name: self.needs.of_pod(first[name]) for name in names}
        claims = {name: self._claims_anywhere(need) for name, need in needs.items()}
        key = tuple((name, names[name]) for name in needs if claims[name])
        if not key:
            return ()
        changed = (self._all_taken(), self._all_freed())
        known = self._bounds.get(key)
        if known is None or known[0] != changed:
            wanted = [Wanted(name, claims[name], pods) for name, pods in key]
            kinds = plain_kinds([spec for each in needs.values() for spec in self.all_claims(each)])
            known = self._bounds[key] = (changed, tuple(self.supply.shared_amounts(wanted, kinds)))
        return known[1]

    def _claims_anywhere(self, need: Need) -> tuple[ClaimSpec, ...]:
        """The claims that a pod has on whichever node it runs; none if it cannot have any."""
        if need.objection is not None:
            return ()
        if need.extended is None:
            return need.claims
        known = self._anywhere.get(need)
        if known is None:
            found, nodes = self.all_claims(need), (state.node for state in self._nodes.values())
            is_same = all(self.claims_on(need, node) == found for node in nodes)
            known = self._anywhere[need] = found if is_same else need.claims
        return known

    @cached_property
    def supply(self) -> SharedDeviceAmounts:
        """What several nodes have together."""
        return SharedDeviceAmounts(
            self._shared_pools, lambda: DevicesNow(self._state, self._all_taken(), self._all_freed())
        )

    @cached_property
    def _shared_pools(self) -> SharedPools:
        nodes = tuple([state.node for state in self._nodes.values()])
        return self._cache.shared_pools(self._state, nodes)

    def at_most(self, need: Need) -> int | None:
        """No more pods with this need have devices together; None if that is not bounded."""
        claims = self._claims_anywhere(need) if self._state.inventory.shared_pools else ()
        return self.supply.most(claims) if claims else None

    def may_decline(self, assignments: Assignments) -> bool:
        """Whether it is not certain that these pods can have devices where they are placed."""
        needs = {pod.shape.device_slot for _, pods in assignments for pod in pods} - {""}
        if len(needs) > 1:
            return True
        return bool(self._state.inventory.shared_pools) and any(
            self.supply.uses(self.all_claims(self.needs.of_name(name))) for name in needs
        )

    def allocate(self, assignments: Assignments) -> Granting | None:
        """Devices for these pods of one gang together; None if there are not enough.

        One pod after the other is tried first, as the counts are made. Where several nodes can use a device,
        pods then get devices of their own nodes first; and at last all claims are allocated together.
        """
        on_node: dict[NodeName, list[Pod]] = {}
        for node, pods in assignments:
            on_node.setdefault(node, []).extend(pod for pod in pods if pod.shape.device_slot)
        wanted = [self._asking(node, pods) for node, pods in on_node.items() if pods]
        chosen = self.shared.chosen(wanted[0].needs[0])
        shared: dict[str, Allocation] = {}
        for each in wanted:
            if not all(self._allows(need, each.node) for need in each.needs):
                return None
            for claim in (claim for need in each.needs for claim in self.shared.claims(need)):
                found = chosen.get(claim.uid)
                if found is None or not found.nodes.allows(each.node):
                    return None
                if claim.allocation is None:
                    shared[claim.uid] = found
        taken = devices_of(tuple(chosen.values()))
        grants = DeviceGrants(self._state, self._taken, self._freed, self.count)
        own = grants.in_turn(wanted, taken, is_local=False)
        if own is None and self._state.inventory.shared_pools:
            if not any(depends_on_others(spec) for each in wanted for spec in each.specs):
                own = grants.in_turn(wanted, taken, is_local=True)
            own = own or grants.on_all(wanted, taken)
        if own is None:
            return None
        granted = {
            pod.uid: in_order(pod, self._claims(pod), own[pod.uid], shared, each.special[pod.uid])
            for each in wanted
            for pod in each.pods
        }
        return Granting(granted, self._taken_by(wanted, own, shared), shared)

    def _asking(self, name: NodeName, pods: Sequence[Pod]) -> ClaimingPods:
        node = self._nodes[name].node
        needs = [self.needs.of(pod.shape) for pod in pods]
        special = {pod.uid: self._special(need, node) for pod, need in zip(pods, needs, strict=True)}
        own = [self._own_claims(pod, need, special[pod.uid]) for pod, need in zip(pods, needs, strict=True)]
        return ClaimingPods(node, tuple(pods), tuple(needs), special, tuple(own))

    def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        found = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        return () if isinstance(found, Unresolved) else found

    def _own_claims(self, pod: Pod, need: Need, special: SpecialClaim | None) -> tuple[Claim, ...]:
        """Those that were made for the pod, and the one that is to be made for its extended resources.

        Those of a placeholder do not exist.
        """
        own = own_claims(pod.device_claims)
        found = [each for each in self._claims(pod) if each.name in own]
        if self.needs.claims_of_lost(pod) is not None:
            found = claims_of_placeholder(pod, need)
        if special is not None:
            name = special_name(pod.name, pod.uid)
            found.append(Claim(pod.namespace, name, special_uid(pod.uid), spec_of(special)))
        return tuple(found)

    def _taken_by(
        self, wanted: Sequence[ClaimingPods], own: Granted, shared: Mapping[str, Allocation]
    ) -> dict[NodeName, frozenset[DeviceUse]]:
        """All that the cycle has then taken, for the keys that change."""
        found: dict[NodeName, frozenset[DeviceUse]] = {}
        for each in wanted:
            devices = devices_granted({pod.uid: own[pod.uid] for pod in each.pods})
            for key, some in self.by_place(each.node.name, devices):
                before = found.get(key, self._changes.taken.get(key, NONE_TAKEN))
                found[key] = before | some
        if shared:
            key = NodeName(EVERYWHERE)
            before = found.get(key, self._changes.taken.get(key, NONE_TAKEN))
            found[key] = before | devices_of(tuple(shared.values()))
        return found

    def by_place(
        self, node: NodeName, devices: frozenset[DeviceUse]
    ) -> list[tuple[NodeName, frozenset[DeviceUse]]]:
        """These devices of a node, without those that others can use; and these."""
        pools = self._state.inventory.shared_pools
        others = frozenset(each for each in devices if (each[0], each[1]) in pools) if pools else NONE_TAKEN
        parts = ((node, devices - others), (NodeName(EVERYWHERE), others))
        return [(key, some) for key, some in parts if some]

    def unshared(self, assignments: Assignments, granted: Granted) -> dict[NodeName, frozenset[DeviceUse]]:
        """The granted devices of claims that no pods of other gangs share, by place."""
        found: dict[NodeName, frozenset[DeviceUse]] = {}
        for node, pod in [(node, pod) for node, pods in assignments for pod in pods]:
            need = self.needs.of(pod.shape)
            own = {claim.uid for key, claim in self.needs.shared_claims(need).items() if key in need.renewed}
            for each in granted.get(pod.uid, ()):
                is_held = each.uid in own or each.uid not in self._changes.shared
                if each.allocation is not None and is_held:
                    for place, devices in self.by_place(node, devices_of((each.allocation,))):
                        found[place] = found.get(place, NONE_TAKEN) | devices
        return found

    def pools_of(self, node: Node) -> frozenset[PoolId]:
        """The pools of which the node can use devices."""
        return frozenset(pool.id for pool in self._state.node_pools.of(node))

    def freed_by(
        self, pods: Sequence[Pod], ended: Container[PodUid] = ()
    ) -> dict[NodeName, frozenset[DeviceUse]]:
        """All devices that are free when these pods have ended as well as `ended` ones, for keys that change.

        Those of a claim that other pods use too stay in use.
        """
        gone = {pod.uid for pod in pods}
        found: dict[NodeName, frozenset[DeviceUse]] = {}
        for pod in pods:
            for claim in self._claims(pod) if pod.device_claims else ():
                is_unused = all(user in gone or user in ended for user in claim.reserved_for)
                if claim.allocation is not None and is_unused:
                    local = NodeName(claim.allocation.nodes.only_node or EVERYWHERE)
                    for key, devices in self.by_place(local, devices_of((claim.allocation,))):
                        before = found.get(key, self._changes.freed.get(key, NONE_TAKEN))
                        found[key] = before | devices
        return found

    def uses_of(self, pods: Sequence[Pod]) -> frozenset[DeviceUse]:
        """What the claims of these pods have, as the cycle began."""
        claims = [claim for pod in pods if pod.device_claims for claim in self._claims(pod)]
        return devices_of([claim.allocation for claim in claims if claim.allocation])

    def are_any_in_use(self, devices: Iterable[Sequence[DeviceUse]]) -> bool:
        """Whether claims have some of these devices, or too much of some, as the cycle began."""
        return not self._state.can_use([each for some in devices for each in some])

    def claims_of_next(self, pod: Pod, gang: Gang) -> tuple[PodClaim, ...] | None:
        """The claims of the pod that its controller creates when the whole gang is moved; None if it is not
        known which devices they can have."""
        return claims_of_next(pod, gang, self._state, self.needs.users)

    def matching(
        self, requests: Sequence[Request], node: Node
    ) -> tuple[list[Candidate], frozenset[DeviceUse]]:
        """The devices that one of the requests may have on the node, and what is in use there."""
        place = self._state.on(node, besides=self._taken(node.name), without=self._freed(node.name))
        return self._state.matching(requests, place), place.in_use

    def counts_with(
        self, kinds: PlainKinds, node: Node, ended: frozenset[DeviceUse]
    ) -> tuple[int, ...] | None:
        """As `free_for_any`, if these devices were free as well; None where there are shares: what they free
        does not add up."""
        freed = self._freed(node.name) | ended
        place = self._state.on(node, besides=self._taken(node.name), without=freed)
        found = self._state.free_for_any(kinds, place)
        return None if found.has_shares else found.least

    def given_up(
        self, grants_of: Sequence[tuple[NodeName, ClaimGrant]]
    ) -> dict[NodeName, frozenset[DeviceUse]]:
        """What the cycle has taken when these grants of claims of one pod are given up."""
        found: dict[NodeName, frozenset[DeviceUse]] = {}
        for node, each in grants_of:
            if each.allocation is not None and each.uid not in self._changes.shared:
                for key, devices in self.by_place(node, devices_of((each.allocation,))):
                    before = found.get(key, self._changes.taken.get(key, NONE_TAKEN))
                    found[key] = before - devices
        return found
