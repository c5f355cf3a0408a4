"""Hold the capacity that evictions free for the gang that preempted.

A nomination lists what the gang will use on which nodes, and which pods were evicted for it. Until these pods
have terminated, the gang is tried before all others, except gangs of higher rank in its queue, and the part
of the capacity that is free already is held. A nomination ends when the gang is placed, when its victims have
terminated and it still does not fit, when one of its nodes becomes unavailable, or when it expires. The time
to its expiry starts again when the grace period of the last victim has ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from phalanx.actions.preemption.victims import termination_deadline
from phalanx.actions.problems.capacity_holders import assigned_pods, charged, usage_with_charges
from phalanx.actions.problems.held_devices import reserve, still_held
from phalanx.framework.evictable_pods import candidates
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.decisions import Nominate
from phalanx.model.gangs import Gang
from phalanx.model.memory import Nomination
from phalanx.model.names import NO_QUEUE, GangId, NodeName, PodUid
from phalanx.model.pods import Assignments, Pod
from phalanx.model.resources import NONE, Resources, subtract
from phalanx.model.supplies.known import is_chosen_by_kubelet


class Nominations:
    """The valid nominations of earlier cycles, by gang."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._retry = session.config.retry
        now = session.snapshot.now
        self.open: Mapping[GangId, Nomination] = {
            gang: each
            for gang, each in session.snapshot.memory.nominations.items()
            if each.usage and now < each.until and self._is_usable(gang, each)
        }

    def _is_usable(self, gang: GangId, nomination: Nomination) -> bool:
        """Whether its gang is still in its queue, and all its nodes are available.

        While the breaker is open, all nodes count as available.
        """
        session = self._session
        if gang not in session.gangs or nomination.queue not in (NO_QUEUE, session.gangs[gang].queue):
            return False
        if session.health.is_open:
            return True
        states = [session.nodes.get(name) for name in nomination.usage]
        return session.faults.keys().isdisjoint(nomination.usage) and all(
            state is not None and state.node.is_ready and not state.node.unschedulable for state in states
        )

    def victims_left(self, gang: GangId) -> list[Pod]:
        """The victims that still hold their nodes."""
        return [self._holders[uid][1] for uid in self.open[gang].victims if uid in self._holders]

    def gang_of(self, victim: Pod) -> Gang:
        """The gang of a victim that still holds its node."""
        return self._holders[victim.uid][0]

    def content(self) -> list[tuple[GangId, Nomination]]:
        """The nominations without their expiry times, on which solutions do not depend."""
        return [(gang, replace(each, until=0)) for gang, each in sorted(self.open.items())]

    def prolonged(self, gang: GangId) -> Nomination:
        """The nomination, extended to the end of the grace periods of its victims."""
        each = self.open[gang]
        ends = [termination_deadline(pod) for pod in self.victims_left(gang) if pod.deleting]
        return replace(each, until=max([each.until, *(end + self._retry.nomination_ms for end in ends)]))

    def attempts(self, gang: GangId) -> int:
        """The number of consecutive nominations after which this gang was not placed."""
        return self._retry.attempts_in_row(self._session.snapshot.memory.nominations.get(gang))

    def rests_until(self, gang: GangId) -> int | None:
        """Time (ms) until which nothing is evicted for this gang after failed nominations, or None."""
        snapshot = self._session.snapshot
        return self._retry.rests_until(snapshot.memory.nominations.get(gang), snapshot.now)

    def hold_free_capacity(self, gang: Gang, statement: Statement) -> None:
        """Hold the free part of its capacity, and let its pods repel others by anti-affinity already."""
        self._hold(gang, statement, beyond)
        reserve(self._session, statement, still_held(self.open[gang.id].devices, self._session))
        statement.reserve_anti_affinity(self.expected_assignments(gang))

    def give_up(self, gang: Gang, statement: Statement) -> None:
        """Release what `hold_free_capacity` took, so that the gang itself may use it elsewhere."""
        usage, booked = self._part(gang, beyond)
        statement.nominate(queue=gang.queue, usage=negative(usage), booked=negative(booked))
        held = still_held(self.open[gang.id].devices, self._session)
        reserve(self._session, statement, held, release=True)
        statement.reserve_anti_affinity(self.expected_assignments(gang), -1)

    def expected_assignments(self, gang: Gang) -> Assignments:
        """The nodes that waiting pods of the gang are expected to get."""
        waiting = {pod.uid: pod for pod in gang.members if pod.is_waiting}
        members = self.open[gang.id].members.items()
        return [(node, [waiting[uid] for uid in uids if uid in waiting]) for node, uids in members]

    def hold_victims_capacity(self, gang: Gang, statement: Statement) -> None:
        """Hold the part that its victims hold, after they are assumed to have terminated."""
        self._hold(gang, statement, _common, self.expected_assignments(gang))

    def withheld_for(self, gangs: Iterable[GangId]) -> dict[NodeName, Resources]:
        """The free part of the nominated capacity of these gangs, as negative amounts."""
        changes: dict[NodeName, Resources] = {}
        for gang in gangs:
            for node, amounts in beyond(self.open[gang].usage, _held_by(self.victims_left(gang))).items():
                changes[node] = subtract(changes.get(node, NONE), amounts)
        return changes

    def _hold(
        self,
        gang: Gang,
        statement: Statement,
        part: Callable[[Usage, Usage], Usage],
        expected: Assignments = (),
    ) -> None:
        """Take a part of its usage; charge its queue for what victims of that queue do not hold already."""
        usage, booked = self._part(gang, part)
        statement.nominate(queue=gang.queue, usage=usage, booked=booked, expected=expected)

    def _part(self, gang: Gang, part: Callable[[Usage, Usage], Usage]) -> tuple[Usage, Usage]:
        left = self.victims_left(gang.id)
        own = _held_by(pod for pod in left if self.gang_of(pod).queue == gang.queue)
        usage = self.open[gang.id].usage
        return part(usage, _held_by(left)), charged(part(usage, own))

    @cached_property
    def _holders(self) -> dict[PodUid, tuple[Gang, Pod]]:
        victims = {uid for each in self.open.values() for uid in each.victims}
        if not victims:
            return {}
        return {
            pod.uid: (gang, pod)
            for gang in candidates(self._session)
            for pod in gang.members
            if pod.uid in victims and pod.holds_node
        }


