"""Allocate: place each demand in order, as a whole or, if it need not be whole, in part."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from phalanx.actions import joint_admission
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import (
    Demand,
    MemberChoice,
    beneficiary_of,
    has_required_affinity,
    remaining_demand,
)
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.demands.member_choice import start_with_others, substitutes
from phalanx.actions.enqueue import HELD_DESPITE
from phalanx.actions.limits import CROWDED_SOLVE_WORK
from phalanx.actions.outcome import Failure
from phalanx.actions.problems.capacity_holders import charged, total_of
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.placer import NOWHERE, Placer, Taken
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.queue_gates import QueueGates
from phalanx.actions.reservations import capacity_holds
from phalanx.actions.reservations.backfill import Reservations
from phalanx.actions.reservations.held_assignments import HeldAssignments
from phalanx.actions.reservations.reservations import BlockingReservations, Reservation
from phalanx.actions.yielding import Yielding
from phalanx.framework.minimum_members import is_enough
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.resources import NONE, sum_of
from phalanx.solver.answer import Answer, Placed, Unplaceable
from phalanx.solver.engine import place


def execute(cycle: Cycle) -> None:
    """Try every demand; the surplus of a gang whose minimum failed is not tried."""
    attempts, moves = _Attempts(cycle), cycle.moves
    moves.hold_all()
    skipped = []
    for demand in cycle.demand_queue:
        if attempts.is_held_back(demand):
            skipped.append(demand)
        else:
            moves.release_for(demand.gang.id)
            attempts.attempt(demand)
            moves.hold_rest(demand.gang.id)
    were_withheld = attempts.release_devices()
    nothing_is_held = not attempts.reservations.all and not moves.open and not cycle.session.nominated
    if nothing_is_held and not (attempts.has_given_up or were_withheld) and joint_admission.improve(cycle):
        attempts.try_again(skipped)
    cycle.outcome.reserved = attempts.reservations.all
    cycle.outcome.let_in = attempts.reservations.let_in
    cycle.outcome.used_reservations = attempts.reservations.used
    attempts.problems.give_back()


def _held_assignments(cycle: Cycle) -> HeldAssignments:
    """The held assignments, without gangs whose objection does not end soon."""
    verdicts = cycle.session.verdicts.items()
    refused = {gang for gang, verdict in verdicts if verdict.reason not in HELD_DESPITE}
    holds = {gang: hold for gang, hold in cycle.capacity_holds.open.items() if gang not in refused}
    return HeldAssignments(cycle.session, holds)


class _Attempts:
    """The attempts of one cycle; later ones use the results of earlier ones."""

    def __init__(self, cycle: Cycle) -> None:
        self._session = cycle.session
        self.outcome = cycle.outcome
        self._backlog = cycle.backlog
        self._solves_before = 0
        self._node_failures = cycle.node_failures
        self._nominations = cycle.nominations
        self._moves = cycle.moves
        self._held_assignments = _held_assignments(cycle)
        self._yielding = Yielding(cycle.session, cycle.nominations, cycle.moves)
        self._unclaimed: frozenset[GangId] = frozenset()
        """Gangs whose held capacity the present demand may take."""
        self.has_given_up = False
        """Whether held capacity was given up to a demand."""
        first = cycle.demand_queue.first
        self._untried_nominated = {
            demand.gang.id: demand.gang for demand in first if demand.gang.id in cycle.nominations.open
        }
        """Gangs with nominated capacity that have not been tried yet."""
        self.problems = ProblemBuilder(cycle.session, kept=cycle.class_tables)
        self._placer = Placer(cycle.session, self.problems, self.outcome.lacking)
        self._trials = Placer(cycle.session, self.problems)
        self.reservations = Reservations(cycle.session, self.problems, cycle.answers)
        self._refusals = cycle.refusals()
        self._queue_gates = QueueGates(cycle.session)
        self._known_infeasible: set[Hashable] = set()
        self._blocked_by: dict[Hashable, BlockingReservations | None] = {}
        """By key of the problem, until something is placed: often many equal gangs wait in a row."""

    def is_held_back(self, demand: Demand) -> bool:
        """Whether the minimum of the gang failed. A subgroup that does not fit holds back no other one."""
        failure = self.outcome.failures.get(demand.gang.id)
        if demand.outer_subgroup and failure is not None:
            return failure.demand.stage < demand.stage
        return failure is not None

    def attempt(self, demand: Demand) -> None:
        """Place the demand, or note that it failed.

        A gang that started with other members than the first ones gets the rest in the next cycle.
        """
        if demand.gang.id in self.outcome.with_other_members:
            return
        self._held_assignments.withhold_devices_from(demand)
        with self._session.respecting_nominations(demand.gang):
            self._attempt(demand)

    def release_devices(self) -> bool:
        """Release devices that were held in the last cycle for gangs which this cycle has not tried. Returns
        whether some demand did not get devices that were held: placements must then not be rolled back."""
        self._held_assignments.withhold_devices_from(None)
        return self._held_assignments.were_devices_withheld

    def _attempt(self, demand: Demand) -> None:
        if self._moves.open:
            self._blocked_by.clear()
        self._untried_nominated.pop(demand.gang.id, None)
        self._solves_before = self.outcome.solves.total()
        is_hold = demand.cause == capacity_holds.CAUSE
        refusal = None if is_hold else self._recall(demand)
        failed_before = demand.gang.id in self.outcome.failures
        objection = self._queue_gates.objection(demand) if demand.gang.id not in self._moves.open else None
        if objection is not None:
            self._fail(Failure(demand, objection=objection))
        elif refusal is not None:
            self._fail(Failure(demand, remembered=refusal))
        elif is_hold:
            self._hold(demand)
        elif self.outcome.is_exhausted:
            self._fail(Failure(demand, tried=False))
        else:
            self._solve(demand)
        if not failed_before and demand.gang.id in self.outcome.failures:
            self._hold_nominated(demand.gang)

    def _recall(self, demand: Demand) -> Refusal | None:
        """The refusal of an earlier cycle, unless pods placed in this cycle may help the demand."""
        kept = self._backlog.kept(demand.gang)
        if kept is not None:
            return kept
        if self.outcome.steps and has_required_affinity(demand):
            return None
        return self._refusals.recall(demand.gang, demand.cause)

    def try_again(self, skipped: Iterable[Demand]) -> None:
        """Try the failed demands again, then those skipped because of them: other capacity is free now."""
        self._known_infeasible.clear()
        self._blocked_by.clear()
        self._queue_gates = QueueGates(self._session)
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
        """Place it without the nodes on which the gang failed, then the rest with them."""
        self.outcome.tried.add(demand.gang.id)
        self._held_assignments.release_for(demand)
        rest: Demand | None = demand
        avoided = self._node_failures.nodes_to_avoid(demand.gang.id)
        for avoiding in (avoided, NOWHERE) if avoided else (NOWHERE,):
            rest = self._place(rest, avoiding) if rest is not None else None
        rest = self._place_instead_of_holders(rest) if rest is not None else None
        if rest is None:
            return
        if demand.choice is not None and self.outcome.is_exhausted:
            self._fail(Failure(rest, tried=False))
        elif not self._starts_with_others(demand) and not self._is_repaired_by_others(demand, rest):
            self._fail(Failure(rest, blocked_by=self._blocking_reservations(rest)))

    def _starts_with_others(self, demand: Demand) -> bool:
        """Whether the gang starts with other members or subgroups."""
        if demand.choice is None:
            return False
        key = self._choice_key(demand, demand.choice)
        if key in self._known_infeasible:
            return False
        found = start_with_others(demand, self._certified_answer)
        taken = self._placer.take(*found) if found is not None else None
        if found is None or taken is None:
            self._known_infeasible.update(() if key is None else (key,))
            return False
        self._assign(found[0], taken)
        self.outcome.with_other_members.add(demand.gang.id)
        return True

    def _certified_answer(self, demand: Demand) -> Placed | None:
        taken = self._taken(demand)
        return self._placer.certified(demand, taken).answer if taken is not None else None

    def _is_repaired_by_others(self, demand: Demand, rest: Demand) -> bool:
        """Place other members instead of the lost ones that did not fit; return whether they are enough."""
        choice, parts = demand.choice, demand.gang.subgroups
        if choice is None or demand.is_whole:
            return False
        refused: list[Pod] = []
        left: Demand | None = rest
        while left is not None:
            refused += [pod for batch in left.batches for pod in batch.pods]
            trial = substitutes(demand, self._placed(choice.members), refused)
            if trial is None:
                break
            left = self._place(trial)
            self.outcome.with_other_members.add(demand.gang.id)
        return is_enough(self._placed(choice.members), choice.missing, parts)

    def _placed(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if self._session.pod_state(pod) is PodState.ALLOCATED]

    def _choice_key(self, demand: Demand, choice: MemberChoice) -> Hashable:
        """Equal for demands with equal choices; None if capacity is withheld from this demand."""
        is_withheld = self._held_assignments.withheld_from(demand) is not None
        if is_withheld or self._nominated_before(demand) or self.reservations.binding(demand):
            return None
        return self.problems.key(demand), choice.key

    def _place(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Demand | None:
        """Place the demand; return what is left of it."""
        taken = self._taken(demand, avoiding)
        return self._assign(demand, taken) if taken is not None else demand

    def _taken(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Taken | None:
        """The placement that respects the reservations that bind the demand; None if no pod fits."""
        return self._placer.place(demand, partial(self._solve_beside, demand), avoiding)

    def _place_instead_of_holders(self, demand: Demand) -> Demand | None:
        """Place the demand in capacity that is held for gangs which yield to it; return the rest."""
        failed = self.outcome.failures
        given_up = self._yielding.give_up_to(
            demand,
            unclaimed=self._held_assignments.requests(),
            nominated=[gang for gang in self._nominations.open if gang in failed and gang != demand.gang.id],
        )
        if not given_up:
            return demand
        key = (given_up.key, self.problems.key(demand))
        known, self._known_infeasible = self._known_infeasible, set()
        self._unclaimed = given_up.unclaimed
        given_up.statements.append(self._held_assignments.give_up_devices(given_up.unclaimed))
        taken = self._taken(demand) if key not in known else None
        self._unclaimed = frozenset()
        if taken is None:
            self._known_infeasible = known | {key}
            given_up.undo()
            return demand
        rest = self._assign(demand, taken)
        self._held_assignments.devices_given_up(given_up.unclaimed)
        self._yielding.hold_rest(given_up)
        self.has_given_up = True
        return rest

    def _assign(self, demand: Demand, taken: Taken) -> Demand | None:
        """Apply a placement; return what is left of the demand."""
        self._apply(self._placer.placement(demand, taken))
        if taken.count == demand.count:
            return None
        return remaining_demand(demand, (pod for _, pods in taken.assignments for pod in pods))

    def _blocking_reservations(self, demand: Demand) -> BlockingReservations | None:
        """The reservations without which the demand would fit: those that block it alone, else all."""
        *_, bound = self._alternatives(demand)
        if not bound:
            return None
        key = (tuple(each.gang for each in bound), self.reservations.key(demand, bound))
        if key not in self._blocked_by:
            self._blocked_by[key] = self._find_blocking(demand, bound)
        return self._blocked_by[key]

    def _find_blocking(self, demand: Demand, bound: Sequence[Reservation]) -> BlockingReservations | None:
        def solve(avoiding: frozenset[NodeName]) -> Placed | None:
            return self._answer(self.problems.build_problem(demand, avoiding=avoiding))

        if self._trials.place(demand, solve) is None:
            return None
        alone = tuple(each for each in bound if len(bound) > 1 and not self._fits_beside(demand, each))
        return BlockingReservations(alone or tuple(bound), free_until=min(each.held_from for each in bound))

    def _fits_beside(self, demand: Demand, reserved: Reservation) -> bool:
        keyed = self.reservations.build_problem(
            demand, (reserved,), avoiding=NOWHERE, known_infeasible=self._known_infeasible
        )
        return keyed is not None and self._answer(keyed) is not None

    def _solve_beside(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        """The answer beside the first of the sets of reservations with which some pod fits."""
        for bound in self._alternatives(demand):
            keyed = self._build_problem(demand, bound, avoiding)
            answer = self._answer(keyed) if keyed is not None else None
            if answer is not None:
                return answer
        return None

    def _alternatives(self, demand: Demand) -> Iterator[Sequence[Reservation]]:
        nomination = self._nominations.open.get(demand.gang.id)
        return self.reservations.alternatives(demand, nomination.passed if nomination is not None else None)

    def _build_problem(
        self, demand: Demand, bound: Sequence[Reservation], avoiding: frozenset[NodeName]
    ) -> KeyedProblem | None:
        """The problem without capacity that is held for other gangs or nominated for gangs tried later."""
        held = self._held_assignments.withheld_from(demand, self._unclaimed)
        nominated = self._nominated_before(demand)
        if held is None and not nominated:
            return self.reservations.build_problem(
                demand, bound, avoiding=avoiding, known_infeasible=self._known_infeasible
            )
        with self._session.statement() as statement:
            if held is not None:
                statement.assume_free(usage=held.usage, budgets=held.budgets)
            statement.assume_free(usage=self._nominations.withheld_for(nominated), budgets={})
            keyed = self.reservations.build_problem(
                demand, bound, avoiding=avoiding, known_infeasible=self._known_infeasible
            )
            statement.roll_back()
        key = held.key if held is not None else None
        return replace(keyed, key=(key, nominated, keyed.key)) if keyed is not None else None

    def _nominated_before(self, demand: Demand) -> tuple[GangId, ...]:
        """Untried gangs with nominated capacity that the demand may not use.

        It may use that of gangs of lower rank in its queue, as if it evicted them.
        """
        if not self._untried_nominated:
            return ()
        gang, rank = demand.gang, rank_of(demand.gang, self._session)
        below = {
            other.id
            for other in self._untried_nominated.values()
            if other.queue == gang.queue and rank_of(other, self._session) > rank
        }
        usable = below if below and self._may_replace(below, demand) else ()
        return tuple(name for name in self._untried_nominated if name not in usable)

    def _may_replace(self, nominated: Collection[GangId], demand: Demand) -> bool:
        """Whether the demand takes no more of the resources that it must free by evictions."""
        beneficiary = beneficiary_of(demand)
        least = self._session.hooks.least_evictions(beneficiary)
        freed = (
            sum_of(total_of(charged(self._nominations.open[gang].usage)) for gang in nominated)
            if least
            else NONE
        )
        return all(beneficiary.requested.get(name, 0) <= freed.get(name, 0) for name in least)

    def _answer(self, keyed: KeyedProblem) -> Placed | None:
        if keyed.key in self._known_infeasible:
            return None
        answer = place(keyed.problem)
        self.outcome.solves[_backend(answer)] += 1
        self.outcome.errors.extend(answer.errors)
        if isinstance(answer, Placed) and answer.assignments:
            return answer
        if isinstance(answer, Unplaceable) and not answer.proven:
            self.outcome.inconclusive += 1
        self._known_infeasible.add(keyed.key)
        return None

    def _hold(self, demand: Demand) -> None:
        """Hold capacity for as many placeholders as fit, without devices for claims where there are none.

        It is no failure if others do not fit.
        """
        rest = self._hold_as_asked(demand)
        without = capacity_holds.without_devices(rest, self._session)
        if without is not None:
            self._hold_as_asked(without)
        self._held_assignments.forget(demand.gang.id)

    def _hold_as_asked(self, demand: Demand) -> Demand:
        """Hold capacity for as many placeholders as fit; return what is left of the demand."""
        demand = self._hold_on(demand, self._held_assignments.hold_again(demand))
        if not demand.batches:
            return demand
        for avoiding in dict.fromkeys((self._node_failures.nodes_to_avoid(demand.gang.id), NOWHERE)):
            taken = self._trials.place(demand, partial(self._solve_beside, demand), avoiding)
            if taken is not None:
                return self._hold_on(demand, taken.assignments)
        return demand

    def _hold_on(self, demand: Demand, assignments: Assignments) -> Demand:
        """Hold capacity on these nodes; return what is left of the demand."""
        if not assignments:
            return demand
        self._apply(DemandPlacement(demand, assignments))
        return remaining_demand(demand, (pod for _, pods in assignments for pod in pods))

    def _hold_nominated(self, gang: Gang) -> None:
        """Hold the free part of the capacity that is nominated for the gang."""
        if gang.id in self._nominations.open:
            self._blocked_by.clear()
            with self._session.statement() as statement:
                self._nominations.hold_free_capacity(gang, statement)

    def _fail(self, failure: Failure) -> None:
        """Record a failure. The first one of a gang counts, unless a later demand was not tried at all."""
        self._queue_gates.failed(failure)
        self.reservations.failed(failure)
        self._note(failure)
        known = self.outcome.failures.get(failure.demand.gang.id)
        if known is None or (known.tried and not failure.tried):
            self.outcome.failures[failure.demand.gang.id] = failure

    def _note(self, failure: Failure) -> None:
        """Note what bounds the work on crowded queues."""
        gang, solves = failure.demand.gang, self.outcome.solves.total() - self._solves_before
        if failure.objection is not None:
            self._backlog.objected(gang, failure.objection, lasts=False)
        else:
            self._backlog.worked(gang, 1 + CROWDED_SOLVE_WORK * solves)

    def _apply(self, placement: DemandPlacement) -> None:
        self._blocked_by.clear()
        self.outcome.steps.append((placement, apply_placement(self._session, placement)))
        self.reservations.placed(placement)


def _backend(answer: Answer) -> str:
    return answer.certificate.by if isinstance(answer, Placed) else answer.by
