"""The devices of one session: how many pods each node has devices for, and which devices they get."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from msgspec.structs import replace

from phalanx.model.decisions import Bind
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid, QueueName
from phalanx.model.nodes import Node
from phalanx.model.pods import Assignments, Pod, PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.claims import (
    Allocation,
    Claim,
    extended_claim_uid,
)
from phalanx.model.supplies.devices.extended_resource_claims import spec_of
from phalanx.model.supplies.devices.extended_resources import ExtendedResourceClaim, extended_claim_name
from phalanx.model.supplies.devices.joint_slots import plain_kinds
from phalanx.model.supplies.devices.pod_claims import own_claims
from phalanx.model.supplies.devices.session.counted_devices import CountedDevices
from phalanx.model.supplies.devices.session.grants import (
    ClaimingPods,
    DeviceGrants,
    Granting,
    Places,
    claims_of_placeholder,
    depends_on_others,
    in_order,
)
from phalanx.model.supplies.devices.session.needs import Need
from phalanx.model.supplies.devices.session.projection import DeviceProjection
from phalanx.model.supplies.devices.session.shared_amounts import (
    CERTAIN,
    Wanted,
    are_of_devices,
)
from phalanx.model.supplies.devices.session.shared_choices import (
    devices_of,
)
from phalanx.model.supplies.devices.uses import DeviceUse
from phalanx.model.supplies.supply import Projection, SessionSupply, SharedAmounts, SupplyLacking, Write

_LACKING: Final = "devices that several nodes can use do not suffice together for the claims of its pods"


class SessionDevices(CountedDevices, SessionSupply):
    """Counts, allocates and takes."""

    reason = Reason.INSUFFICIENT_CAPACITY
    counts_for_users = frees_amounts = False
    next_step = "Wait until claims release devices, or let claims ask for fewer kinds of devices"

    def with_needs(self, gang: Gang) -> Gang:
        """With what the claims need."""
        return self.needs.with_needs(gang)

    def pod_with_needs(self, pod: Pod) -> Pod:
        """With what its claims need."""
        return self.needs.pod_with_need(pod)

    def has_some(self, resources: Iterable[str]) -> bool:
        """Sets of devices."""
        return are_of_devices(resources)

    def objection(self, gang: Gang) -> Objection | None:
        """Why the claims cannot have devices."""
        return self.needs.objection(gang)

    def take(self, binds: list[Bind], assignments: Assignments, write: Write) -> list[Bind]:
        """Allocates devices for the claims."""
        count = sum(bool(pod.shape.device_slot) for _, pods in assignments for pod in pods)
        if not count:
            return binds
        found = self.allocate(assignments)
        if found is None:
            raise SupplyLacking(f"there are no devices for the claims of {count} pods on their nodes")
        self.changes.take(found, write)
        granted = found.granted
        return [replace(bind, grants=granted[bind.pod]) if bind.pod in granted else bind for bind in binds]

    def expect(self, assignments: Assignments, write: Write) -> Places:
        """Takes devices for claims of pods that are expected there, and returns those that no other pods
        share, by node. Raises SupplyLacking. Such a statement is always rolled back."""
        binds = [Bind(pod.uid, pod.namespace, pod.name, node) for node, pods in assignments for pod in pods]
        granted = {bind.pod: bind.grants for bind in self.take(binds, assignments, write)}
        return self.changes.unshared(assignments, granted, self.needs)

    def hold(self, assignments: Assignments, write: Write) -> Mapping[PodUid, tuple[DeviceUse, ...]]:
        """Devices for claims of lost members, for all together, else for each that can have some."""
        wanted = [
            (node, [pod for pod in pods if self.needs.claims_of_lost(pod) is not None])
            for node, pods in assignments
        ]
        wanted = [(node, pods) for node, pods in wanted if pods]
        found = self.allocate(wanted) if wanted else None
        if found is not None:
            self.changes.take(found, write)
            return found.uses
        held: dict[PodUid, tuple[DeviceUse, ...]] = {}
        for node, pod in [(node, pod) for node, pods in wanted for pod in pods]:
            found = self.allocate([(node, (pod,))])
            if found is not None:
                self.changes.take(found, write)
                held.update(found.uses)
        return held

    def release(self, assignments: Assignments, held: Mapping[PodUid, Any], write: Write) -> None:
        """The held devices are free again."""
        self.changes.reserve(self.held(assignments, held), write, release=True)

    def held(self, assignments: Assignments, held: Mapping[PodUid, tuple[DeviceUse, ...]]) -> Places:
        """The devices that are held for these assignments."""
        return self.changes.places(
            (node, held[pod.uid]) for node, pods in assignments for pod in pods if pod.uid in held
        )

    def give_up(self, binds: Sequence[Bind], write: Write) -> None:
        """The devices of the binds are free again."""
        self.changes.give_up([(bind.node, grant) for bind in binds for grant in bind.grants], write)

    def end(self, gone: Sequence[Pod], ended: Container[PodUid], write: Write) -> None:
        """Devices of claims are free that no pods use any more."""
        if any(pod.device_claims for pod in gone):
            self.changes.end(gone, ended, write)

    def charges_moved(
        self, gone: Sequence[Pod], ended: Container[PodUid]
    ) -> Iterable[tuple[QueueName, NodeName, Resources]]:
        """Claims that several pods use."""
        return self.needs.charges.moved(gone, ended) if any(pod.device_claims for pod in gone) else ()

    def lacking(self, assignments: Assignments) -> str | None:
        """Counts are not exact for claims that are not plain, and where devices of several nodes and those of
        one node match the same requests."""
        if self.may_decline(assignments) and self.allocate(assignments) is None:
            return _LACKING
        return None

    def project(self, shapes: Sequence[PodShape]) -> DeviceProjection | None:
        """Sets of devices."""
        claiming = {shape.device_slot: shape for shape in shapes if shape.device_slot}
        found = tuple([(name, self.needs.of(claiming[name])) for name in sorted(claiming)])
        if len(found) < 2:
            return DeviceProjection(self, found) if found else None
        claims = {name: self.all_claims(need) for name, need in found}
        kinds = plain_kinds([spec for some in claims.values() for spec in some])
        return DeviceProjection(self, found, claims, kinds, self.bounds)

    def lacking_on(self, shape: PodShape, node: Node) -> str:
        """Devices for the claims."""
        why = self.why_none(self.needs.of(shape), node) if shape.device_slot else ""
        return f"no devices for its claims: {why}" if why else ""

    def missing(self, batches: Sequence[Sequence[Pod]], nodes: Callable[[Pod], Iterable[Node]]) -> str:
        """Free devices."""
        wanted = Counter(pod.shape.device_slot for pods in batches for pod in pods)
        for pod in [pods[0] for pods in batches if pods[0].shape.device_slot]:
            need = self.needs.of(pod.shape)
            count, together = sum(self.count(need, node) for node in nodes(pod)), self.at_most(need)
            count = count if together is None else min(count, together)
            if count < wanted[pod.shape.device_slot]:
                return f"devices are free for the claims of {count} of {wanted[pod.shape.device_slot]} pods"
        return ""

    def needed(self, pods: Sequence[Pod]) -> str:
        """Devices."""
        count = sum(bool(pod.shape.device_slot) for pod in pods)
        return f"devices for the claims of {count} pod{'s' * (count > 1)}" if count else ""

    def is_estimated(self, shapes: Sequence[PodShape]) -> bool:
        """Whether their claims differ."""
        return len({shape.device_slot for shape in shapes}) > 1

    def here(self, projection: Projection) -> Projection:
        """With what this session has left."""
        return replace(projection, devices=self) if isinstance(projection, DeviceProjection) else projection

    def only_certain(self) -> AbstractContextManager[None]:
        """Of pods with different claims those that fit together for certain."""
        return self.assuming(CERTAIN)

    def key(self, gang: Gang, pods: Sequence[Pod]) -> Hashable:
        """Equal while the same is assumed of the devices of nodes, for such pods of a gang."""
        return (self.shared.key(pods), self.bounds) if gang.claims_devices else ()

    @property
    def is_bounded(self) -> bool:
        """Whether nodes take a part of their pods only."""
        return bool(self.bounds.parts)

    def shared_amounts(self, pods: Sequence[Pod]) -> Sequence[SharedAmounts]:
        """What several nodes have together for those of the pods that wait, where they need more."""
        if not self._state.inventory.shared_pools or not any(pod.device_claims for pod in pods):
            return ()
        waiting = [pod for pod in pods if pod.shape.device_slot and pod.is_waiting and not pod.gated]
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
            pod.uid: in_order(pod, self._claims(pod), own[pod.uid], shared, each.extended_claim[pod.uid])
            for each in wanted
            for pod in each.pods
        }
        return Granting(granted, self.changes.taken_by(wanted, own, shared), shared)

    def _asking(self, name: NodeName, pods: Sequence[Pod]) -> ClaimingPods:
        node = self._nodes[name].node
        needs = [self.needs.of(pod.shape) for pod in pods]
        extended_claim = {
            pod.uid: self._extended_claim(need, node) for pod, need in zip(pods, needs, strict=True)
        }
        own = [
            self._own_claims(pod, need, extended_claim[pod.uid])
            for pod, need in zip(pods, needs, strict=True)
        ]
        return ClaimingPods(node, tuple(pods), tuple(needs), extended_claim, tuple(own))

    def _own_claims(
        self, pod: Pod, need: Need, extended_claim: ExtendedResourceClaim | None
    ) -> tuple[Claim, ...]:
        """Those that were made for the pod, and the one that is to be made for its extended resources.

        Those of a placeholder do not exist.
        """
        own = own_claims(pod.device_claims)
        found = [each for each in self._claims(pod) if each.name in own]
        if self.needs.claims_of_lost(pod) is not None:
            found = claims_of_placeholder(pod, need)
        if extended_claim is not None:
            name = extended_claim_name(pod.name, pod.uid)
            found.append(Claim(pod.namespace, name, extended_claim_uid(pod.uid), spec_of(extended_claim)))
        return tuple(found)


class WithSupplies(Protocol):
    """What has supplies."""

    @property
    def supplies(self) -> tuple[SessionSupply, ...]: ...


def open_devices(session: WithSupplies) -> SessionDevices | None:
    """The devices of a session; None if its pods have no claims."""
    return next((supply for supply in session.supplies if isinstance(supply, SessionDevices)), None)


def claimed_devices(session: WithSupplies) -> SessionDevices:
    """The devices of a session of which pods have claims."""
    devices = open_devices(session)
    assert devices is not None, "no pod has claims"
    return devices