def nominate(assignments: Assignments, cycle: int) -> Iterator[Nominate]:
    """Yield one decision per pod."""
    for node, pods in assignments:
        for pod in pods:
            yield Nominate(pod=pod.uid, namespace=pod.namespace, name=pod.name, node=node, cycle=cycle)


def negative(usage: Usage) -> Mapping[NodeName, Resources]:
    """The opposite of the usage, to release what was taken with it."""
    return {node: subtract(NONE, amounts) for node, amounts in usage.items()}


def _held_by(pods: Iterable[Pod]) -> Usage:
    """What the pods use on their nodes, including devices of GPU shares, and what queues are charged for."""
    return usage_with_charges(assigned_pods(pods))


def beyond(usage: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The part of the usage that exceeds what is held."""
    return {node: _more(amounts, held.get(node, NONE)) for node, amounts in usage.items()}


def _more(amounts: Resources, held: Resources) -> Resources:
    """The excess; if it has no devices, without what comes with the held devices."""
    more = {name: max(0, amount - held.get(name, 0)) for name, amount in amounts.items()}
    devices = [amount for name, amount in more.items() if "/" in name]
    if devices and not any(devices):
        return {name: 0 if is_chosen_by_kubelet(name) else amount for name, amount in more.items()}
    return more


def _common(usage: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The part of the usage that is held."""
    more = beyond(usage, held)
    return {node: subtract(amounts, more[node]) for node, amounts in usage.items()}
