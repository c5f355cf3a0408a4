"""Search the earliest start of a waiting gang as running gangs end, and its nodes.

The least capacity from a time on never decreases as that time moves later. So the first time from which on
the gang fits for ever is found by binary search, with one solve per step. A gang with a maximum run time may
fit earlier, if it ends before a reserved start: the first few earlier times are tried one by one. Pods of
gangs that end do not repel or attract a gang with affinity any more: such a gang may fit for a while only,
and a start that is not the earliest one may be found for it. Members that share claims to devices fit if they
do with some choice of these devices; the choice is made again when the gang starts.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.actions.demands.demand import Demand, charged_amounts, has_affinity_terms
from phalanx.actions.nodes.gang_constraints import constraints_of
from phalanx.actions.problems.capacity_holders import charged, total_of
from phalanx.actions.problems.device_choices import keeping_choice, sharing_of
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.reservations.reservations import (
    CapacityDelta,
    EndingGang,
    Forecast,
    Reservation,
    capacity_delta,
    least_capacity,
    moments,
    split,
)
from phalanx.framework.charges import is_marked_charge, marked_as_charged, with_marked_charges
from phalanx.framework.run_times import Method
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.limits import EXPLANATION_DETERMINISTIC_LIMIT
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.supplies.known import offered_of, supply_of, total_usage
from phalanx.rules.budget import Budget
from phalanx.solver.answer import Placed, SolveLimits
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem

RESERVATION_GAPS_MAX: Final = 4
"""Times tried, each by a solve, for a gang that may start and end before a reserved start."""

RESERVATION_SOLVES_MAX: Final = 24
"""Solves for one reservation: one per binary digit of the number of ends, and the gaps."""

RESERVATION_SHARED_SOLVES_MAX: Final = 96
"""The same for a gang whose members share claims: at a time, several choices of devices may be tried."""

RESERVATION_ENDS_SHOWN_MAX: Final = 8
"""Gangs that a verdict names as those that must end before a reserved start, the last ones."""

_LIMITS = SolveLimits(deterministic=EXPLANATION_DETERMINISTIC_LIMIT)


class Start(Struct, frozen=True):
    """A feasible start."""

    at: int
    """Time (ms) of the start."""
    end: int | None
    """The end of its longest run; None without a maximum."""
    usage: Usage
    delta: CapacityDelta
    forecast: Forecast


class StartSearch:
    """Searches starts for the gangs of one session."""

    def __init__(self, session: Session, answers: AnswerCache) -> None:
        self.session = session
        self.answers = answers
        self._never: set[Hashable] = set()

    @cached_property
    def problems(self) -> ProblemBuilder:
        """A builder of problems in which more capacity is free than now."""
        return ProblemBuilder(self.session, may_grow=True)

    @cached_property
    def placer(self) -> Placer:
        """Places demands in such problems."""
        return Placer(self.session, self.problems)

    def find(
        self,
        demand: Demand,
        ending: Sequence[EndingGang],
        reservations: Sequence[Reservation],
        before: Reservation | None,
    ) -> Start | None:
        """The earliest start as these gangs end, if these reservations are not delayed.

        A gang whose reserved start is late keeps its nodes, if they become free at some time.
        """
        search = _Search(self, demand, ending, reservations)
        is_late = before is not None and before.held_from <= self.session.snapshot.now
        if before is not None and is_late and (start := search.find_on(before.usage)) is not None:
            return start
        key = (self.problems.key(demand), tuple(reservation.gang for reservation in reservations))
        if key in self._never:
            return None
        shares = sharing_of(self.session, demand)
        with keeping_choice(self.session, shares) if shares else nullcontext():
            found = search.find(before.start if before is not None else None)
        if found is None:
            self._never.add(key)
        return found


class _Search:
    """The search for one demand."""

    def __init__(
        self,
        searches: StartSearch,
        demand: Demand,
        ending: Sequence[EndingGang],
        reservations: Sequence[Reservation],
    ) -> None:
        self._session = searches.session
        self._searches = searches
        self._demand = demand
        self._ending = ending
        self._reserved = reservations
        solves = RESERVATION_SOLVES_MAX
        if sharing_of(searches.session, demand) is not None:
            solves = RESERVATION_SHARED_SOLVES_MAX
        self._oracle = FeasibilityOracle(searches.answers, _LIMITS, solves=solves)
        self._has_terms = has_affinity_terms(demand)
        """Whether it matters which pods are gone, and not only what they free."""

    def find(self, likely: int | None) -> Start | None:
        """The earliest start. The binary search begins at `likely`."""
        times = moments(self._ending, self._reserved, now=self._session.snapshot.now)
        index, assignments = self._first_for_ever(times, likely)
        for at in times[:index][:RESERVATION_GAPS_MAX] if self._reserved else ():
            end = self._end(at)
            if end is not None and (earlier := self._fits(at, end)) is not None:
                return self._start(at, end, earlier)
        return self._start(times[index], None, assignments) if assignments is not None else None

    def find_on(self, usage: Usage) -> Start | None:
        """The earliest start with exactly this usage; None if it does not suit the demand any more."""
        eligibilities = [self._session.eligibility(batch.pods[0]) for batch in self._demand.batches]
        is_unusable = any(
            node not in self._session.nodes or node in each.rejected or self._is_unforeseen(node, usage)
            for node in usage
            for each in eligibilities
        )
        if is_unusable or total_of(charged(usage)) != charged_amounts(self._demand):
            return None
        times = moments(self._ending, self._reserved, now=self._session.snapshot.now)
        index = bisect_left(times, True, key=lambda at: self._are_free(usage, at))
        return self._start_on(usage, times[index]) if index < len(times) else None

    def _is_unforeseen(self, name: NodeName, usage: Usage) -> bool:
        """Whether the usage needs parts of the node of which it is unknown which ones will be free later."""
        node = self._session.nodes[name].node
        supplies = [(supply, resource) for resource in usage[name] if (supply := supply_of(resource))]
        return not all(supply.is_foreseen(resource, node) for supply, resource in supplies)

    def _are_free(self, usage: Usage, at: int) -> bool:
        """Whether this usage is free and within all limits from this time on."""
        with self._session.statement() as statement:
            self._assume_free(statement, at, None)
            budgets = constraints_of(self._session, self._demand.gang).budgets
            are_free = not any(self._is_too_full(node, usage) for node in usage) and all(
                _is_within(budget, usage) for budget in budgets
            )
            statement.roll_back()
        return are_free

    def _first_for_ever(self, times: Sequence[int], likely: int | None) -> tuple[int, Assignments | None]:
        """The index of the first time from which on it fits, and its assignments.

        If there is none, the index is the number of times and the assignments are None.
        """
        low, high = 0, len(times)
        found: Assignments | None = None
        guess = high - 1 if likely is None else bisect_left(times, likely)
        probes = [guess, guess - 1]
        while low < high:
            probe = probes.pop(0) if probes else (low + high) // 2
            if not low <= probe < high:
                continue
            assignments = self._fits(times[probe], None)
            if assignments is None:
                low = probe + 1
            else:
                high, found = probe, assignments
        return high, found

    def _end(self, start: int) -> int | None:
        return self._session.run_times.end_after(self._demand.gang, start)

    def _fits(self, since: int, until: int | None) -> Assignments | None:
        """Assignments that fit during all of this time; None if there are none."""
        with self._session.statement() as statement:
            self._assume_free(statement, since, until)
            taken = self._searches.placer.place(self._demand, self._answer)
            statement.roll_back()
        return taken.assignments if taken is not None else None

    def _answer(self, avoiding: frozenset[NodeName]) -> Placed | None:
        """The answer for the present choice of devices for claims that members share."""
        problem = self._searches.problems.build_problem(self._demand, avoiding=avoiding).problem
        answer = self._oracle.answer(feasibility_problem(problem))
        return answer if isinstance(answer, Placed) and answer.assignments else None

    def _assume_free(self, statement: Statement, since: int, until: int | None) -> None:
        """Assume the least capacity between these times."""
        least = least_capacity(self._ending, self._reserved, since=since, until=until)
        usage, budgets = split(least)
        statement.assume_free(usage=usage, budgets=budgets)
        if self._has_terms:
            for each in self._ending:
                if each.pods and each.end.at <= since:
                    statement.assume_ended(queue=each.queue, used={}, booked={}, gone=each.pods)

    def _start(self, at: int, until: int | None, assignments: Assignments) -> Start:
        gang = self._demand.gang
        with self._session.statement() as statement:
            self._assume_free(statement, at, until)
            statement.hold_capacity(gang=gang, assignments=assignments)
            hold = self._session.capacity_holds[-1]
            statement.roll_back()
        usage: dict[NodeName, Resources] = {}
        for node, pods in hold.assignments:
            usage[node] = add(usage.get(node, NONE), total_usage(pods, hold.parts))
        return self._start_on(with_marked_charges(usage, hold.assignments), at)

    def _start_on(self, usage: Usage, at: int) -> Start:
        delta = capacity_delta(self._demand.gang.queue, usage, charged(usage), self._session.ledger)
        return Start(
            at=at, end=self._end(at), usage=usage, delta=delta, forecast=self._forecast(at, usage, delta)
        )

    def _forecast(self, at: int, usage: Usage, delta: CapacityDelta) -> Forecast:
        """The forecast by the gangs that must end before: on nodes that lack capacity, else in its queues."""
        full = {node for node in usage if self._is_too_full(node, usage)}
        before = [each for each in self._ending if each.end.at <= at]
        first = [
            each for each in before if any(node in full for node in each.usage) or self._is_related(each)
        ] or [
            each
            for each in before
            if any(isinstance(cell[0], tuple) and cell in delta for cell in each.delta)
        ]
        first.sort(key=lambda each: (-each.end.at, each.name))
        if not first or first[0].end.at < at:
            return Forecast(earliest=at, latest=at, method=Method.AHEAD)
        return Forecast(
            earliest=max(each.end.likely for each in first),
            latest=max(each.end.latest for each in first),
            method=max((each.end.method for each in first), key=list(Method).index),
            ending=tuple(first[:RESERVATION_ENDS_SHOWN_MAX]),
        )

    def _is_related(self, ending: EndingGang) -> bool:
        """Whether its pods repel those of the demand or are repelled by them, or count for their spread."""
        states = [batch.pods[0].shape.affinity_state for batch in self._demand.batches if ending.pods]
        theirs = [pod.shape.affinity_state for pod in ending.pods] if any(states) else []
        return any(
            not {*mine.anti_affinity, *mine.spread}.isdisjoint(other.matched_by)
            or not set(other.anti_affinity).isdisjoint(mine.matched_by)
            for mine in states
            for other in theirs
            if mine is not None and other is not None
        )

    def _is_too_full(self, node: NodeName, usage: Usage) -> bool:
        free = self._session.free(node)
        return any(
            amount > max(0, free.get(name, 0) + offered_of(name))
            for name, amount in usage[node].items()
            if not is_marked_charge(name)
        )


def _is_within(budget: Budget, usage: Usage) -> bool:
    counted = [amounts for node, amounts in usage.items() if budget.nodes is None or node in budget.nodes]
    counted = [marked_as_charged(amounts) for amounts in counted]
    return all(
        sum(amounts.get(name, 0) for amounts in counted) <= max(0, left)
        for name, left in budget.remaining.items()
    )
