"""Hold the new capacity of moved gangs, which were evicted so that another gang fits.

The capacity is held from the eviction on: while the pods terminate, while their controllers recreate them,
and until as many pods as were evicted have nodes again. Moved gangs are tried first in their queues, after
gangs with nominated capacity. A move expires; the time to its expiry starts again when the last grace period
has ended.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from phalanx.actions.preemption.nominations import Nominations, beyond, negative
from phalanx.actions.preemption.victims import termination_deadline
from phalanx.actions.problems.capacity_holders import (
    AssignedPod,
    assigned_pods,
    charged,
    total_of,
    usage_of,
    usage_with_charges,
)
from phalanx.actions.problems.held_devices import granted_to, reserve, still_held, uses_of
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import ExpectedPod, Move, Nomination
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Assignments, Pod, without_affinity_state
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.supplies.devices.uses import DeviceUse

Kind = tuple[str, str, str]
"""Namespace, controller and shape of a pod without a group."""


class Moves:
    """The unfinished moves of earlier cycles, and those that this cycle begins."""

    def __init__(self, session: Session, nominations: Nominations) -> None:
        self._session = session
        self._origins: dict[GangId, GangId] = {}
        self.open: dict[GangId, Move] = {}
        known = session.snapshot.memory.moves
        pending = {
            origin: known[origin] for origin in sorted(known) if self._is_pending(origin, known[origin])
        }
        successors = _successors(session) if any(move.controller for move in pending.values()) else {}
        for origin, move in pending.items():
            kind = (move.namespace, move.controller, move.shape)
            current = successors[kind].pop(0) if successors.get(kind) else origin
            self._origins[current] = origin
            self.open[current] = move
        self._holding: set[GangId] = set()
        """The gangs whose capacity is held now: not while they are tried, nor after they have restarted."""
        self._held: dict[GangId, list[Pod]] = {}
        self._expected: list[tuple[GangId, QueueName, Usage, Usage]] = []
        self._new_moves: dict[GangId, Move] = {}
        self._beneficiaries: set[GangId] = set()
        self._capacity = self._find_capacity(nominations) if self.open else {}

    def hold_all(self) -> None:
        """Hold the free part of the capacity of all moved gangs."""
        with self._session.statement() as statement:
            for gang in self.open:
                self.hold_again(gang, statement)
        self._holding.update(self.open)

    def release_for(self, gang: GangId) -> None:
        """Release the capacity that is held for a gang while the gang is tried."""
        if gang in self._holding:
            self._holding.remove(gang)
            with self._session.statement() as statement:
                self.give_up(gang, statement)

    def hold_rest(self, gang: GangId) -> None:
        """Hold the capacity that the gang did not use, unless all its pods have nodes again."""
        if gang in self.open and not self._is_complete(gang):
            placed = usage_with_charges(self._placed(gang))
            usage, booked = self._capacity[gang]
            self._capacity[gang] = beyond(usage, placed), beyond(booked, charged(placed))
            with self._session.statement() as statement:
                self._take(gang, statement, *self._capacity[gang])
                reserve(self._session, statement, self._devices(gang))
                if not placed:
                    statement.reserve_anti_affinity(self._apart(gang))
            self._holding.add(gang)

    @property
    def holding(self) -> list[GangId]:
        """The gangs whose capacity is held now. Others have nothing to give up."""
        return [gang for gang in self.open if gang in self._holding]

    def give_up(self, gang: GangId, statement: Statement) -> None:
        """Give up the capacity that is held for a gang."""
        usage, booked = self._capacity[gang]
        self._take(gang, statement, negative(usage), negative(booked))
        reserve(self._session, statement, self._devices(gang), release=True)
        statement.reserve_anti_affinity(self._apart(gang), -1)

    def hold_again(self, gang: GangId, statement: Statement) -> None:
        """Hold it again. Where another gang has taken some, no free capacity is left."""
        self._take(gang, statement, *self._capacity[gang])
        reserve(self._session, statement, self._devices(gang))
        statement.reserve_anti_affinity(self._apart(gang))

    def hold_expected(self, trial: Statement) -> None:
        """Hold the capacity that terminating pods still hold for moved gangs; their end is assumed before."""
        for gang, queue, usage, booked in self._expected:
            if gang in self.open and self._is_complete(gang):
                continue
            is_partly_placed = gang in self.open and bool(self._placed(gang))
            trial.nominate(queue=queue, usage=usage, booked={} if is_partly_placed else booked)

    def begin(
        self, beneficiary: Gang, usage: Usage, moved: Mapping[GangId, Move], others: Sequence[Pod] = ()
    ) -> None:
        """Begin moves: hold the free capacity for the beneficiary and all moved gangs.

        `others`: pods that are evicted beside the moved gangs.
        """
        evicted = {pod for move in moved.values() for pod in move.pods}
        holders = [pod for gang in moved for pod in self._session.gangs[gang].members if pod.uid in evicted]
        expected = usage_with_charges(assigned_pods([*holders, *others]))
        with self._session.statement() as statement:
            for gang, queue, wanted in [
                (beneficiary.id, beneficiary.queue, usage),
                *((gang, move.queue, move.usage) for gang, move in moved.items()),
            ]:
                statement.nominate(queue=queue, usage=beyond(wanted, expected), booked={})
                rest = beyond(expected, wanted)
                self._expected.append((gang, queue, beyond(expected, rest), charged(wanted)))
                expected = rest
        self._new_moves.update(moved)
        self._beneficiaries.add(beneficiary.id)

    def is_served(self, gang: GangId) -> bool:
        """Whether the gang is being moved, or other gangs are moved for it since this cycle."""
        return gang in self.open or gang in self._beneficiaries

    def is_moving(self, gang: GangId) -> bool:
        """Whether this gang was evicted to be moved."""
        return gang in self._origins.values()

    def unfinished(self) -> dict[GangId, Move]:
        """The moves that the next cycle must remember."""
        waiting = {
            self._origins[gang]: self._prolonged(gang) for gang in self.open if not self._is_complete(gang)
        }
        return dict(sorted({**waiting, **self._new_moves}.items()))

    def content(self) -> list[tuple[GangId, Move]]:
        """The moves without their expiry times, on which solutions do not depend."""
        return [(gang, replace(each, until=0)) for gang, each in sorted(self.open.items())]

    def _prolonged(self, gang: GangId) -> Move:
        """The move, extended to the end of the grace periods of its pods."""
        move = self.open[gang]
        nomination_ms = self._session.config.retry.nomination_ms
        ends = [termination_deadline(pod) + nomination_ms for pod in self._held[gang] if pod.deleting]
        return replace(move, until=max([move.until, *ends]))

    def _apart(self, gang: GangId) -> Assignments:
        """One pod of each kind that will start again, where it is expected, unless some have started."""
        move, index = self.open[gang], self._session.affinity_index
        if index is None or not move.apart or _recreated(self._session.gangs.get(self._origins[gang]), move):
            return []
        return [(node, [index.as_pod(pod) for pod in pods]) for node, pods in sorted(move.apart.items())]

    def _devices(self, gang: GangId) -> dict[NodeName, frozenset[DeviceUse]]:
        held, session = self.open[gang].devices, self._session
        if not held:
            return {}
        recreated = _recreated(session.gangs.get(gang), self.open[gang])
        placed = granted_to(each for each in session.placements if each.gang == gang)
        return still_held(held, session, placed | uses_of(session, recreated))

    def _take(self, gang: GangId, statement: Statement, usage: Usage, booked: Usage) -> None:
        statement.nominate(queue=self.open[gang].queue, usage=usage, booked=booked)

    def _is_pending(self, origin: GangId, move: Move) -> bool:
        recreated = _recreated(self._session.gangs.get(origin), move)
        return self._session.snapshot.now < move.until and len(recreated) < len(move.pods)

    def _is_complete(self, gang: GangId) -> bool:
        """Whether as many pods as were evicted have nodes again."""
        move = self.open[gang]
        count = len(_recreated(self._session.gangs.get(gang), move)) + len(self._placed(gang))
        return count >= len(move.pods)

    def _placed(self, gang: GangId) -> list[AssignedPod]:
        """Its pods that got nodes in this cycle."""
        placements = [each for each in self._session.placements if each.gang == gang]
        nodes = {bind.pod: bind.node for each in placements for bind in each.binds}
        members = self._session.gangs[gang].members if nodes else ()
        return [AssignedPod(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes]

    def _find_capacity(self, nominations: Nominations) -> dict[GangId, tuple[Usage, Usage]]:
        """For each moved gang, what to take on nodes and what to charge to its queue.

        Capacity that terminating pods still hold is free for no gang, so it is not taken. First the nominated
        gangs get it, then the moved gangs.
        """
        holders = self._held = self._holders()
        expected = usage_with_charges(assigned_pods(chain.from_iterable(holders.values())))
        moving = {pod.uid for pods in holders.values() for pod in pods}
        for gang, nomination in nominations.open.items():
            if moving.intersection(nomination.victims):
                others = [pod for pod in nominations.victims_left(gang) if pod.uid not in moving]
                expected = _added(expected, usage_with_charges(assigned_pods(others)))
                expected = beyond(expected, self._nominated_part(gang, nomination, nominations))
        found: dict[GangId, tuple[Usage, Usage]] = {}
        for gang, move in self.open.items():
            recreated = _recreated(self._session.gangs.get(self._origins[gang]), move)
            needed = beyond(move.usage, usage_with_charges(assigned_pods(recreated)))
            uncharged = _uncharged(charged(needed), usage_of(assigned_pods(holders[gang])))
            found[gang] = beyond(needed, expected), uncharged
            rest = beyond(expected, needed)
            booked = beyond(charged(needed), uncharged)
            self._expected.append((gang, move.queue, beyond(expected, rest), booked))
            expected = rest
        return found

    def _nominated_part(self, gang: GangId, nomination: Nomination, nominations: Nominations) -> Usage:
        """The part of the usage of its victims that is nominated for the gang."""
        held = usage_with_charges(assigned_pods(nominations.victims_left(gang)))
        return beyond(held, beyond(held, nomination.usage))

    def _holders(self) -> dict[GangId, list[Pod]]:
        """The evicted pods that still hold their nodes, by moved gang."""
        by_pod = {pod: gang for gang, move in self.open.items() for pod in move.pods}
        found: dict[GangId, list[Pod]] = {gang: [] for gang in self.open}
        for gang in self._session.gangs.values():
            for pod in gang.members:
                if pod.uid in by_pod and pod.holds_node:
                    found[by_pod[pod.uid]].append(pod)
        return found


def _added(usage: Usage, more: Usage) -> Usage:
    """The sum of both."""
    return {**usage, **{node: add(usage.get(node, NONE), amounts) for node, amounts in more.items()}}


def _successors(session: Session) -> dict[Kind, list[GangId]]:
    """Waiting pods without a group that have a controller, by kind."""
    found: dict[Kind, list[GangId]] = {}
    for gang in session.gangs.values():
        pod = gang.members[0] if gang.kind is GangKind.POD else None
        if pod is not None and pod.is_waiting and pod.controller is not None:
            found.setdefault(kind_of(pod), []).append(gang.id)
    return found


def kind_of(pod: Pod) -> Kind:
    """The kind of a pod, which it has in common with the pod that its controller creates instead."""
    controller = pod.controller.uid if pod.controller is not None else ""
    return pod.namespace, controller, without_affinity_state(pod.shape).key


def apart_of(assignments: Assignments) -> dict[NodeName, tuple[ExpectedPod, ...]]:
    """Per node, one assigned pod of each kind; anti-affinity may concern it later."""
    return {node: tuple(dict.fromkeys(map(_expected, pods))) for node, pods in assignments}


def _expected(pod: Pod) -> ExpectedPod:
    return ExpectedPod(
        pod.namespace, pod.labels.pairs, pod.per_pod_labels.pairs, anti_affinity=pod.shape.anti_affinity
    )


def _recreated(gang: Gang | None, move: Move) -> list[Pod]:
    """Members with a node that are not the evicted ones."""
    evicted: frozenset[PodUid] = frozenset(move.pods)
    members = gang.members if gang is not None else ()
    return [pod for pod in members if pod.holds_node and not pod.deleting and pod.uid not in evicted]


def _uncharged(needed: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The part of the need that the queue is not charged for yet: all but what terminating pods hold."""
    total = total_of(held)
    left = {name: max(0, amount - total.get(name, 0)) for name, amount in total_of(needed).items()}
    booked: dict[NodeName, Resources] = {}
    for node, amounts in needed.items():
        booked[node] = {name: min(amount, left[name]) for name, amount in amounts.items()}
        left = {name: amount - booked[node].get(name, 0) for name, amount in left.items()}
    return {node: amounts for node, amounts in booked.items() if any(amounts.values())}
