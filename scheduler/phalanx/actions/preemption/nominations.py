"""Room that is being made: what was freed by evictions is kept for whom it was freed.

A nomination says what the gang will use on which nodes, and who was evicted for that. Until those have ended
the gang comes before all others, but for work of higher rank in its queue; and what is free already of its
room is held, so that nobody else takes it. It is forgotten when the gang is placed, when all have ended, with
others that were leaving there anyway, and it still does not fit, when one of its nodes is out of service, or
after its time, which begins anew when the last victim's grace period has ended.
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
    """Those of one session that still count. `open`: by the gang for which room is being made."""

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
        """Whether pods may still go to all of its nodes; while the breaker is open no node is doubted."""
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
        """What others may rest an answer on: for whom what is kept, not until when."""
        return [(gang, replace(each, until=0)) for gang, each in sorted(self.open.items())]

    def prolonged(self, gang: GangId) -> Nomination:
        """With the time that victims have which were told to go, however long before that is."""
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
        """Take the part of its room that nobody holds any more, and keep apart who must be."""
        self._hold(gang, statement, beyond)
        statement.reserve_anti_affinity(self.coming(gang))

    def give_up(self, gang: Gang, statement: Statement) -> None:
        """Give back what `hold_free_capacity` took: room that came to nothing must not be in its own way."""
        room, booked = self._part(gang, beyond)
        statement.assume_ended(queue=gang.queue, used=room, booked=booked)
        statement.reserve_anti_affinity(self.coming(gang), -1)

    def coming(self, gang: Gang) -> Assignments:
        """Where pods of the gang are to come."""
        waiting = {pod.uid: pod for pod in gang.members if pod.is_waiting}
        members = self.open[gang.id].members.items()
        return [(node, [waiting[uid] for uid in uids if uid in waiting]) for node, uids in members]

    def hold_victims_capacity(self, gang: Gang, statement: Statement) -> None:
        """Take the part that its victims hold, after their end was assumed, as if its pods were there."""
        self._hold(gang, statement, _common, self.coming(gang))

    def beside(self, gangs: Iterable[GangId]) -> dict[NodeName, Resources]:
        """What is free already of the room of these gangs, as negative changes."""
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
        """The part of its seats against what its victims hold, and on its account those of its own queue."""
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
    """The pods, each for its node."""
    for node, pods in seats:
        for pod in pods:
            yield Nominate(pod=pod.uid, namespace=pod.namespace, name=pod.name, node=node, cycle=cycle)


def _held_by(pods: Iterable[Pod]) -> dict[NodeName, Resources]:
    """What they use where they are, with the devices of shares."""
    return usage_of(assigned_pods(pods), with_devices=True)


def beyond(seats: Usage, held: Usage) -> dict[NodeName, Resources]:
    """What of the seats is more than what is held there."""
    return {node: _more(amounts, held.get(node, NONE)) for node, amounts in seats.items()}


def _more(amounts: Resources, held: Resources) -> Resources:
    """No place in a NUMA zone where no device is more: the zone to be is that of those which hold it."""
    more = {name: max(0, amount - held.get(name, 0)) for name, amount in amounts.items()}
    devices = [amount for name, amount in more.items() if "/" in name and not is_numa_resource(name)]
    if devices and not any(devices):
        return {name: 0 if is_numa_resource(name) else amount for name, amount in more.items()}
    return more


def _common(seats: Usage, held: Usage) -> dict[NodeName, Resources]:
    """The others, which are held there."""
    more = beyond(seats, held)
    return {node: subtract(amounts, more[node]) for node, amounts in seats.items()}
