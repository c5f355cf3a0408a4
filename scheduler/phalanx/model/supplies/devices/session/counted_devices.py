"""For how many pods each node has devices now, and what they may get there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Assignments, Pod, PodClaim
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.allocator import Candidate
from phalanx.model.supplies.devices.claims import (
    Claim,
    ClaimSpec,
    Request,
)
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.extended_resource_claims import claim_on, spec_of
from phalanx.model.supplies.devices.extended_resources import ExtendedResourceClaim, extended_resource_claim
from phalanx.model.supplies.devices.joint_slots import FreeDevices, PlainKinds
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.pools import PoolId
from phalanx.model.supplies.devices.session.cache import DeviceCache
from phalanx.model.supplies.devices.session.changes import DeviceChanges, claims_of
from phalanx.model.supplies.devices.session.claim_users import claims_of_next
from phalanx.model.supplies.devices.session.counts import SessionCounts
from phalanx.model.supplies.devices.session.member_claims import ClaimsOfMembers
from phalanx.model.supplies.devices.session.needs import DeviceNeeds, Need
from phalanx.model.supplies.devices.session.projection import PLENTY
from phalanx.model.supplies.devices.session.shared_amounts import (
    BOUNDS,
    DeviceBounds,
    DevicesNow,
    SharedDeviceAmounts,
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
from phalanx.model.supplies.devices.uses import NONE_TAKEN, DeviceUse
from phalanx.model.supplies.supply import SharedAmounts

_OTHER_NODES: Final = "the devices of its shared claims cannot be used from the node"
_FIXED: Final = "the devices of its claims cannot be used from the node"
_NO_SHARED: Final = "not enough free devices match its shared claims"


class CountedDevices:
    """Counts. What is taken in the session is kept by the statements that take it."""

    def __init__(
        self,
        snapshot: Snapshot,
        cache: DeviceCache,
        nodes: Mapping[NodeName, NodeState],
        capacity: PodCapacity,
    ) -> None:
        """`capacity`: how many pods fit a node apart from devices."""
        devices, gangs = snapshot.part(ClusterDevices), snapshot.gangs.values()
        self._state = cache.state(devices)
        self._extended = devices.extended
        self._are_unallocated = devices.are_unallocated
        self.changes: Final = DeviceChanges(self._state, nodes)
        """Those of the cycle so far."""
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
        choices = SharedChoices(self._state, nodes, capacity, self._own_devices, self.changes.shared)
        changed = (self._all_taken, self._all_freed)
        self.shared: Final = SharedDevices(choices, self.needs, changed)
        """The devices of claims that pods of a gang share."""
        self.members: Final = ClaimsOfMembers(self._state, cache.compositions)
        """What members of gangs ask of devices."""

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need the node has devices now: so many can be allocated together.

        A device that several nodes can use counts on each of them: see `shared_amounts`.
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
        extended_claim = self._extended_claim(need, node)
        return need.claims if extended_claim is None else (*need.claims, spec_of(extended_claim))

    def all_claims(self, need: Need) -> tuple[ClaimSpec, ...]:
        """The claims of a pod on nodes that offer none of its extended resources."""
        asked = need.extended
        backed = [each for each in asked.resources if each in self._extended] if asked is not None else ()
        if asked is None or not backed:
            return need.claims
        return (*need.claims, spec_of(extended_resource_claim(asked, backed, self._extended)))

    def _extended_claim(self, need: Need, node: Node) -> ExtendedResourceClaim | None:
        return None if need.extended is None else claim_on(need.extended, node, self._extended)

    def _taken(self, node: NodeName) -> frozenset[DeviceUse]:
        taken = self.changes.taken
        return taken.get(node, NONE_TAKEN) | taken.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def _freed(self, node: NodeName) -> frozenset[DeviceUse]:
        freed = self.changes.freed
        return freed.get(node, NONE_TAKEN) | freed.get(NodeName(EVERYWHERE), NONE_TAKEN)

    def _all_taken(self) -> frozenset[DeviceUse]:
        """What the cycle has taken, on any node."""
        taken = tuple(self.changes.taken.values())
        if self._all[0] != taken:
            self._all = (taken, NONE_TAKEN.union(*taken))
        return self._all[1]

    def _all_freed(self) -> frozenset[DeviceUse]:
        return NONE_TAKEN.union(*self.changes.freed.values())

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

    def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        return claims_of(pod, self._state)

    def pools_of(self, node: Node) -> frozenset[PoolId]:
        """The pools of which the node can use devices."""
        return frozenset(pool.id for pool in self._state.node_pools.of(node))

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
