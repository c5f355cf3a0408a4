"""Backfill: reserve starts for waiting gangs, and place other gangs only where they delay no reserved start.

In EASY backfill (Lifka, 1995) the first gang of a queue that does not fit gets a reservation, in conservative
backfill every such gang. A reservation is the earliest time at which the gang fits as running gangs end, and
what it then uses on which nodes. A gang without a reservation, or with a later one, may use that capacity if
it ends before the reserved start. It may use all other capacity without limit. Repairs, gangs of higher rank
and gangs of queues with higher priority ignore reservations. If a gang within the guarantee of its queue does
not fit with all reservations respected, it respects only those that are within a guarantee too. The same
holds for a gang that is within the guarantee once it has evicted others of its side (`exchange`).

Only the reserved start is remembered; times and nodes are computed again in each cycle. Among gangs of equal
rank, the one with the oldest reservation is tried first, so that gangs do not overtake each other. If a start
is late, its nodes are held from the time that was reserved first; after a minute once from the new time.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.outcome import Failure
from phalanx.actions.problems.capacity_holders import Kinds, charged, gangs_holding, total_of
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.reservations import capacity_holds
from phalanx.actions.reservations.reservations import (
    NOT_RESERVED,
    EndingGang,
    Precedence,
    Reservation,
    alternatives,
    binding,
    capacity_delta,
    hard,
    is_exceeded,
    latest_end,
    least_capacity,
    moves,
    split,
)
from phalanx.actions.reservations.start_search import Start, StartSearch
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.ledger import Account
from phalanx.framework.run_times import Method, RunTimeForecast
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.framework.states import GangState
from phalanx.model.gangs import Gang
from phalanx.model.memory import LetIn, ReservedStart
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.queues import Backfill
from phalanx.model.reasons import Category
from phalanx.solver.answer_cache import AnswerCache

RESERVATIONS_PER_QUEUE_MAX: Final = 10
"""Reservations of one queue with conservative backfill. Each takes some solves."""

RESERVATIONS_TRIED_MAX: Final = 32
"""Gangs for which one cycle searches a first reservation."""

_RESERVATIONS_MAX: Final = {
    Backfill.NONE: 0,
    Backfill.EASY: 1,
    Backfill.CONSERVATIVE: RESERVATIONS_PER_QUEUE_MAX,
}
"""The largest number of reservations in one queue."""


class _Withheld(Struct, frozen=True):
    """What a demand must not use, as negative changes. With an equal `key` later changes withhold no less."""

    key: Hashable
    usage: Usage
    budgets: Mapping[Account, Mapping[str, int]]


class Reservations:
    """The reservations of one session, and what they withhold from demands."""

    def __init__(self, session: Session, problems: ProblemBuilder, answers: AnswerCache) -> None:
        self._session = session
        self._problems = problems
        self._now = session.snapshot.now
        self._run_times = session.run_times
        self._reserved = _remembered(session, self._run_times)
        self.used: dict[GangId, Reservation] = {}
        """Those of the gangs that were placed."""
        self.let_in: dict[GangId, LetIn] = {}
        """Those that were placed before others because of their maximum run time."""
        self._search = StartSearch(session, answers)
        self._known_ending: dict[GangId, EndingGang] | None = None
        self._withheld: dict[Hashable, _Withheld] = {}
        self._version = 0
        self._given = 0
        self._tried = 0

    @property
    def all(self) -> tuple[Reservation, ...]:
        """In the order of their precedence."""
        return tuple(sorted(self._reserved.values(), key=lambda reservation: reservation.precedence))

    # --- what reservations withhold -------------------------------------------------------------------------

    def binding(self, demand: Demand) -> tuple[Reservation, ...]:
        """The reservations that this demand must not delay, unless the guarantee of its queue permits it."""
        return binding(self.all, demand, self._session)

    def alternatives(
        self, demand: Demand, passed: Collection[GangId] | None
    ) -> Iterator[Sequence[Reservation]]:
        """The sets of reservations to respect, in the order in which they are tried."""
        return alternatives(self.binding(demand), demand, self._session, passed=passed)

    def _precedence(self, gang: Gang) -> Precedence:
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
        """The problem to place the demand with these respected; None if it is known to be infeasible."""
        withheld = self._withheld_from(demand, binding) if binding else None
        if withheld is None:
            return self._problems.build_problem(demand, avoiding=avoiding)
        key = self._problems.key(demand, avoiding=avoiding)
        if key in known_infeasible or (withheld.key, key) in known_infeasible:
            return None
        with self._session.statement() as statement:
            statement.assume_free(usage=withheld.usage, budgets=withheld.budgets)
            keyed = self._problems.build_problem(demand, avoiding=avoiding)
            statement.roll_back()
        return replace(keyed, key=(withheld.key, key))

    def key(self, demand: Demand, binding: Sequence[Reservation]) -> Hashable:
        """The key of the problem to place the demand on any nodes with these respected."""
        withheld = self._withheld_from(demand, binding) if binding else None
        key = self._problems.key(demand)
        return key if withheld is None else (withheld.key, key)

    def _withheld_from(self, demand: Demand, binding: Sequence[Reservation]) -> _Withheld | None:
        """What these withhold; None if the demand ends before any of them is held."""
        end = self._run_times.end_if_placed(demand.gang)
        until = latest_end(end.at, binding) if end is not None else None
        binding = [each for each in binding if until is None or each.held_from < until]
        if not binding:
            return None
        key = (self._version, tuple(each.gang for each in binding), until)
        if key not in self._withheld:
            delta = {cell for each in binding for cell in each.delta}
            least = least_capacity(self._ending, binding, since=self._now, until=until, only=delta)
            usage, budgets = split({cell: amount for cell, amount in least.items() if amount < 0})
            self._withheld[key] = _Withheld(key, usage, budgets)
        return self._withheld[key]

    # --- outcomes of demands --------------------------------------------------------------------------------

    def placed(self, placing: DemandPlacement) -> None:
        """Note that a demand was placed."""
        gang = placing.demand.gang
        self._note_let_in(placing.demand)
        reserved = self._reserved.pop(gang.id, None)
        if reserved is not None:
            self.used[gang.id] = reserved
            self._version += 1
        if self._known_ending is not None and (end := self._run_times.end_of(gang)) is not None:
            self._known_ending.update(self._ending_gangs((gang,)))
            # What the gang frees later matters only if some start is later or some reservation ends.
            if any(end.at < each.start or each.end is not None for each in self._reserved.values()):
                self._withheld.clear()

    def _note_let_in(self, demand: Demand) -> None:
        """Note the starts that the demand would delay if it did not end by its maximum run time."""
        gang = demand.gang
        end = self._run_times.end_if_placed(gang) if self._reserved else None
        if end is None or end.method is not Method.MAXIMUM:
            return
        bound = self.binding(demand)
        until = latest_end(end.at, bound)
        passed = hard([each for each in bound if each.held_from >= until], demand, self._session)
        if passed:
            _ = self._ending  # known from here on, with this gang
            others = [each for name, each in (self._known_ending or {}).items() if name != gang.id]
            own = self._ending_gangs((gang,))[gang.id].delta
            least = least_capacity(others, bound, since=self._now, until=None, only=own.keys())
            lacking = {cell for cell, amount in least.items() if is_exceeded(cell, amount, self._session)}
            before = tuple(each.gang for each in passed if not lacking.isdisjoint(each.delta))
            if before:
                self.let_in[gang.id] = LetIn(end.at, before, is_start=demand.stage is Stage.START)

    def failed(self, failure: Failure) -> None:
        """Note that a demand failed, and reserve a start for it if its queue allows one more reservation."""
        demand, queue = failure.demand, failure.demand.gang.queue
        most = _RESERVATIONS_MAX[_backfill_of(self._session, queue)]
        if not most or not _may_be_reserved(failure):
            return
        precedence, before = self._precedence(demand.gang), self._reserved.get(demand.gang.id)
        ahead = sum(each.queue == queue and each.precedence < precedence for each in self.all)
        start = None
        if ahead < most and (before is not None or self._tried < RESERVATIONS_TRIED_MAX):
            self._tried += before is None
            start = self._search.find(demand, self._ending, self.binding(demand), before)
        self._reserve(demand.gang, start, before)

    def _reserve(self, gang: Gang, start: Start | None, before: Reservation | None) -> None:
        """Replace the earlier reservation by what was found."""
        if before is not None or start is not None:
            self._version += 1
        if start is None:
            self._reserved.pop(gang.id, None)
            return
        reserved_in = before.reserved_in if before is not None else (self._session.cycle, self._given)
        self._given += before is None
        is_moved = before is not None and moves(before, start.at, self._now)
        self._reserved[gang.id] = Reservation(
            gang=gang.id,
            name=f"gang {gang}",
            queue=gang.queue,
            precedence=(rank_of(gang, self._session), reserved_in),
            reserved_in=reserved_in,
            start=start.at,
            held_from=start.at if before is None or is_moved else min(start.at, before.held_from),
            has_moved=is_moved or (before is not None and before.has_moved),
            end=start.end,
            usage=start.usage,
            delta=start.delta,
            request=_request(gang, start.usage),
            forecast=start.forecast,
        )

    @property
    def _ending(self) -> list[EndingGang]:
        """Gangs that hold capacity after the placements so far and are expected to end."""
        if self._known_ending is None:
            self._known_ending = self._ending_gangs(self._session.gangs.values())
        return list(self._known_ending.values())

    def _ending_gangs(self, gangs: Collection[Gang]) -> dict[GangId, EndingGang]:
        ends = {gang.id: end for gang in gangs if (end := self._run_times.end_of(gang)) is not None}
        kinds: Kinds = {}
        holders = gangs_holding(self._session, [gang for gang in gangs if gang.id in ends], kinds)
        return {
            each.gang: EndingGang(
                name=each.name,
                end=ends[each.gang],
                usage=each.used,
                delta=capacity_delta(each.queue, each.used, each.booked, self._session.ledger),
                queue=each.queue,
                pods=each.pods,
            )
            for each in holders
            if each.gang is not None
        }


def _backfill_of(session: Session, queue: QueueName) -> Backfill:
    """The mode of the queue, else of its nearest ancestor that has one."""
    return session.queues.inherited(queue, lambda queue: queue.backfill) or Backfill.NONE


def _may_be_reserved(failure: Failure) -> bool:
    """Whether it is a whole start that could ever fit."""
    demand, remembered = failure.demand, failure.remembered
    if demand.stage is not Stage.START or not demand.is_whole or demand.cause == capacity_holds.CAUSE:
        return False
    is_impossible = remembered is not None and remembered.verdict.reason.category is Category.IMPOSSIBLE
    return failure.tried and not is_impossible


def _remembered(session: Session, run_times: RunTimeForecast) -> dict[GangId, Reservation]:
    """Reservations of earlier cycles for gangs that still wait; computed again when the gang fails."""
    found = {}
    for gang_id, remembered in session.snapshot.memory.reserved_starts.items():
        gang = session.gangs.get(gang_id)
        if gang is None or not _still_waits(gang, session):
            continue
        found[gang_id] = Reservation(
            gang=gang_id,
            name=f"gang {gang}",
            queue=gang.queue,
            precedence=(rank_of(gang, session), remembered.reserved_in),
            reserved_in=remembered.reserved_in,
            start=remembered.start,
            held_from=remembered.held_from,
            has_moved=remembered.has_moved,
            end=run_times.end_after(gang, remembered.start),
            usage=remembered.usage,
            delta=capacity_delta(gang.queue, remembered.usage, charged(remembered.usage), session.ledger),
            request=_request(gang, remembered.usage),
        )
    return found


def _request(gang: Gang, usage: Usage) -> Beneficiary:
    """The request of a gang that will use this much."""
    waiting = {pod.shape.key: pod for pod in gang.members if pod.is_waiting}
    return Beneficiary(gang, total_of(charged(usage)), tuple(waiting.values()))


def _still_waits(gang: Gang, session: Session) -> bool:
    """Whether it is to start whole, may be tried in this cycle, and its queue reserves starts."""
    waits = any(pod.is_waiting for pod in gang.members) and not gang.minimum.is_reached(gang.counted)
    is_refused = session.gang_state(gang) is not GangState.UNTRIED
    return waits and not is_refused and _backfill_of(session, gang.queue) is not Backfill.NONE


def reserved_starts_of(reservations: Collection[Reservation]) -> dict[GangId, ReservedStart]:
    """The reserved starts that the next cycle remembers."""
    found = {
        each.gang: ReservedStart(
            reserved_in=each.reserved_in,
            start=each.start,
            held_from=each.held_from,
            usage=each.usage,
            has_moved=each.has_moved,
        )
        for each in reservations
    }
    return dict(sorted(found.items()))
