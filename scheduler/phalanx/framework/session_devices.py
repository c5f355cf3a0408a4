"""The devices of one session: how many pods each node has devices for, and which devices they get."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.claiming_pods import (
    ClaimingPods,
    Granted,
    depends_on_others,
    device_count,
    devices_granted,
    granted_by_pod,
)
from phalanx.framework.device_cache import DeviceCache
from phalanx.framework.device_needs import DeviceNeeds, Need
from phalanx.framework.device_supply import DeviceSupply, Wanted
from phalanx.framework.shared_choices import (
    EVERYWHERE,
    Chosen,
    PodCapacity,
    SharedChoices,
    devices_of,
)
from phalanx.model.devices.allocator import NodeDevices
from phalanx.model.devices.claims import (
    Allocation,
    Claim,
    ClaimGrant,
    ClaimSpec,
    special_uid,
)
from phalanx.model.devices.cluster import grants
from phalanx.model.devices.joint_slots import PlainKinds, plain_kinds
from phalanx.model.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.devices.pod_claims import Unresolved, own_claims
from phalanx.model.devices.pools import DeviceId
from phalanx.model.devices.shared_claims import of_one_node
from phalanx.model.devices.slots import Slots
from phalanx.model.devices.special_claims import claim_on, spec_of
from phalanx.model.extended_resources import SpecialClaim, special_claim, special_name
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Assignments, Pod
from phalanx.model.rules import Budget
from phalanx.model.snapshot import Snapshot

PLENTY: Final = 1 << 20
"""More pods than a node can run."""

NONE_TAKEN: Final = frozenset[DeviceId]()
_OTHER_NODES: Final = "the devices of its shared claims cannot be used from the node"
_NO_SHARED: Final = "not enough free devices match its shared claims"


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


class SessionDevices:
    """Counts and allocates. What is taken in the session is kept by the statements that take it."""

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
        self._changes = changes
        self._choices = SharedChoices(self._state, nodes, capacity, self._own_devices, changes.shared)
        self._counters = cache.counters(devices.classes)
        self._counted: dict[tuple[Need, NodeName], tuple[object, Slots]] = {}
        self._joint: dict[tuple[PlainKinds, NodeName], tuple[object, tuple[int, ...] | None]] = {}
        self._all: tuple[tuple[object, ...], frozenset[DeviceId]] = ((), NONE_TAKEN)
        self._nodes = nodes
        self._cache = cache
        self._bounds: dict[object, tuple[object, tuple[Budget, ...]]] = {}
        self.declined: Final[set[GangId]] = set()
        """Gangs whose solved placement was not made: their claims cannot all have devices there."""
        self.needs: Final = DeviceNeeds(
            devices, self._state, gangs, cache.matcher, cache.settled, cache.counts
        )

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need the node has devices now: so many can be allocated together.

        A device that several nodes can use counts on each of them: see `budgets`.
        """
        return self._slots(need, node).count

    def free_for_any(self, kinds: PlainKinds, needs: Sequence[Need], node: Node) -> tuple[int, ...] | None:
        """For each set of these kinds of requests, how many free devices match one of them; None if
        that does not tell what fits. Devices that are chosen for claims that are shared are not free."""
        taken, freed = self._taken(node.name), self._freed(node.name)
        for users in dict.fromkeys(need.users for need in needs):
            need = next(each for each in needs if each.users == users)
            taken |= devices_of(tuple(self._shared(need).values()))
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
        if need.users:
            chosen = self._shared(need)
            own = [chosen.get(claim.uid) for claim in self._shared_claims(need)]
            if None in own:
                return Slots(0, is_exact=True, reason=_NO_SHARED)
            if not all(each is not None and each.nodes.allows(node) for each in own):
                return Slots(0, is_exact=True, reason=_OTHER_NODES)
            taken |= devices_of(tuple(chosen.values()))
        return self._own_slots(need, node, taken, freed)

    def _own_devices(self, pod: Pod, node: Node, taken: frozenset[DeviceId]) -> int:
        """For how many such pods the node has devices of their own beside these."""
        return self._own_slots(self.needs.of(pod.shape), node, taken, self._freed(node.name)).count

    def _shared(self, need: Need) -> Chosen:
        """The devices of the claims that pods of the gang share."""
        if not need.users:
            return {}
        use = self.needs.use_of(need)
        return self._choices.allocations(need.users, use, self._all_taken(), self._all_freed())

    def _shared_claims(self, need: Need) -> list[Claim]:
        """The claims that a pod shares with others."""
        found = [self._state.claim(*key) for key in need.shared]
        return [claim for claim in found if claim is not None]

    def _own_slots(
        self, need: Need, node: Node, taken: frozenset[DeviceId], freed: frozenset[DeviceId]
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
            if slots.uses_shared_pools and need.extended is not None:
                text = "extended resources with devices that several nodes can use are not supported yet"
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

    def _all_taken(self) -> frozenset[DeviceId]:
        """What the cycle has taken, on any node."""
        taken = tuple(self._changes.taken.values())
        if self._all[0] != taken:
            self._all = (taken, NONE_TAKEN.union(*taken))
        return self._all[1]

    def _all_freed(self) -> frozenset[DeviceId]:
        return NONE_TAKEN.union(*self._changes.freed.values())

    def budgets(self, gang: Gang) -> Sequence[Budget]:
        """What several nodes have together for the waiting pods of the gang, where they need more."""
        if not gang.claims_devices or not self._state.inventory.shared_pools:
            return ()
        waiting = [pod for pod in gang.members if pod.shape.device_slot and pod.is_waiting and not pod.gated]
        names = Counter(pod.shape.device_slot for pod in waiting)
        first = {pod.shape.device_slot: pod for pod in reversed(waiting)}
        needs = {name: self.needs.of_pod(first[name]) for name in names}
        key = tuple((name, names[name]) for name, need in needs.items() if self._may_share_pools(need))
        if not key:
            return ()
        changed = (self._all_taken(), self._all_freed())
        known = self._bounds.get(key)
        if known is None or known[0] != changed:
            wanted = [Wanted(name, needs[name].claims, pods) for name, pods in key]
            kinds = plain_kinds([spec for each in needs.values() for spec in self.all_claims(each)])
            known = self._bounds[key] = (changed, tuple(self.supply.budgets(wanted, kinds)))
        return known[1]

    def _may_share_pools(self, need: Need) -> bool:
        """Whether its claims may have devices that several nodes can use."""
        return bool(need.claims) and need.objection is None and need.extended is None

    @cached_property
    def supply(self) -> DeviceSupply:
        """What several nodes have together."""
        nodes = tuple([state.node for state in self._nodes.values()])
        return DeviceSupply(self._cache.shared_pools(self._state, nodes), self._free_now)

    def _free_now(self) -> Callable[[DeviceId], bool]:
        taken, freed, state = self._all_taken(), self._all_freed(), self._state
        return lambda each: each not in taken and (each in freed or not state.is_in_use(each))

    def at_most(self, need: Need) -> int | None:
        """No more pods with this need have devices together; None if that is not bounded."""
        if not self._state.inventory.shared_pools or not self._may_share_pools(need):
            return None
        return self.supply.most(need.claims)

    def may_decline(self, assignments: Assignments) -> bool:
        """Whether it is not certain that these pods can have devices where they are placed."""
        if not self._state.inventory.shared_pools:
            return False
        needs = {pod.shape.device_slot for _, pods in assignments for pod in pods} - {""}
        return any(self.supply.uses(self.needs.of_name(name).claims) for name in needs)

    def allocate(self, assignments: Assignments) -> Granting | None:
        """Devices for these pods of one gang together; None if there are not enough.

        One pod after the other is tried first, as the counts are made. Where several nodes can use a device,
        pods then get devices of their own nodes first; and at last all claims are allocated together.
        """
        wanted = [self._asking(node, pods) for node, pods in assignments]
        wanted = [each for each in wanted if each.pods]
        chosen = self._shared(wanted[0].needs[0])
        shared: dict[str, Allocation] = {}
        for each in wanted:
            for claim in (claim for need in each.needs for claim in self._shared_claims(need)):
                found = chosen.get(claim.uid)
                if found is None or not found.nodes.allows(each.node):
                    return None
                if claim.allocation is None:
                    shared[claim.uid] = found
        taken = devices_of(tuple(chosen.values()))
        own = self._in_turn(wanted, taken, is_local=False)
        if own is None and self._state.inventory.shared_pools:
            if not any(depends_on_others(spec) for each in wanted for spec in each.specs):
                own = self._in_turn(wanted, taken, is_local=True)
            own = own or self._on_all(wanted, taken)
        if own is None:
            return None
        granted = {
            pod.uid: self._in_order(pod, own[pod.uid], shared, each.special[pod.uid])
            for each in wanted
            for pod in each.pods
        }
        return Granting(granted, self._taken_by(wanted, own, shared), shared)

    def _asking(self, name: NodeName, pods: Sequence[Pod]) -> ClaimingPods:
        node = self._nodes[name].node
        claiming = tuple(pod for pod in pods if pod.shape.device_slot)
        needs = [self.needs.of(pod.shape) for pod in claiming]
        special = {pod.uid: self._special(need, node) for pod, need in zip(claiming, needs, strict=True)}
        own = [self._own_claims(pod, special[pod.uid]) for pod in claiming]
        return ClaimingPods(node, claiming, tuple(needs), special, tuple(own))

    def _in_turn(
        self, wanted: Sequence[ClaimingPods], taken: frozenset[DeviceId], *, is_local: bool
    ) -> Granted | None:
        """Devices for one node after the other. `is_local`: those that only the node can use come first."""
        granted: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        for each in wanted:
            here = taken | self._taken(each.node.name)
            found = None
            for only_local in (True, False) if is_local else (False,):
                found = (
                    found
                    or self._one_by_one(each, here, only_local=only_local)
                    or self._together(each, here, only_local=only_local)
                )
            if found is None:
                return None
            granted.update(found)
            taken |= devices_granted(found)
        return granted

    def _place(self, node: Node, taken: frozenset[DeviceId], *, only_local: bool) -> NodeDevices:
        place = self._state.on(node, besides=taken, without=self._freed(node.name))
        return of_one_node(place) if only_local else place

    def _on_all(self, wanted: Sequence[ClaimingPods], taken: frozenset[DeviceId]) -> Granted | None:
        """Devices for all nodes in one search."""
        if sum(device_count(spec) for each in wanted for spec in each.specs) > CLAIM_SEARCH_DEVICES_MAX:
            return None
        places = [
            self._place(each.node, taken | self._taken(each.node.name), only_local=False) for each in wanted
        ]
        everything = [[claim for own in each.claims for claim in own] for each in wanted]
        answer = self._state.allocate_on(list(zip(places, everything, strict=True)))
        if answer.claims is None:
            return None
        granted: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        start = 0
        for each, some in zip(wanted, everything, strict=True):
            end = start + sum(claim.allocation is None for claim in some)
            part = replace(answer, claims=answer.claims[start:end], candidates=answer.candidates[start:end])
            granted.update(granted_by_pod(each, grants(some, part, each.node)))
            start = end
        return granted

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
        self, wanted: Sequence[ClaimingPods], own: Granted, shared: Mapping[str, Allocation]
    ) -> dict[NodeName, frozenset[DeviceId]]:
        """All that the cycle has then taken, for the keys that change."""
        found: dict[NodeName, frozenset[DeviceId]] = {}
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
        self, node: NodeName, devices: frozenset[DeviceId]
    ) -> list[tuple[NodeName, frozenset[DeviceId]]]:
        """These devices of a node, without those that others can use; and these."""
        pools = self._state.inventory.shared_pools
        others = frozenset(each for each in devices if each[:2] in pools) if pools else NONE_TAKEN
        parts = ((node, devices - others), (NodeName(EVERYWHERE), others))
        return [(key, some) for key, some in parts if some]

    def _one_by_one(
        self, wanted: ClaimingPods, taken: frozenset[DeviceId], *, only_local: bool
    ) -> Granted | None:
        granted = {}
        for pod, own in zip(wanted.pods, wanted.claims, strict=True):
            answer = self._state.allocate(own, self._place(wanted.node, taken, only_local=only_local))
            if answer.claims is None:
                return None
            granted[pod.uid] = grants(own, answer, wanted.node)
            taken |= devices_of([each.allocation for each in granted[pod.uid] if each.allocation])
        return granted

    def _together(
        self, wanted: ClaimingPods, taken: frozenset[DeviceId], *, only_local: bool
    ) -> Granted | None:
        everything = [claim for own in wanted.claims for claim in own]
        answer = self._state.allocate(everything, self._place(wanted.node, taken, only_local=only_local))
        return (
            None if answer.claims is None else granted_by_pod(wanted, grants(everything, answer, wanted.node))
        )

    def unshared(self, assignments: Assignments, granted: Granted) -> dict[NodeName, frozenset[DeviceId]]:
        """The granted devices of claims that no other pods share, by place."""
        found: dict[NodeName, frozenset[DeviceId]] = {}
        for node, pods in assignments:
            for each in [grant for pod in pods for grant in granted.get(pod.uid, ())]:
                if each.allocation is not None and each.uid not in self._changes.shared:
                    for place, devices in self.by_place(node, devices_of((each.allocation,))):
                        found[place] = found.get(place, NONE_TAKEN) | devices
        return found

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
                    for key, devices in self.by_place(local, devices_of((claim.allocation,))):
                        before = found.get(key, self._changes.freed.get(key, NONE_TAKEN))
                        found[key] = before | devices
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
            return self.free_for_any(kinds, (), node)
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
                for key, devices in self.by_place(node, devices_of((each.allocation,))):
                    before = found.get(key, self._changes.taken.get(key, NONE_TAKEN))
                    found[key] = before - devices
        return found
