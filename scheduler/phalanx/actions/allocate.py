"""Step 3: try each demand in order. It is placed whole, or as far as it need not be whole, or not at all."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.actions import joint_admission as admit
from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.demands.demand import Demand, remaining_demand
from phalanx.actions.demands.demand_queue import DemandQueue, rank_of
from phalanx.actions.demands.subgroup_choice import start_with_other_subgroups
from phalanx.actions.enqueue import HELD_DESPITE
from phalanx.actions.explanations.refusals import Refusals
from phalanx.actions.node_failures import NodeFailures
from phalanx.actions.nodes.node_classes import TABLES
from phalanx.actions.outcome import Failure, Outcome
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.queue_gates import QueueGates
from phalanx.actions.reservations import capacity_holds as claims
from phalanx.actions.reservations.backfill import Reservations
from phalanx.actions.reservations.held_assignments import HeldAssignments
from phalanx.actions.reservations.reservations import BlockingReservations, Reservation
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId, NodeName
from phalanx.solver.engine import place
from phalanx.solver.problem import Answer, Placed, Unplaceable

_NOWHERE: Final[frozenset[NodeName]] = frozenset()


def execute(
    session: Session,
    demand_queue: DemandQueue,
    failures: NodeFailures,
    nominations: Nominations,
    moves: Moves,
    claimed: Mapping[GangId, GangComposition],
) -> Outcome:
    """Try every demand; the surplus of a gang whose minimum failed is not tried."""
    refused = {gang for gang, each in session.verdicts.items() if each.reason not in HELD_DESPITE}
    held_assignments = HeldAssignments(
        session, {gang: each for gang, each in claimed.items() if gang not in refused}
    )
    coming = [demand.gang for demand in demand_queue.first if demand.gang.id in nominations.open]
    attempts = _Attempts(session, failures, nominations, moves, held_assignments, coming)
    moves.keep()
    skipped = []
    for demand in demand_queue:
        if attempts.is_held_back(demand):
            skipped.append(demand)
        else:
            moves.lend(demand.gang.id)
            attempts.attempt(demand)
            moves.hold_rest(demand.gang.id)
    if (
        not attempts.reservations.all
        and not moves.open
        and not session.held
        and admit.execute(session, attempts.outcome, failures)
    ):
        attempts.try_again(skipped)
    attempts.outcome.reserved = attempts.reservations.all
    attempts.problems.give_back()
    return attempts.outcome


class _Attempts:
    """The attempts of one cycle and what they learned from each other."""

    def __init__(
        self,
        session: Session,
        failures: NodeFailures,
        nominations: Nominations,
        moves: Moves,
        held_assignments: HeldAssignments,
        coming: Iterable[Gang],
    ) -> None:
        """`coming`: gangs for which room is being made, whose turn is to come."""
        self.outcome = Outcome()
        self._failures = failures
        self._nominations = nominations
        self._moves = moves
        self._kept_seats = held_assignments
        self._session = session
        self._coming = {gang.id: gang for gang in coming}
        self.problems = ProblemBuilder(session, kept=TABLES)
        self.reservations = Reservations(session, self.problems)
        self._refusals = Refusals(session)
        self._turns = QueueGates(session)
        self._hopeless: set[Hashable] = set()
        self._kept_from: dict[Hashable, BlockingReservations | None] = {}
        """By problem, while nothing is placed: gangs that wait for others are often alike, many in a row."""

    def is_held_back(self, demand: Demand) -> bool:
        """Whether the gang's minimum failed. That one subgroup finds no room keeps no other one waiting."""
        failure = self.outcome.failures.get(demand.gang.id)
        if demand.outer_subgroup and failure is not None:
            return failure.demand.stage < demand.stage
        return failure is not None

    def attempt(self, demand: Demand) -> None:
        """Place the demand, or note that it failed.

        A gang that started with other subgroups than the first ones gets the rest in the next cycle.
        """
        if demand.gang.id in self.outcome.with_other_subgroups:
            return
        if self._moves.open:
            self._kept_from.clear()
        self._coming.pop(demand.gang.id, None)
        is_claim = demand.cause == claims.CAUSE
        refusal = None if is_claim else self._refusals.recall(demand)
        failed_before = demand.gang.id in self.outcome.failures
        because = self._turns.objection(demand) if demand.gang.id not in self._moves.open else None
        if because is not None:
            self._fail(Failure(demand, objection=because))
        elif refusal is not None:
            self._fail(Failure(demand, remembered=refusal))
        elif is_claim:
            self._keep(demand)
        elif self.outcome.is_exhausted:
            self._fail(Failure(demand, tried=False))
        else:
            self._solve(demand)
        if not failed_before and demand.gang.id in self.outcome.failures:
            self._hold_its_room(demand.gang)

    def try_again(self, skipped: Iterable[Demand]) -> None:
        """Try what failed, and then what was skipped for that, since room is now left elsewhere."""
        self._hopeless.clear()
        self._kept_from.clear()
        self._turns = QueueGates(self._session)
        before, self.outcome.failures = self.outcome.failures, {}
        for failure in before.values():
            if failure.is_new or failure.objection is not None:
                self.attempt(failure.demand)
            else:
                self._fail(failure)
        for demand in skipped:
            if not self.is_held_back(demand):
                self.attempt(demand)

    def _solve(self, demand: Demand) -> None:
        """First without the nodes that failed the gang, then, for what found no place, with them."""
        self.outcome.tried += 1
        self._kept_seats.came(demand)
        rest: Demand | None = demand
        avoided = self._failures.nodes_to_avoid(demand.gang.id)
        for avoiding in (avoided, _NOWHERE) if avoided else (_NOWHERE,):
            rest = self._place(rest, avoiding) if rest is not None else None
        if rest is None:
            return
        if demand.subgroup_choices and self.outcome.is_exhausted:
            self._fail(Failure(rest, tried=False))
        elif not self._starts_with_others(demand):
            self._fail(Failure(rest, blocked_by=self._kept_for(rest)))

    def _starts_with_others(self, demand: Demand) -> bool:
        """Whether the gang starts with other subgroups."""
        found = start_with_other_subgroups(demand, lambda trial: self._ask(trial, _NOWHERE))
        if found is None:
            return False
        self._seat(*found)
        self.outcome.with_other_subgroups.add(demand.gang.id)
        return True

    def _place(self, demand: Demand, avoiding: frozenset[NodeName]) -> Demand | None:
        """What is left of the demand."""
        answer = self._ask(demand, avoiding)
        return demand if answer is None else self._seat(demand, answer)

    def _seat(self, demand: Demand, answer: Placed) -> Demand | None:
        """What the answer leaves of the demand."""
        seats = assign_pods(self._session, demand, answer.assignments)
        devices = self.problems.devices(demand, seats)
        self._put(DemandPlacement(demand, seats, answer.certificate, devices))
        if sum(each.count for each in answer.assignments) == demand.count:
            return None
        return remaining_demand(demand, (pod for _, pods in seats for pod in pods))

    def _kept_for(self, demand: Demand) -> BlockingReservations | None:
        """The reserved starts without which it would find room: those that are in its way by themselves."""
        *_, bound = self._bound_in_turn(demand)
        if not bound:
            return None
        key = (tuple(each.gang for each in bound), self.reservations.key(demand, bound))
        if key not in self._kept_from:
            self._kept_from[key] = self._find_kept_for(demand, bound)
        return self._kept_from[key]

    def _find_kept_for(self, demand: Demand, bound: Sequence[Reservation]) -> BlockingReservations | None:
        if self._answer(self.problems.build_problem(demand)) is None:
            return None
        alone = tuple(each for each in bound if len(bound) > 1 and not self._fits_beside(demand, each))
        return BlockingReservations(alone or tuple(bound), free_until=min(each.held_from for each in bound))

    def _fits_beside(self, demand: Demand, reserved: Reservation) -> bool:
        posed = self.reservations.build_problem(
            demand, (reserved,), avoiding=_NOWHERE, known_infeasible=self._hopeless
        )
        return posed is not None and self._answer(posed) is not None

    def _ask(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        """None when not one pod finds a place on what no reserved start needs."""
        for bound in self._bound_in_turn(demand):
            posed = self._pose(demand, bound, avoiding)
            answer = self._answer(posed) if posed is not None else None
            if answer is not None:
                return answer
        return None

    def _bound_in_turn(self, demand: Demand) -> Iterator[Sequence[Reservation]]:
        nomination = self._nominations.open.get(demand.gang.id)
        return self.reservations.in_turn(demand, nomination.passed if nomination is not None else None)

    def _pose(
        self, demand: Demand, bound: Sequence[Reservation], avoiding: frozenset[NodeName]
    ) -> KeyedProblem | None:
        """Beside seats that are kept for others, and the room of those whose turn is still to come."""
        beside, coming = self._kept_seats.beside(demand), self._coming_beside(demand)
        if beside is None and not coming:
            return self.reservations.build_problem(
                demand, bound, avoiding=avoiding, known_infeasible=self._hopeless
            )
        with self._session.statement() as statement:
            if beside is not None:
                statement.suppose(room=beside.room, budgets=beside.budgets)
            statement.suppose(room=self._nominations.beside(coming), budgets={})
            posed = self.reservations.build_problem(
                demand, bound, avoiding=avoiding, known_infeasible=self._hopeless
            )
            statement.roll_back()
        key = beside.key if beside is not None else None
        return replace(posed, key=(key, coming, posed.key)) if posed is not None else None

    def _coming_beside(self, demand: Demand) -> tuple[GangId, ...]:
        """Those for whom room is being made that come later, but those below the demand in its own queue."""
        gang = demand.gang
        rank = rank_of(gang, self._session) if self._coming else ()
        return tuple(
            other.id
            for other in self._coming.values()
            if other.queue != gang.queue or rank_of(other, self._session) <= rank
        )

    def _answer(self, posed: KeyedProblem) -> Placed | None:
        if posed.key in self._hopeless:
            return None
        answer = place(posed.problem)
        self.outcome.solves[_backend(answer)] += 1
        self.outcome.errors.extend(answer.errors)
        if isinstance(answer, Placed) and answer.assignments:
            return answer
        if isinstance(answer, Unplaceable) and not answer.proven:
            self.outcome.inconclusive += 1
        self._hopeless.add(posed.key)
        return None

    def _keep(self, demand: Demand) -> None:
        """As many of the stand-ins as find room; that others do not is nobody's failure."""
        seats = self._kept_seats.again(demand)
        if seats:
            self._put(DemandPlacement(demand, seats))
            demand = remaining_demand(demand, (pod for _, pods in seats for pod in pods))
        if not demand.batches:
            return
        avoided = self._failures.nodes_to_avoid(demand.gang.id)
        answer = self._ask(demand, avoided)
        if answer is None and avoided:
            answer = self._ask(demand, _NOWHERE)
        if answer is not None:
            self._put(DemandPlacement(demand, assign_pods(self._session, demand, answer.assignments)))

    def _hold_its_room(self, gang: Gang) -> None:
        """Where room is being made for the gang, nobody else gets what of it is free already."""
        if gang.id in self._nominations.open:
            self._kept_from.clear()
            with self._session.statement() as statement:
                self._nominations.hold_free_capacity(gang, statement)

    def _fail(self, failure: Failure) -> None:
        """The first failure of a gang counts, but that not all of it was tried must not be forgotten."""
        self._turns.failed(failure)
        self.reservations.failed(failure)
        known = self.outcome.failures.get(failure.demand.gang.id)
        if known is None or (known.tried and not failure.tried):
            self.outcome.failures[failure.demand.gang.id] = failure

    def _put(self, placing: DemandPlacement) -> None:
        self._kept_from.clear()
        self.outcome.steps.append((placing, apply_placement(self._session, placing)))
        self.reservations.placed(placing)


def _backend(answer: Answer) -> str:
    return answer.certificate.by if isinstance(answer, Placed) else answer.by
