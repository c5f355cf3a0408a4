"""A statement: a tentative set of changes to a session, and the only way to place or evict.

All state that can change is in mappings with immutable values. A statement writes new values and keeps the
old ones; a rollback restores them in reverse order. Nothing is copied in advance.
"""

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self

from phalanx.framework.changes import CapacityHold, Changes
from phalanx.framework.charges import loads_with_devices, without_marked
from phalanx.framework.nodes.affinity import AffinityIndex
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.queues.ledger import Account, Ledger
from phalanx.framework.states import GangState, PodState, check_gang_transition, check_pod_transition
from phalanx.model import named_parts
from phalanx.model.charges import have_charges, total_charges, total_requests
from phalanx.model.decisions import Bind, Certificate, Evict, EvictionReason, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Assignments, Device, Pod
from phalanx.model.resources import NONE, Resources, add, scale, subtract
from phalanx.model.supplies.known import offered_of, total_usage
from phalanx.model.supplies.supply import NO_PARTS, Parts, PartsLacking, SessionSupply, SupplyLacking

_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
_NO_NODE_LABELS: Final[Mapping[NodeName, Mapping[str, str]]] = {}

Usage = Mapping[NodeName, Resources]
"""Amounts per node."""


class DoesNotFit(Exception):
    """A placement would over-commit a node or violate anti-affinity: an error of what computed it."""


class SharedLacking(DoesNotFit):
    """What several nodes share does not suffice, or claims cannot all have devices on their nodes. No error
    if others took it in another order."""


class _Session(Protocol):
    """What a statement needs of the session that it changes."""

    nodes: Mapping[NodeName, NodeState]
    ledger: Ledger
    facts: NodeFacts
    affinity_index: AffinityIndex | None
    supplies: tuple[SessionSupply, ...]
    cycle: int

    def free(self, node: NodeName) -> Resources: ...
    def free_despite_nominations(self, node: NodeName) -> Resources: ...
    def pod_state(self, pod: Pod) -> PodState: ...
    def gang_state(self, gang: Gang) -> GangState: ...
    def assigned_nodes(self, gang: Gang) -> tuple[NodeName, ...]: ...


