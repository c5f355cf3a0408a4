"""Give up capacity that is held for pods which do not run, where the same pods would be evicted if they ran.

Such capacity is held for lost or reserved members, for gangs that wait for victims, and for gangs that are
moved. It is worth no more than capacity in use. A demand gets it from a preemptible gang of another queue
that guarantees would cover less. Nothing is evicted, so neither the run time of the holder nor a preemption
policy matters. What the demand leaves is held again.
`docs/preemption.md` has the rule for users.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from msgspec import Struct

from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of, started_gangs
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.problems.capacity_holders import charged, total_of
from phalanx.actions.reservations.reservations import is_guaranteed_before
from phalanx.framework.changes import CapacityHold
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.charges import total_charges
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import subtract
from phalanx.model.supplies.known import fits_on, with_supplied


class GivenUp(Struct):
    """Capacity that was given up to one demand."""

    holds: list[CapacityHold]
    """For lost or reserved members."""
    moved: list[GangId]
    """Gangs that are moved."""
    nominated: list[Gang]
    """Gangs that wait for victims."""
    unclaimed: frozenset[GangId]
    """Gangs whose held capacity of the last cycle is not held again yet."""
    statements: list[Statement]

    def __bool__(self) -> bool:
        return bool(self.statements or self.unclaimed)

    @property
    def key(self) -> Hashable:
        """Equal if the same capacity is given up."""
        holds = tuple((hold.gang.id, tuple(node for node, _ in hold.assignments)) for hold in self.holds)
        return holds, tuple(self.moved), tuple(gang.id for gang in self.nominated), self.unclaimed

    def undo(self) -> None:
        """Hold the capacity as before. Later statements must have been rolled back."""
        for statement in reversed(self.statements):
            statement.roll_back()


class Yielding:
    """Gives capacity up to demands, and holds again what they leave."""

    def __init__(self, session: Session, nominations: Nominations, moves: Moves) -> None:
        self._session = session
        self._nominations = nominations
        self._moves = moves

    def give_up_to(
        self, demand: Demand, *, unclaimed: Iterable[Beneficiary] = (), nominated: Iterable[GangId] = ()
    ) -> GivenUp:
        """Give up what yields to the demand; nothing to surplus, for which nothing is evicted either.

        Gangs of the lowest rank are asked first, so that the guarantee may still cover the others.
        `unclaimed`: gangs whose held capacity of the last cycle is not held again yet, with that capacity.
        `nominated`: gangs whose nominated capacity is held now.
        """
        given_up = GivenUp([], [], [], frozenset(), [])
        if demand.stage is Stage.SURPLUS or not self._session.queues.path(demand.gang.queue):
            return given_up
        asked = beneficiary_of(demand)
        given_up.unclaimed = frozenset(each.gang.id for each in unclaimed if self._yields(each, asked))
        for hold in reversed(self._holds_of_running()):
            pods = [pod for _, held in hold.assignments for pod in held]
            request = Beneficiary(hold.gang, total_charges(pods), _kinds(pods))
            if self._give_up(given_up, partial(Statement.release_hold, hold=hold), request, asked):
                given_up.holds.append(hold)
        for gang_id in self._moves.holding:
            gang = self._session.gangs.get(gang_id)
            if gang is not None:
                request = _request(gang, self._moves.open[gang_id].usage)
                if self._give_up(given_up, partial(self._moves.give_up, gang_id), request, asked):
                    given_up.moved.append(gang_id)
        for gang in [self._session.gangs[gang_id] for gang_id in nominated]:
            request = _request(gang, self._nominations.open[gang.id].usage)
            if self._give_up(given_up, partial(self._nominations.give_up, gang), request, asked):
                given_up.nominated.append(gang)
        return given_up

    def _holds_of_running(self) -> list[CapacityHold]:
        """What is held for gangs that run. A start of the cycle is given up as a whole, with its holds."""
        holds = self._session.capacity_holds
        started = started_gangs(self._session.placements) if holds else set()
        return [hold for hold in holds if hold.gang.id not in started]

    def hold_rest(self, given_up: GivenUp) -> None:
        """Hold again what is still free, on the same nodes."""
        with self._session.statement() as statement:
            for gang_id in given_up.moved:
                self._moves.hold_again(gang_id, statement)
            for gang in given_up.nominated:
                self._nominations.hold_free_capacity(gang, statement)
            for hold in reversed(given_up.holds):
                with self._session.respecting_nominations(hold.gang):
                    assignments = self._still_free(hold)
                if assignments:
                    statement.hold_capacity(gang=hold.gang, assignments=assignments)

    def _still_free(self, hold: CapacityHold) -> list[tuple[NodeName, tuple[Pod, ...]]]:
        """The assignments without the pods that do not fit any more; nothing of pods that share devices."""
        found = []
        for node, pods in hold.assignments if not hold.parts else ():
            free, stay = self._session.free(node), []
            for pod in pods:
                if fits_on(pod.shape, free):
                    free = subtract(free, with_supplied(pod.shape))
                    stay.append(pod)
            if stay:
                found.append((node, tuple(stay)))
        return found

    def _give_up(
        self,
        given_up: GivenUp,
        release: Callable[[Statement], None],
        request: Beneficiary,
        asked: Beneficiary,
    ) -> bool:
        """Release what is held for a request, if it yields once it is not charged any more."""
        if request.gang.queue == asked.gang.queue:
            return False
        with self._session.statement() as statement:
            release(statement)
        if self._yields(request, asked):
            given_up.statements.append(statement)
            return True
        statement.roll_back()
        return False

    def _yields(self, request: Beneficiary, asked: Beneficiary) -> bool:
        is_evictable = request.gang.disruption.is_preemptible
        return is_evictable and is_guaranteed_before(asked, request, self._session)


def _request(gang: Gang, usage: Usage) -> Beneficiary:
    waiting = [pod for pod in gang.members if pod.is_waiting]
    return Beneficiary(gang, total_of(charged(usage)), _kinds(waiting))


def _kinds(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple({pod.shape.key: pod for pod in pods}.values())
