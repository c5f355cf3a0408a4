"""Step 3, what may go first: a gang that waits is promised a start, and nobody of its rank may delay that.

In a queue that asks for it, the first gang that finds no room (Easy), or each that does not (Conservative),
gets a reservation: the earliest time at which it fits, as gangs with a run time end, and what it then takes
of which nodes. Whoever has no such promise, or a later one, in whichever queue, may use that room if it ends
before, and what is left beside it for as long as it likes. Repairs, gangs of higher rank and those of queues
that are served before are kept from nothing. Those that stay within what their queue is guaranteed, and find
no room beside all of these starts, are kept from nothing but starts that are within a guarantee too.

Only the promise is remembered; times and seats are worked out anew in each cycle. Who was promised a start
first comes first of its rank, so that two gangs do not take turns. A start that turns out late has its seats
kept from the time on that was promised first: nobody passes any more for saying that it ends in time, and
those who are on them only have to end.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.limits import RESERVATIONS_PER_QUEUE_MAX, RESERVATIONS_TRIED_MAX
from phalanx.actions.outcome import Failure
from phalanx.actions.problems.capacity_holders import Kinds, charged, gangs_holding, total_of
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.reservations import capacity_holds as claims
from phalanx.actions.reservations.precedence import binding, in_turn
from phalanx.actions.reservations.reservations import (
    NOT_RESERVED,
    EndingGang,
    Precedence,
    Reservation,
    capacity_delta,
    least_capacity,
    split,
)
from phalanx.actions.reservations.start_search import Start, StartSearch
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.ledger import Account
from phalanx.framework.run_times import RunTimeForecast
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.framework.states import GangState
from phalanx.model.gangs import Gang
from phalanx.model.memory import ReservedStart
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.queues import Backfill
from phalanx.model.reasons import Category
from phalanx.solver.answer_cache import AnswerCache

_AT_ONCE: Final = {
    Backfill.NONE: 0,
    Backfill.EASY: 1,
    Backfill.CONSERVATIVE: RESERVATIONS_PER_QUEUE_MAX,
}
"""How many gangs of one queue have a reservation."""


class _Withheld(Struct, frozen=True):
    """What a demand must leave alone, as negative changes. With an equal `key` it is no less than before."""

    key: Hashable
    room: Usage
    budgets: Mapping[Account, Mapping[str, int]]


class Reservations:
    """The reserved starts of one session, and what they keep from whom."""

    def __init__(self, session: Session, problems: ProblemBuilder, answers: AnswerCache) -> None:
        self._session = session
        self._problems = problems
        self._now = session.snapshot.now
        self._run_times = session.run_times
        self._reserved = _promised_before(session, self._run_times)
        self._search = StartSearch(session, self._run_times, answers)
        self._known_leaving: dict[GangId, EndingGang] | None = None
        self._withheld: dict[Hashable, _Withheld] = {}
        self._version = 0
        self._given = 0
        self._tried = 0

    @property
    def all(self) -> tuple[Reservation, ...]:
        """In the order of their turns."""
        return tuple(sorted(self._reserved.values(), key=lambda each: each.precedence))

    # --- what is left to others ----------------------------------------------------------------------------

    def binding(self, demand: Demand) -> tuple[Reservation, ...]:
        """The reservations that this demand must not delay, unless what it is guaranteed asks for that."""
        return binding(self.all, demand, self._session)

    def in_turn(self, demand: Demand, passed: Collection[GangId] | None) -> Iterator[Sequence[Reservation]]:
        """Beside which of them to look for room, one after the other."""
        return in_turn(self.binding(demand), demand, self._session, passed=passed)

    def _turn(self, gang: Gang) -> Precedence:
        mine = self._reserved.get(gang.id)
        return mine.precedence if mine is not None else (rank_of(gang, self._session), NOT_RESERVED)

    def build_problem(
        self,
        demand: Demand,
        binding: Sequence[Reservation],
        *,
        avoiding: frozenset[NodeName],
        known_infeasible: Collection[Hashable],
    ) -> KeyedProblem | None:
        """The problem of placing this demand beside these; None where that is known to be hopeless."""
        withheld = self._withheld_from(demand, binding) if binding else None
        if withheld is None:
            return self._problems.build_problem(demand, avoiding=avoiding)
        key = self._problems.key(demand, avoiding=avoiding)
        if key in known_infeasible or (withheld.key, key) in known_infeasible:
            return None
        with self._session.statement() as statement:
            statement.assume_free(usage=withheld.room, budgets=withheld.budgets)
            posed = self._problems.build_problem(demand, avoiding=avoiding)
            statement.roll_back()
        return replace(posed, key=(withheld.key, key))

    def key(self, demand: Demand, binding: Sequence[Reservation]) -> Hashable:
        """Of placing this demand beside these, on any node: as things are, equal keys fit alike."""
        withheld = self._withheld_from(demand, binding) if binding else None
        key = self._problems.key(demand)
        return key if withheld is None else (withheld.key, key)

    def _withheld_from(self, demand: Demand, binding: Sequence[Reservation]) -> _Withheld | None:
        """None for a demand that ends before any of it is needed."""
        end = self._run_times.end_if_placed(demand.gang)
        until = end.at if end is not None else None
        binding = [each for each in binding if until is None or each.held_from < until]
        if not binding:
            return None
        key = (self._version, tuple(each.gang for each in binding), until)
        if key not in self._withheld:
            cells = {cell for each in binding for cell in each.cells}
            least = least_capacity(self._leaving, binding, since=self._now, until=until, only=cells)
            room, budgets = split({cell: amount for cell, amount in least.items() if amount < 0})
            self._withheld[key] = _Withheld(key, room, budgets)
        return self._withheld[key]

    # --- what becomes of a demand --------------------------------------------------------------------------

    def placed(self, placing: DemandPlacement) -> None:
        """A demand has got nodes."""
        gang = placing.demand.gang
        if self._reserved.pop(gang.id, None) is not None:
            self._version += 1
        if self._known_leaving is not None and (end := self._run_times.end_of(gang)) is not None:
            self._known_leaving.update(self._leaving_of((gang,)))
            # what it gives back later is of use to nobody who starts before
            if any(end.at < each.start or each.end is not None for each in self._reserved.values()):
                self._withheld.clear()

    def failed(self, failure: Failure) -> None:
        """A demand has found no room: promise it a start, if its queue asks for that and it is its turn."""
        demand, queue = failure.demand, failure.demand.gang.queue
        at_once = _AT_ONCE[_mode_of(self._session, queue)]
        if not at_once or not _may_be_promised(failure):
            return
        precedence, before = self._turn(demand.gang), self._reserved.get(demand.gang.id)
        ahead = sum(each.queue == queue and each.precedence < precedence for each in self.all)
        start = None
        if ahead < at_once and (before is not None or self._tried < RESERVATIONS_TRIED_MAX):
            self._tried += before is None
            start = self._search.find(demand, self._leaving, self.binding(demand), before)
        self._reserve(demand.gang, start, before)

    def _reserve(self, gang: Gang, start: Start | None, before: Reservation | None) -> None:
        """Take what was found in place of what was promised before."""
        if before is not None or start is not None:
            self._version += 1
        if start is None:
            self._reserved.pop(gang.id, None)
            return
        given = before.given if before is not None else (self._session.cycle, self._given)
        self._given += before is None
        self._reserved[gang.id] = Reservation(
            gang=gang.id,
            name=f"gang {gang}",
            queue=gang.queue,
            precedence=(rank_of(gang, self._session), given),
            given=given,
            start=start.at,
            held_from=start.at if before is None else min(start.at, before.held_from),
            end=start.end,
            seats=start.seats,
            cells=start.cells,
            wants=_wants(gang, start.seats),
            forecast=start.forecast,
        )

    @property
    def _leaving(self) -> list[EndingGang]:
        """Who holds room after what this cycle did so far and is expected to end."""
        if self._known_leaving is None:
            self._known_leaving = self._leaving_of(self._session.gangs.values())
        return list(self._known_leaving.values())

    def _leaving_of(self, gangs: Collection[Gang]) -> dict[GangId, EndingGang]:
        ends = {gang.id: end for gang in gangs if (end := self._run_times.end_of(gang)) is not None}
        kinds: Kinds = {}
        holders = gangs_holding(self._session, [gang for gang in gangs if gang.id in ends], kinds)
        return {
            each.gang: EndingGang(
                name=each.name,
                end=ends[each.gang],
                nodes=each.used,
                cells=capacity_delta(each.queue, each.used, each.booked, self._session.ledger),
            )
            for each in holders
            if each.gang is not None
        }


def _mode_of(session: Session, queue: QueueName) -> Backfill:
    """The queue's own, else that of its nearest ancestor which has one."""
    return session.queues.inherited(queue, lambda each: each.backfill) or Backfill.NONE


