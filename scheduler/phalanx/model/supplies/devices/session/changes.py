"""What a cycle has changed of devices so far. Statements write it, so that they can undo it."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Assignments, Pod
from phalanx.model.supplies.devices.claims import Allocation, Claim, ClaimGrant
from phalanx.model.supplies.devices.cluster import DeviceState
from phalanx.model.supplies.devices.pod_claims import Unresolved
from phalanx.model.supplies.devices.session.grants import (
    ClaimingPods,
    Granted,
    Granting,
    Places,
    devices_granted,
)
from phalanx.model.supplies.devices.session.needs import DeviceNeeds
from phalanx.model.supplies.devices.session.shared_choices import EVERYWHERE, devices_of
from phalanx.model.supplies.devices.uses import NONE_TAKEN, DeviceUse
from phalanx.model.supplies.supply import Write


class DeviceChanges:
    """Devices that several nodes can use are under EVERYWHERE."""

    def __init__(self, state: DeviceState, nodes: Iterable[NodeName]) -> None:
        """`state`: the devices as the cycle began."""
        self._state = state
        self._nodes = tuple(nodes)
        self.taken: dict[NodeName, frozenset[DeviceUse]] = {}
        """By node, the devices that claims got."""
        self.freed: dict[NodeName, frozenset[DeviceUse]] = {}
        """By node, the devices of pods that are assumed to have ended."""
        self.shared: dict[str, Allocation] = {}
        """By UID of the claim, what claims got that several pods use."""

    # --- writing ------------------------------------------------------------------------------------------

    def take(self, found: Granting, write: Write) -> None:
        """Take the devices of these grants."""
        self._write(self.taken, found.taken, write)
        for claim, allocation in found.shared.items():
            write(self.shared, claim, allocation)

    def reserve(self, devices: Places, write: Write, *, release: bool = False) -> None:
        """Take these devices for claims that do not exist yet; `release` gives them back."""
        for node, some in devices.items():
            before = self.taken.get(node, NONE_TAKEN)
            self._write(self.taken, {node: before - some if release else before | some}, write)

    def give_up(self, granted: Iterable[tuple[NodeName, ClaimGrant]], write: Write) -> None:
        """Give back what claims of pods got in this cycle, unless others share it."""
        found: Places = {}
        for node, each in granted:
            if each.allocation is not None and each.uid not in self.shared:
                for key, devices in self.by_place(node, devices_of((each.allocation,))):
                    before = found.get(key, self.taken.get(key, NONE_TAKEN))
                    found[key] = before - devices
        self._write(self.taken, found, write)

    def end(self, pods: Sequence[Pod], ended: Container[PodUid], write: Write) -> None:
        """The devices of these pods are free, when they have ended as well as `ended` ones."""
        self._write(self.freed, self.freed_by(pods, ended), write)

    def _write(
        self,
        table: dict[NodeName, frozenset[DeviceUse]],
        devices: Mapping[NodeName, frozenset[DeviceUse]],
        write: Write,
    ) -> None:
        """A device that several nodes can use changes what each of them has."""
        for node, some in devices.items():
            write(table, node, some, self._nodes if node == EVERYWHERE else (node,))

    # --- questions ----------------------------------------------------------------------------------------

    def taken_by(
        self, wanted: Sequence[ClaimingPods], own: Granted, shared: Mapping[str, Allocation]
    ) -> Places:
        """All that the cycle has then taken, for the keys that change."""
        found: Places = {}
        for each in wanted:
            devices = devices_granted({pod.uid: own[pod.uid] for pod in each.pods})
            for key, some in self.by_place(each.node.name, devices):
                before = found.get(key, self.taken.get(key, NONE_TAKEN))
                found[key] = before | some
        if shared:
            key = NodeName(EVERYWHERE)
            before = found.get(key, self.taken.get(key, NONE_TAKEN))
            found[key] = before | devices_of(tuple(shared.values()))
        return found

    def by_place(
        self, node: NodeName, devices: frozenset[DeviceUse]
    ) -> Iterator[tuple[NodeName, frozenset[DeviceUse]]]:
        """These devices of a node, without those that others can use; and these."""
        pools = self._state.inventory.shared_pools
        others = frozenset(each for each in devices if (each[0], each[1]) in pools) if pools else NONE_TAKEN
        parts = ((node, devices - others), (NodeName(EVERYWHERE), others))
        return ((key, some) for key, some in parts if some)

    def places(self, held: Iterable[tuple[NodeName, Iterable[DeviceUse]]]) -> Places:
        """Devices that are held for pods on these nodes."""
        return united(dict(self.by_place(node, frozenset(uses))) for node, uses in held)

    def unshared(self, assignments: Assignments, granted: Granted, needs: DeviceNeeds) -> Places:
        """The granted devices of claims that no pods of other gangs share, by place."""
        found: Places = {}
        for node, pod in [(node, pod) for node, pods in assignments for pod in pods]:
            need = needs.of(pod.shape)
            own = {claim.uid for key, claim in needs.shared_claims(need).items() if key in need.renewed}
            for each in granted.get(pod.uid, ()):
                is_held = each.uid in own or each.uid not in self.shared
                if each.allocation is not None and is_held:
                    for place, devices in self.by_place(node, devices_of((each.allocation,))):
                        found[place] = found.get(place, NONE_TAKEN) | devices
        return found

    def freed_by(self, pods: Sequence[Pod], ended: Container[PodUid] = ()) -> Places:
        """All devices that are free when these pods have ended as well as `ended` ones, for keys that change.

        Those of a claim that other pods use too stay in use.
        """
        gone = {pod.uid for pod in pods}
        found: Places = {}
        for pod in pods:
            for claim in claims_of(pod, self._state) if pod.device_claims else ():
                is_unused = all(user in gone or user in ended for user in claim.reserved_for)
                if claim.allocation is not None and is_unused:
                    local = NodeName(claim.allocation.nodes.only_node or EVERYWHERE)
                    for key, devices in self.by_place(local, devices_of((claim.allocation,))):
                        before = found.get(key, self.freed.get(key, NONE_TAKEN))
                        found[key] = before | devices
        return found

    def taken_besides(self, held: Places) -> Places:
        """What the cycle has taken, without these."""
        return {node: some - held.get(node, NONE_TAKEN) for node, some in self.taken.items()}


def united(places: Iterable[Places]) -> Places:
    """All these devices."""
    found: Places = {}
    for each in places:
        for place, some in each.items():
            found[place] = found.get(place, NONE_TAKEN) | some
    return found


def claims_of(pod: Pod, state: DeviceState) -> tuple[Claim, ...]:
    """The claims that the pod names; none if some are missing."""
    found = state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
    return () if isinstance(found, Unresolved) else found
