"""A tentative set of changes to a session: the only way to place or evict.

Everything that can change lies in mappings whose values are immutable. A statement writes new values and
keeps the old ones; rolling back puts them back in reverse order. Nothing is copied in advance.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self

from msgspec import Struct

from phalanx.framework.nodes.affinity import AffinityIndex
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.queues.ledger import Account, Ledger
from phalanx.framework.states import GangState, PodState, check_gang_transition, check_pod_transition
from phalanx.model.decisions import Bind, Certificate, Evict, EvictionReason, Placement
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import (
    NO_DEVICES,
    Devices,
    assign_devices,
    free_devices,
    requests_share,
    share_on_node,
    total_usage,
)
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.numa import is_numa_resource, zone_capacity
from phalanx.model.pods import Device, Pod
from phalanx.model.resources import Resources, add, scale, subtract

_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_HOMES: Final[Mapping[NodeName, Mapping[str, str]]] = {}

Assignments = Sequence[tuple[NodeName, Sequence[Pod]]]
"""Which pods go to which node."""

Usage = Mapping[NodeName, Resources]
"""What something uses on each node."""


class CapacityHold(Struct, frozen=True):
    """Capacity that is held for members of a gang which do not exist yet."""

    gang: Gang
    assignments: tuple[tuple[NodeName, tuple[Pod, ...]], ...]
    devices: Devices = NO_DEVICES


class DoesNotFit(Exception):
    """A placement would over-commit a node, or put pods together that must be apart.

    It is a mistake of whoever made it, never of the input.
    """


class Changes:
    """All that a cycle has changed so far. Whatever is absent is as the snapshot says."""

    def __init__(self) -> None:
        self.free: dict[NodeName, Resources] = {}
        self.pods: dict[PodUid, PodState] = {}
        self.gangs: dict[GangId, GangState] = {}
        self.assigned_nodes: dict[GangId, tuple[NodeName, ...]] = {}
        self.nodes: list[NodeName] = []
        self.placements: list[Placement] = []
        self.evictions: list[Evict] = []
        self.capacity_holds: list[CapacityHold] = []
        self.nominated: list[tuple[QueueName, Resources]] = []


class _Session(Protocol):
    """What a statement needs of the session that it changes."""

    nodes: Mapping[NodeName, NodeState]
    ledger: Ledger
    facts: NodeFacts
    affinity_index: AffinityIndex | None
    cycle: int

    def free(self, node: NodeName) -> Resources: ...
    def pod_state(self, pod: Pod) -> PodState: ...
    def gang_state(self, gang: Gang) -> GangState: ...
    def assigned_nodes(self, gang: Gang) -> tuple[NodeName, ...]: ...


class Statement:
    """Use it in a `with` block. `roll_back` gives up early and leaves the session as before the block."""

    def __init__(self, session: _Session, changes: Changes) -> None:
        self._session = session
        self._changes = changes
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self._marks = (
            len(changes.placements),
            len(changes.evictions),
            len(changes.capacity_holds),
            len(changes.nominated),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.roll_back()

    def place(
        self,
        *,
        gang: Gang,
        assignments: Assignments,
        cause: str,
        certificate: Certificate,
        level: str = "",
        domain: str = "",
        within: Mapping[str, str] = _NO_LABELS,
        homes: Mapping[NodeName, Mapping[str, str]] = _NO_HOMES,
        devices: Devices = NO_DEVICES,
    ) -> None:
        """Allocate these pods of the gang, and devices for shares: these, else the tightest that are enough.

        Raises DoesNotFit or IllegalTransition.
        """
        self._move_gang(gang, GangState.PLACED)
        binds: list[Bind] = []
        devices = self._take(gang, assignments, devices)
        for node, pods in assignments:
            for pod in pods:
                self._move_pod(pod, PodState.ALLOCATED)
                device = devices.get(pod.uid) if devices else None
                binds.append(
                    Bind(pod=pod.uid, namespace=pod.namespace, name=pod.name, node=node, device=device)
                )
        self._meet(assignments)
        nodes = (*self._session.assigned_nodes(gang), *(node for node, _ in assignments))
        self._set(self._changes.assigned_nodes, gang.id, nodes)
        self._changes.placements.append(
            Placement(
                gang=gang.id,
                group=str(gang),
                cycle=self._session.cycle,
                cause=cause,
                binds=tuple(binds),
                certificate=certificate,
                level=level,
                domain=domain,
                within=within,
                homes=homes,
            )
        )

    def hold_capacity(self, *, gang: Gang, assignments: Assignments, devices: Devices = NO_DEVICES) -> None:
        """Take room for members that do not exist yet, in the queue's account too; shares as in `place`.

        Raises DoesNotFit.
        """
        devices = self._take(gang, assignments, devices)
        taken = tuple((node, tuple(pods)) for node, pods in assignments)
        self._changes.capacity_holds.append(CapacityHold(gang, taken, devices))

    def nominate(self, *, queue: QueueName, usage: Usage, booked: Usage, coming: Assignments = ()) -> None:
        """Take room that is being made for a gang of this queue, and what of it counts on its account.

        What is free may become negative: room that is held was not always free. Pods that are `coming` count
        as there for whoever must be near them or apart: that is always rolled back.
        """
        for node, amounts in usage.items():
            if node in self._session.nodes:
                self._set(self._changes.free, node, subtract(self._session.free(node), amounts))
                self._changes.nodes.append(node)
        ledger = self._session.ledger
        for node, amounts in booked.items():
            self._changes.nominated.append((queue, amounts))
            for account in ledger.accounts(queue, node):
                self._set(ledger.amounts, account, add(ledger.amounts.get(account, {}), amounts))
        for node, pods in coming:
            for pod in pods:
                self._neighbour(pod, node, 1)

    def reserve_anti_affinity(self, absent: Assignments, by: int = 1) -> None:
        """Pods that must be apart from these stay away from where they are to come; with -1 no more."""
        for node, pods in absent:
            for pod in pods:
                self._neighbour(pod, node, by, is_absent=True)

    def evict(
        self, *, gang: Gang, pods: Sequence[Pod], reason: EvictionReason, message: str, beneficiary: str = ""
    ) -> None:
        """Release these bound pods; what they use stays taken until they are gone."""
        self._move_gang(gang, GangState.RELEASING)
        for pod in pods:
            self._move_pod(pod, PodState.RELEASING)
            self._changes.evictions.append(
                Evict(
                    pod=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    gang=gang.id,
                    cycle=self._session.cycle,
                    reason=reason,
                    message=message,
                    beneficiary=beneficiary,
                )
            )

    def assume_ended(self, *, queue: QueueName, used: Usage, booked: Usage, gone: Sequence[Pod] = ()) -> None:
        """As if what uses this had ended, of which `booked` is on the queue's account. Always rolled back.

        Nothing that is decided may rest on it: it only serves to ask what would fit then. Nobody is near pods
        that are `gone`.
        """
        for node, amounts in used.items():
            if node in self._session.nodes:
                self._set(self._changes.free, node, add(self._session.free(node), amounts))
                self._changes.nodes.append(node)
        ledger = self._session.ledger
        for node, amounts in booked.items():
            for account in ledger.accounts(queue, node):
                self._set(ledger.amounts, account, subtract(ledger.amounts.get(account, {}), amounts))
        for pod in gone:
            if pod.node is not None:
                self._neighbour(pod, pod.node, -1)

    def assume_free(self, *, usage: Usage, budgets: Mapping[Account, Resources]) -> None:
        """As if so much more were free on nodes and left of accounts, or less where negative. Rolled back.

        As with `end`, nothing that is decided may rest on it.
        """
        for node, amounts in usage.items():
            if node in self._session.nodes:
                self._set(self._changes.free, node, add(self._session.free(node), amounts))
                self._changes.nodes.append(node)
        ledger = self._session.ledger
        for account, amounts in budgets.items():
            self._set(ledger.amounts, account, subtract(ledger.amounts.get(account, {}), amounts))

    def roll_back(self) -> None:
        """Undo all that this statement did so far; later statements must have been rolled back before."""
        self._changes.nodes.extend(key for table, key, _ in self._undo if table is self._changes.free)
        for table, key, old in reversed(self._undo):
            if old is None:
                del table[key]
            else:
                table[key] = old
        self._undo.clear()
        placements, evictions, kept, held = self._marks
        del self._changes.placements[placements:], self._changes.evictions[evictions:]
        del self._changes.capacity_holds[kept:], self._changes.nominated[held:]

    def choose_devices(self, assignments: Assignments, chosen: Devices) -> Devices:
        """A device for each share: the chosen one, else one for all others of a node together.

        Nothing is taken. Raises DoesNotFit.
        """
        devices: dict[PodUid, Device] = {}
        sharing: dict[NodeName, list[Pod]] = {}
        for node, pods in assignments:
            for pod in pods:
                if requests_share(pod.shape.requests):
                    sharing.setdefault(node, []).append(pod)
        for node, pods in sharing.items():
            devices.update(self._devices_on(node, pods, chosen))
        return devices

    def _take(self, gang: Gang, assignments: Assignments, chosen: Devices = NO_DEVICES) -> Devices:
        """Take the room of these assignments; the devices that shares among them get."""
        devices = NO_DEVICES
        loads = [total_requests(pods) for _, pods in assignments]
        taken = loads
        if any(map(requests_share, loads)):
            devices = self.choose_devices(assignments, chosen)
        if devices or self._session.facts.zoned:
            taken = [total_usage(pods, devices) for _, pods in assignments]
            self._check_zones(assignments)
        for (node, pods), load, held in zip(assignments, loads, taken, strict=True):
            free = subtract(self._session.free(node), held)
            if any(free[name] < 0 < held[name] for name in held if not is_numa_resource(name)):
                raise DoesNotFit(f"node {node} has no room for {len(pods)} pods of {gang}")
            self._set(self._changes.free, node, free)
            self._changes.nodes.append(node)
            ledger = self._session.ledger
            for account in ledger.accounts(gang.queue, node):
                self._set(ledger.amounts, account, add(ledger.amounts.get(account, {}), load))
        return devices

    def _meet(self, assignments: Assignments) -> None:
        """Let pods with company count where they are now. Raises DoesNotFit where they had to be apart."""
        affinity_index = self._session.affinity_index
        if affinity_index is None:
            return
        placed = [
            (pod, node) for node, pods in assignments for pod in pods if pod.shape.affinity_state is not None
        ]
        for pod, node in placed:
            self._neighbour(pod, node, 1)
        for pod, node in placed:
            conflict = affinity_index.conflict(pod, node)
            if conflict:
                raise DoesNotFit(conflict)

    def _neighbour(self, pod: Pod, node: NodeName, by: int, *, is_absent: bool = False) -> None:
        """One more of this pod is on the node, or is to come there while it is absent; or one less."""
        affinity_index, state = self._session.affinity_index, pod.shape.affinity_state
        if affinity_index is not None and state is not None:
            for table, key, value in affinity_index.changes(state, node, by, is_absent=is_absent):
                self._set(table, key, value)

    def _check_zones(self, assignments: Assignments) -> None:
        """Raise DoesNotFit where the kubelet of a node might find no NUMA zone for all of its pods."""
        added: dict[NodeName, Counter[str]] = {}
        for node, pods in assignments:
            if self._session.nodes[node].node.numa is not None:
                kinds = [pod.shape.numa for pod in pods if pod.shape.numa]
                added.setdefault(node, Counter()).update(kinds)
        for node, counts in added.items():
            room = zone_capacity(self._session.nodes[node].node, self._session.free(node))
            if room is not None and not room.takes(counts):
                raise DoesNotFit(f"the NUMA zones of node {node} have no room for {counts.total()} pods")

    def _devices_on(self, node: NodeName, pods: Sequence[Pod], chosen: Devices) -> Devices:
        state = self._session.nodes[node]
        left = list(free_devices(state, self._session.free(node)))
        devices = {pod.uid: chosen[pod.uid] for pod in pods if pod.uid in chosen}
        for device in devices.values():
            left[device.index] -= device.taken
        is_over = any(left[device.index] < 0 for device in devices.values())
        others = [pod for pod in pods if pod.uid not in chosen]
        sizes = [share_on_node(pod.shape.requests, state.node.allocatable) for pod in others]
        indices = assign_devices(sizes, left)
        if indices is None or is_over:
            raise DoesNotFit(f"the GPUs of node {node} have no room for {len(pods)} shares")
        for pod, index, size in zip(others, indices, sizes, strict=True):
            devices[pod.uid] = Device(index=index, taken=size)
        return devices

    def _move_pod(self, pod: Pod, after: PodState) -> None:
        check_pod_transition(pod, self._session.pod_state(pod), after)
        self._set(self._changes.pods, pod.uid, after)

    def _move_gang(self, gang: Gang, after: GangState) -> None:
        check_gang_transition(gang, self._session.gang_state(gang), after)
        self._set(self._changes.gangs, gang.id, after)

    def _set(self, table: dict[Any, Any], key: object, value: object) -> None:
        self._undo.append((table, key, table.get(key)))
        table[key] = value


def total_requests(pods: Sequence[Pod]) -> Resources:
    """What these pods request together; pods in a row that share a shape are counted, not listed."""
    total: Mapping[str, int] = {}
    position = 0
    while position < len(pods):
        shape = pods[position].shape
        end = position + 1
        while end < len(pods) and pods[end].shape is shape:
            end += 1
        part = scale(shape.requests, end - position) if end - position > 1 else shape.requests
        total = add(total, part) if total else part
        position = end
    return total