def _may_be_promised(failure: Failure) -> bool:
    """Whether it is a whole start that could ever fit."""
    demand, remembered = failure.demand, failure.remembered
    if demand.stage is not Stage.START or not demand.is_whole or demand.cause == claims.CAUSE:
        return False
    is_impossible = remembered is not None and remembered.verdict.reason.category is Category.IMPOSSIBLE
    return failure.tried and not is_impossible


def _promised_before(session: Session, run_times: RunTimeForecast) -> dict[GangId, Reservation]:
    """What earlier cycles promised to gangs that still wait; each is looked at again in its turn."""
    found = {}
    for gang_id, promise in session.snapshot.memory.reserved_starts.items():
        gang = session.gangs.get(gang_id)
        if gang is None or not _still_waits(gang, session):
            continue
        found[gang_id] = Reservation(
            gang=gang_id,
            name=f"gang {gang}",
            queue=gang.queue,
            precedence=(rank_of(gang, session), promise.reserved_in),
            given=promise.reserved_in,
            start=promise.start,
            held_from=promise.held_from,
            end=run_times.end_after(gang, promise.start),
            seats=promise.usage,
            cells=capacity_delta(gang.queue, promise.usage, charged(promise.usage), session.ledger),
            wants=_wants(gang, promise.usage),
        )
    return found


def _wants(gang: Gang, seats: Usage) -> Beneficiary:
    """What a gang asks for that is to have these seats."""
    waiting = {pod.shape.key: pod for pod in gang.members if pod.is_waiting}
    return Beneficiary(gang, total_of(charged(seats)), tuple(waiting.values()))


def _still_waits(gang: Gang, session: Session) -> bool:
    """Whether it is to start whole, may be tried in this cycle, and its queue keeps promises."""
    waits = any(pod.is_waiting for pod in gang.members) and not gang.active and not gang.started
    is_refused = session.gang_state(gang) is not GangState.UNTRIED
    return waits and not is_refused and _mode_of(session, gang.queue) is not Backfill.NONE


def reserved_starts_of(reservations: Collection[Reservation]) -> dict[GangId, ReservedStart]:
    """What the next cycle should know of these."""
    promises = {
        each.gang: ReservedStart(
            reserved_in=each.given, start=each.start, held_from=each.held_from, usage=each.seats
        )
        for each in reservations
    }
    return dict(sorted(promises.items()))
