"""Finds the victims with whose end a demand fits, and the placement that follows.

The least important victims that are enough: priorities are added from below until the demand fits. Among them
the solver chooses the cheapest set; what it chose is tried with all rules of the demand. Where those ask for
more than it knows of, victims are added by trial, the cheapest first, and those that turn out to be needless
stay.
"""

from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demand import Batch, Demand
from phalanx.actions.limits import CYCLE_VICTIMS_LIMIT, VICTIM_PRIORITIES_MAX, VICTIM_TRIALS_MAX
from phalanx.actions.placing import seats_of
from phalanx.actions.problems import Problems
from phalanx.actions.victim_problem import problem_of
from phalanx.actions.victims import Victim
from phalanx.framework.evictions import Beneficiary, EvictionFloor
from phalanx.framework.session import Session
from phalanx.framework.statement import Seats, Usage, total_requests
from phalanx.limits import VICTIM_DETERMINISTIC_LIMIT
from phalanx.model.gangs import Gang
from phalanx.solver.engine import place
from phalanx.solver.problem import Placed
from phalanx.solver.victims.engine import choose
from phalanx.solver.victims.problem import Choice, VictimProblem
from phalanx.solver.victims.room import Room


class Made(Struct, frozen=True):
    """Who is evicted, where the demand goes then, and how good the choice is, in words."""

    victims: tuple[Victim, ...]
    seats: Seats
    price: str

    @property
    def usage(self) -> Usage:
        """What the seats use per node."""
        return {node: total_requests(pods) for node, pods in self.seats}

    @property
    def gangs_ended(self) -> list[Gang]:
        """The gangs that lose all they hold, or more than they can do without."""
        return [victim.gang for victim in self.victims if victim.whole]


class RoomMaker:
    """Answers for the demands of one session while its statements assume that others have ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = Problems(session, may_grow=True)
        self._effort = CYCLE_VICTIMS_LIMIT

    def key(self, demand: Demand) -> Hashable:
        """Equal for demands that differ by nothing but the names of their pods."""
        return self._problems.key(demand)

    def make(
        self, demand: Demand, victims: Sequence[Victim], floors: Sequence[EvictionFloor] = ()
    ) -> Made | None:
        """The best choice; None where nobody's end is enough, or where the demand fits without any."""
        wanted = _whole(demand)
        if self._seats(wanted, ()) is not None:
            return None
        for some in _by_importance(victims):
            made = self._choose(wanted, some, floors)
            if made is not None:
                return made
        return None

    def _choose(
        self, demand: Demand, victims: Sequence[Victim], floors: Sequence[EvictionFloor]
    ) -> Made | None:
        problem = problem_of(self._session, demand, victims, floors)
        answer = choose(problem, effort=min(self._effort, VICTIM_DETERMINISTIC_LIMIT))
        self._effort -= answer.spent
        choice = answer.choice
        if choice is None:
            return None
        chosen = [victims[index] for index in choice.units]
        seats = self._seats(demand, chosen)
        if seats is not None:
            return Made(tuple(chosen), seats, _price(choice.cost, choice.bound))
        return self._by_trial(demand, victims, problem, choice)

    def _by_trial(
        self, demand: Demand, victims: Sequence[Victim], problem: VictimProblem, choice: Choice
    ) -> Made | None:
        """Twice as many each time, then without those that turn out to be needless."""
        room = Room(problem)
        room.remove(choice.units)
        order = [victims[index] for index in choice.units]
        for index in _cheapest_first(victims):
            more = room.with_needed(index)
            if more and room.keeps_floors(more):
                room.remove(more)
                order += [victims[each] for each in more]
        count, seats = len(choice.units), None
        while seats is None and count < len(order):
            count = min(len(order), max(1, 2 * count))
            seats = self._seats(demand, order[:count])
        if seats is None:
            return None
        chosen = order[:count]
        for each in sorted(chosen, key=lambda victim: -victim.cost)[:VICTIM_TRIALS_MAX]:
            fewer = [other for other in chosen if other is not each]
            if _is_closed(fewer) and (found := self._seats(demand, fewer)) is not None:
                chosen, seats = fewer, found
        return Made(tuple(chosen), seats, _price(sum(each.cost for each in chosen), choice.bound))

    def _seats(self, demand: Demand, ended: Sequence[Victim]) -> Seats | None:
        """Where the whole demand goes when these have ended."""
        with self._session.statement() as what_if:
            for each in ended:
                what_if.end(queue=each.queue, used=each.used, booked=each.booked)
            answer = place(self._problems.pose(demand).problem)
            seats = (
                seats_of(self._session, demand, answer.assignments) if isinstance(answer, Placed) else None
            )
            what_if.roll_back()
        return seats


def beneficiary_of(demand: Demand) -> Beneficiary:
    """For whom room is made, and what it asks for."""
    asked = total_requests([pod for batch in demand.batches for pod in batch.pods])
    return Beneficiary(demand.gang, asked)


def _whole(demand: Demand) -> Demand:
    """Room is made for all of it."""
    batches = tuple(Batch(each.name, each.pods, len(each.pods)) for each in demand.batches)
    return replace(demand, batches=batches)


def _by_importance(victims: Sequence[Victim]) -> Iterator[list[Victim]]:
    """The least important, then with the next ones, and so on, in a bounded number of steps."""
    priorities = sorted({each.gang.priority for each in victims})
    step = -(-len(priorities) // VICTIM_PRIORITIES_MAX)
    for top in [*priorities[step - 1 :: step][:-1], priorities[-1]] if priorities else ():
        yield [each for each in victims if each.gang.priority <= top]


def _cheapest_first(victims: Sequence[Victim]) -> list[int]:
    """Indices, whoever costs least first."""
    return sorted(range(len(victims)), key=lambda index: (victims[index].cost, index))


def _is_closed(victims: Sequence[Victim]) -> bool:
    """Whether no gang goes whole while members that can go alone stay."""
    for each in victims:
        if each.whole:
            gone = {pod.uid for other in victims if other.gang.id == each.gang.id for pod in other.pods}
            if any(pod.holds_node and not pod.deleting and pod.uid not in gone for pod in each.gang.members):
                return False
    return True


def _price(cost: int, bound: int) -> str:
    proof = "proven to be the least" if cost <= bound else f"proven is {bound} at least"
    return f"costs {cost}, {proof}"
