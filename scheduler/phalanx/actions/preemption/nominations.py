"""Nominated capacity: what evictions free is held for the gang that preempted.

A nomination says what the gang will use on which nodes, and which pods were evicted for it. Until those have
terminated, the gang comes before all others, except work of higher rank in its queue, and the part of its
capacity that is free already is held. A nomination ends when the gang is placed, when its victims have
terminated and it still does not fit, when one of its nodes becomes unavailable, or after its time, which
starts again when the grace period of the last victim has ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from phalanx.actions.preemption.victims import termination_deadline
from phalanx.actions.problems.capacity_holders import assigned_pods, charged, usage_of
from phalanx.framework.session import Session
from phalanx.framework.statement import Assignments, Statement, Usage
from phalanx.model.decisions import Nominate
from phalanx.model.gangs import Gang
from phalanx.model.memory import Nomination
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.numa import is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, subtract


class Nominations:
    """The nominations of earlier cycles that still count, by gang."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._retry = session.config.retry
        now = session.snapshot.now
        self.open: Mapping[GangId, Nomination] = {
            gang: each
            for gang, each in session.snapshot.memory.nominations.items()
            if each.usage and now < each.until and gang in session.gangs and self._is_of_use(each)
        }

    def _is_of_use(self, nomination: Nomination) -> bool:
        """Whether pods may still go to all its nodes; while the breaker is open, all nodes count as good."""
        session = self._session
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
        """What answers may depend on: which capacity is nominated for which gang, not until when."""
        return [(gang, replace(each, until=0)) for gang, each in sorted(self.open.items())]

    def prolonged(self, gang: GangId) -> Nomination:
        """The nomination, extended to the end of the grace periods of its victims."""
        each = self.open[gang]
        ends = [termination_deadline(pod) for pod in self.victims_left(gang) if pod.deleting]
        return replace(each, until=max([each.until, *(end + self._retry.nomination_ms for end in ends)]))

    def attempts(self, gang: GangId) -> int:
        """Evictions in a row that came to nothing for this gang."""
        return self._retry.attempts_in_row(self._session.snapshot.memory.nominations.get(gang))

    def rests_until(self, gang: GangId) -> int | None:
        """End (ms) of the rest in which nothing is evicted for this gang; None where it does not rest."""
        snapshot = self._session.snapshot
        return self._retry.rests_until(snapshot.memory.nominations.get(gang), snapshot.now)

    def hold_free_capacity(self, gang: Gang, statement: Statement) -> None:
        """Take the free part of its capacity, and keep pods with anti-affinity away."""
        self._hold(gang, statement, beyond)
        statement.reserve_anti_affinity(self.coming(gang))

    def give_up(self, gang: Gang, statement: Statement) -> None:
        """Release what `hold_free_capacity` took: capacity that came to nothing must not block the gang
        itself.
        """
        room, booked = self._part(gang, beyond)
        statement.assume_ended(queue=gang.queue, used=room, booked=booked)
        statement.reserve_anti_affinity(self.coming(gang), -1)

    def coming(self, gang: Gang) -> Assignments:
        """The nodes that pods of the gang will get."""
        waiting = {pod.uid: pod for pod in gang.members if pod.is_waiting}
        members = self.open[gang.id].members.items()
        return [(node, [waiting[uid] for uid in uids if uid in waiting]) for node, uids in members]

    def hold_victims_capacity(self, gang: Gang, statement: Statement) -> None:
        """Take the part that its victims hold, after they are assumed to have terminated."""
        self._hold(gang, statement, _common, self.coming(gang))

    def beside(self, gangs: Iterable[GangId]) -> dict[NodeName, Resources]:
        """The free part of the nominated capacity of these gangs, as negative changes."""
        room: dict[NodeName, Resources] = {}
        for gang in gangs:
            for node, amounts in beyond(self.open[gang].usage, _held_by(self.victims_left(gang))).items():
                room[node] = subtract(room.get(node, NONE), amounts)
        return room

    def _hold(
        self,
        gang: Gang,
        statement: Statement,
        part: Callable[[Usage, Usage], Usage],
        coming: Assignments = (),
    ) -> None:
        """Take a part of its usage, and on its account the part that its own queue does not hold already."""
        room, booked = self._part(gang, part)
        statement.nominate(queue=gang.queue, usage=room, booked=booked, coming=coming)

    def _part(self, gang: Gang, part: Callable[[Usage, Usage], Usage]) -> tuple[Usage, Usage]:
        left = self.victims_left(gang.id)
        own = _held_by(pod for pod in left if self.gang_of(pod).queue == gang.queue)
        seats = self.open[gang.id].usage
        return part(seats, _held_by(left)), charged(part(seats, own))

    @cached_property
    def _holders(self) -> dict[PodUid, tuple[Gang, Pod]]:
        victims = {uid for each in self.open.values() for uid in each.victims}
        if not victims:
            return {}
        return {
            pod.uid: (gang, pod)
            for gang in self._session.gangs.values()
            for pod in gang.members
            if pod.uid in victims and pod.holds_node
        }


def nominate(seats: Assignments, cycle: int) -> Iterator[Nominate]:
    """One nomination per pod."""
    for node, pods in seats:
        for pod in pods:
            yield Nominate(pod=pod.uid, namespace=pod.namespace, name=pod.name, node=node, cycle=cycle)


def _held_by(pods: Iterable[Pod]) -> dict[NodeName, Resources]:
    """What the pods use on their nodes, with devices of shares."""
    return usage_of(assigned_pods(pods), with_devices=True)


def beyond(seats: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The part of the usage that is more than what is held."""
    return {node: _more(amounts, held.get(node, NONE)) for node, amounts in seats.items()}


def _more(amounts: Resources, held: Resources) -> Resources:
    """No NUMA zone if no device is more: the zone will be that of the pods which hold the devices."""
    more = {name: max(0, amount - held.get(name, 0)) for name, amount in amounts.items()}
    devices = [amount for name, amount in more.items() if "/" in name and not is_numa_resource(name)]
    if devices and not any(devices):
        return {name: 0 if is_numa_resource(name) else amount for name, amount in more.items()}
    return more


def _common(seats: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The part of the usage that is held."""
    more = beyond(seats, held)
    return {node: subtract(amounts, more[node]) for node, amounts in seats.items()}