class Statement:
    """Use it in a `with` block. `roll_back` ends it early and restores the session."""

    def __init__(self, session: _Session, changes: Changes) -> None:
        self._session = session
        self._changes = changes
        self._undo: list[tuple[dict[Any, Any], Any, Any, Collection[NodeName]]] = []
        self._marks = (
            len(changes.placements),
            len(changes.evictions),
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
        node_labels: Mapping[NodeName, Mapping[str, str]] = _NO_NODE_LABELS,
        parts: Parts = NO_PARTS,
        annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    ) -> None:
        """Assign pods of the gang to nodes and to parts of them (to these, else the best).

        Raises DoesNotFit or IllegalTransition.
        """
        self._move_gang(gang, GangState.PLACED)
        parts = self._take(gang, assignments, parts)
        binds = [
            Bind(pod.uid, pod.namespace, pod.name, node, parts.get(pod.uid) if parts else None)
            for node, pods in assignments
            for pod in pods
        ]
        try:
            for supply in self._session.supplies:
                binds = supply.take(binds, assignments, self.write)
        except SupplyLacking as lacking:
            raise SharedLacking(str(lacking)) from None
        for _, pods in assignments:
            for pod in pods:
                self._move_pod(pod, PodState.ALLOCATED)
        self._count_affinity(assignments)
        nodes = (*self._session.assigned_nodes(gang), *(node for node, _ in assignments))
        self.write(self._changes.assigned_nodes, gang.id, nodes)
        self._changes.placements_version += 1
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
                domain_labels=within,
                node_labels=node_labels,
                queue=gang.queue,
                annotations=annotations,
            )
        )

    def give_up(self, *, gang: Gang, pods: Sequence[Pod], used: Usage, booked: Usage) -> None:
        """Give up the placement of these pods by this cycle: they wait again. It is never rolled back.

        The pods name the nodes that they got there; `used` and `booked` are as in `assume_ended`.
        """
        self.assume_ended(queue=gang.queue, used=used, booked=booked)
        for charge in self._session.ledger.charges_for(gang.queue, pods):
            self.write(self._session.ledger.claims, charge, False)
        for pod in pods:
            self._move_pod(pod, PodState.WAITING)
            if pod.node is not None:
                self._count_pod(pod, pod.node, -1)
        gone, changes = {pod.uid for pod in pods}, self._changes
        binds = [bind for each in changes.placements for bind in each.binds if bind.pod in gone]
        for supply in self._session.supplies:
            supply.give_up(binds, self.write)
        changes.placements[:] = [left for each in changes.placements if (left := each.without(gone))]
        changes.placements_version += 1
        rest = [bind.node for each in changes.placements if each.gang == gang.id for bind in each.binds]
        self.write(changes.assigned_nodes, gang.id, tuple(dict.fromkeys(rest)))
        if not rest:
            self._move_gang(gang, GangState.UNTRIED)

    def hold_capacity(self, *, gang: Gang, assignments: Assignments, parts: Parts = NO_PARTS) -> None:
        """Hold capacity for members that do not exist yet, on nodes and in the accounts of the queue.

        Parts of nodes are chosen as in `place`. Supplies hold what they know of, as far as there is some.
        Raises DoesNotFit.
        """
        parts = self._take(gang, assignments, parts)
        taken = tuple((node, tuple(pods)) for node, pods in assignments)
        supplies, holds = self._session.supplies, self._changes.capacity_holds
        held = [(supply, some) for supply in supplies if (some := supply.hold(assignments, self.write))]
        self.write(holds, len(holds), CapacityHold(gang, taken, parts, tuple(held)))

    def release_hold(self, hold: CapacityHold) -> None:
        """Release capacity that this cycle held for members that do not exist yet."""
        booked = {node: total_charges(pods) for node, pods in hold.assignments}
        used = {node: total_usage(pods, hold.parts) for node, pods in hold.assignments}
        self.assume_ended(queue=hold.gang.queue, used=used, booked=booked)
        for supply, held in hold.held:
            supply.release(hold.assignments, held, self.write)
        number = next(key for key, each in self._changes.capacity_holds.items() if each is hold)
        self.write(self._changes.capacity_holds, number, None)

    def nominate(self, *, queue: QueueName, usage: Usage, booked: Usage, expected: Assignments = ()) -> None:
        """Take capacity that is nominated for a gang of this queue, and charge the queue for `booked`.

        Free amounts may become negative, since victims may still be running. `expected` pods count for
        affinity and anti-affinity; a statement with such pods is always rolled back.
        """
        for node, amounts in usage.items():
            if node in self._session.nodes:
                self._take_free(node, without_marked(amounts))
        for node, amounts in booked.items():
            self._changes.nominated.append((queue, amounts))
            self._book(queue, node, amounts)
        for node, pods in expected:
            for pod in pods:
                self._count_pod(pod, node, 1)

    def reserve_anti_affinity(self, absent: Assignments, by: int = 1) -> None:
        """Let pods that do not run yet repel others by anti-affinity; `by` -1 undoes it."""
        for node, pods in absent:
            for pod in pods:
                self._count_pod(pod, node, by, is_absent=True)

    def evict(
        self, *, gang: Gang, pods: Sequence[Pod], reason: EvictionReason, message: str, beneficiary: str = ""
    ) -> None:
        """Release these bound pods. Their capacity stays taken until they have terminated."""
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
                    message=named_parts.plain(message),
                    beneficiary=beneficiary,
                    succeeded=gang.succeeded,
                    marked=message if named_parts.has_names(message) else "",
                )
            )

    def assume_ended(self, *, queue: QueueName, used: Usage, booked: Usage, gone: Sequence[Pod] = ()) -> None:
        """Assume that pods with this usage have ended; `booked` is the part that is charged to the queue.

        `gone` pods do not count for affinity any more. Such a statement is always rolled back: it answers
        only what would fit then.
        """
        for node, amounts in used.items():
            if node in self._session.nodes:
                self._give_free(node, without_marked(amounts))
        ledger = self._session.ledger
        for node, amounts in booked.items():
            self._book(queue, node, scale(amounts, -1))
        for supply in self._session.supplies if gone else ():
            for name, node, amounts in supply.charges_moved(gone, self._changes.ended) if booked else ():
                self._book(name, node, amounts)
            supply.end(gone, self._changes.ended, self.write)
        for charge in ledger.charges_for(queue, gone):
            self.write(ledger.claims, charge, False)
        self._changes.ended_version += bool(gone)
        for pod in gone:
            self.write(self._changes.ended, pod.uid, True)
            if pod.node is not None:
                self._count_pod(pod, pod.node, -1)

    def assume_free(self, *, usage: Usage, budgets: Mapping[Account, Resources]) -> None:
        """Assume that this much more is free on nodes and in accounts, or less where amounts are negative.

        Such a statement is always rolled back, as with `assume_ended`.
        """
        for node, amounts in usage.items():
            if node in self._session.nodes:
                self._give_free(node, amounts)
        for account, amounts in budgets.items():
            self._add_to(account, scale(amounts, -1))

    def roll_back(self) -> None:
        """Undo all changes of this statement. Later statements must have been rolled back before."""
        ended = len(self._changes.ended)
        self._changes.nodes.extend(dict.fromkeys(node for *_, nodes in self._undo for node in nodes))
        for table, key, old, _ in reversed(self._undo):
            if old is None:
                del table[key]
            else:
                table[key] = old
        self._undo.clear()
        self._changes.ended_version += len(self._changes.ended) < ended
        placements, evictions, nominated = self._marks
        self._changes.placements_version += len(self._changes.placements) > placements
        del self._changes.placements[placements:], self._changes.evictions[evictions:]
        del self._changes.nominated[nominated:]

    def choose_parts(self, assignments: Assignments, parts: Parts) -> Parts:
        """Choose a part of its node for each pod that needs one and is not in `parts`, per node together.

        Nothing is taken. Raises DoesNotFit.
        """
        chosen: dict[PodUid, Device] = {}
        for supply in self._session.facts.open_supplies:
            needing: dict[NodeName, list[Pod]] = {}
            for node, pods in assignments:
                for pod in pods:
                    if supply.need(pod.shape) is not None:
                        needing.setdefault(node, []).append(pod)
            for node, pods in needing.items():
                state, free = self._session.nodes[node], self._session.free(node)
                try:
                    chosen.update(supply.take(state, free, pods, parts))
                except PartsLacking as lacking:
                    raise DoesNotFit(str(lacking)) from None
        return chosen

    def _take(self, gang: Gang, assignments: Assignments, parts: Parts) -> Parts:
        """Take the capacity of these assignments. Returns the parts of nodes that the pods get."""
        loads = [total_requests(pods) for _, pods in assignments]
        taken = loads
        uses_supplies = any(pod.shape.supplied for _, pods in assignments for pod in pods)
        if uses_supplies or self._session.facts.open_supplies:
            parts = self.choose_parts(assignments, parts)
            taken = [total_usage(pods, parts) for _, pods in assignments]
        booked = self._charge(gang.queue, assignments, loads)
        for (node, pods), load, held in zip(assignments, booked, taken, strict=True):
            free = subtract(self._session.free(node), held)
            if any(free[name] < 0 < held[name] and _is_short(name, free[name]) for name in held):
                raise DoesNotFit(f"node {node} has no capacity for {len(pods)} pods of {gang}")
            self._take_free(node, held)
            self._book(gang.queue, node, load)
        return parts

    def _book(self, queue: QueueName, node: NodeName, amounts: Resources) -> None:
        for account in self._session.ledger.accounts(queue, node):
            self._add_to(account, amounts)

    def _add_to(self, account: Account, amounts: Resources) -> None:
        used = self._session.ledger.amounts
        self.write(used, account, add(used.get(account, NONE), amounts))

    def _charge(
        self, queue: QueueName, assignments: Assignments, loads: Sequence[Resources]
    ) -> Sequence[Resources]:
        """What the queue is charged on each node, whose requests are `loads`."""
        if not any(have_charges(pods) for _, pods in assignments):
            return loads
        ledger = self._session.ledger
        before = ledger.claims_of(queue)
        counted = set(before)
        booked = loads_with_devices(assignments, loads, counted)
        for claim in sorted(counted - before):
            self.write(ledger.claims, (queue, claim), True)
        return booked

    def _take_free(self, node: NodeName, amounts: Resources) -> None:
        free = self._session.free_despite_nominations(node)
        self.write(self._changes.free, node, subtract(free, amounts), (node,))

    def _give_free(self, node: NodeName, amounts: Resources) -> None:
        free = self._session.free_despite_nominations(node)
        self.write(self._changes.free, node, add(free, amounts), (node,))

    def _count_affinity(self, assignments: Assignments) -> None:
        """Count the pods for affinity terms. Raises DoesNotFit if anti-affinity forbids a node."""
        affinity_index = self._session.affinity_index
        if affinity_index is None:
            return
        placed = [
            (pod, node) for node, pods in assignments for pod in pods if pod.shape.affinity_state is not None
        ]
        for pod, node in placed:
            self._count_pod(pod, node, 1)
        for pod, node in placed:
            conflict = affinity_index.conflict(pod, node)
            if conflict:
                raise DoesNotFit(conflict)

    def _count_pod(self, pod: Pod, node: NodeName, by: int, *, is_absent: bool = False) -> None:
        """Count one pod more or less on the node; an absent pod only repels others."""
        affinity_index, state = self._session.affinity_index, pod.shape.affinity_state
        if affinity_index is not None and state is not None:
            for table, key, value in affinity_index.changes(
                state, node, by, is_absent=is_absent, is_terminating=pod.deleting
            ):
                self.write(table, key, value)

    def _move_pod(self, pod: Pod, after: PodState) -> None:
        check_pod_transition(pod, self._session.pod_state(pod), after)
        self.write(self._changes.pods, pod.uid, after)

    def _move_gang(self, gang: Gang, after: GangState) -> None:
        check_gang_transition(gang, self._session.gang_state(gang), after)
        self.write(self._changes.gangs, gang.id, after)

    def write(
        self, table: dict[Any, Any], key: object, value: object, nodes: Collection[NodeName] = ()
    ) -> None:
        """Set a value, which a rollback restores. `nodes`: those that have other amounts then."""
        self._undo.append((table, key, table.get(key), nodes))
        table[key] = value
        self._changes.nodes.extend(nodes)


def _is_short(resource: str, free: int) -> bool:
    """Whether a negative amount is too little: nodes do not list supplies."""
    return free + offered_of(resource) < 0
