"""Allocate: place each demand in order, as a whole or, if it need not be whole, in part."""

from collections.abc import Hashable, Iterable
from typing import Final

from phalanx.actions import joint_admission
from phalanx.actions.allocation.demand_solver import DemandSolver
from phalanx.actions.allocation.withholding import Withholding
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import (
    Demand,
    MemberChoice,
    has_required_affinity,
    is_held_back,
    remaining_demand,
)
from phalanx.actions.demands.member_choice import start_with_others, substitutes
from phalanx.actions.outcome import Failure
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.placer import NOWHERE, Taken
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.queue_gates import QueueGates
from phalanx.actions.reservations import capacity_holds
from phalanx.actions.yielding import Yielding
from phalanx.framework.minimum_members import is_enough
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.solver.answer import Placed

CROWDED_SOLVE_WORK: Final = 8
"""Work of a solve without a placement, of that which a cycle spends on a crowded queue."""


def execute(cycle: Cycle) -> None:
    """Try every demand; the surplus of a gang whose minimum failed is not tried."""
    problems = ProblemBuilder(cycle.session, kept=cycle.class_tables)
    allocation, moves = _Allocation(cycle, problems), cycle.moves
    moves.hold_all()
    skipped = []
    for demand in cycle.demand_queue:
        if allocation.is_held_back(demand):
            skipped.append(demand)
        else:
            moves.release_for(demand.gang.id)
            allocation.attempt(demand)
            moves.hold_rest(demand.gang.id)
    were_withheld = allocation.release_devices()
    reservations = allocation.withholding.reservations
    nothing_is_held = not reservations.all and not moves.open and not cycle.session.nominated
    if nothing_is_held and not (allocation.has_given_up or were_withheld) and joint_admission.improve(cycle):
        allocation.try_again(skipped)
    cycle.outcome.reserved = reservations.all
    cycle.outcome.let_in = reservations.let_in
    cycle.outcome.used_reservations = reservations.used
    problems.give_back()


class _Allocation:
    """The allocation of one cycle. Later demands use the results of earlier ones."""

    def __init__(self, cycle: Cycle, problems: ProblemBuilder) -> None:
        self._session = cycle.session
        self._outcome = cycle.outcome
        self._backlog = cycle.backlog
        self._node_failures = cycle.node_failures
        self._nominations = cycle.nominations
        self._moves = cycle.moves
        self._refusals = cycle.refusals()
        self._problems = problems
        self._solves_before = 0
        self._queue_gates = QueueGates(cycle.session)
        self._yielding = Yielding(cycle.session, cycle.nominations, cycle.moves)
        self.withholding = Withholding(cycle, problems)
        self._solver = DemandSolver(cycle, problems, self.withholding)
        self.has_given_up = False
        """Whether held capacity was given up to a demand."""

    def is_held_back(self, demand: Demand) -> bool:
        """Whether another demand of the gang failed, after which this one is not tried."""
        failure = self._outcome.failures.get(demand.gang.id)
        return failure is not None and is_held_back(demand, failure.demand)

    def attempt(self, demand: Demand) -> None:
        """Place the demand, or note that it failed.

        A gang that started with other members than the first ones gets the rest in the next cycle.
        """
        if demand.gang.id in self._outcome.with_other_members:
            return
        self.withholding.held_assignments.withhold_devices_from(demand)
        with self._session.respecting_nominations(demand.gang):
            self._attempt(demand)

    def release_devices(self) -> bool:
        """Release devices that were held in the last cycle for gangs which this cycle has not tried. Returns
        whether some demand did not get devices that were held: placements must then not be rolled back."""
        self.withholding.held_assignments.withhold_devices_from(None)
        return self.withholding.held_assignments.were_devices_withheld

    def _attempt(self, demand: Demand) -> None:
        if self._moves.open:
            self._solver.capacity_changed()
        self.withholding.tried(demand.gang.id)
        self._solves_before = self._outcome.solves.total()
        is_hold = demand.cause == capacity_holds.CAUSE
        refusal = None if is_hold else self._recall(demand)
        failed_before = demand.gang.id in self._outcome.failures
        objection = self._queue_gates.objection(demand) if demand.gang.id not in self._moves.open else None
        if objection is not None:
            self._fail(Failure(demand, objection=objection))
        elif refusal is not None:
            self._fail(Failure(demand, remembered=refusal))
        elif is_hold:
            self._hold(demand)
        elif self._outcome.is_exhausted:
            self._fail(Failure(demand, tried=False))
        else:
            self._solve(demand)
        if not failed_before and demand.gang.id in self._outcome.failures:
            self._hold_nominated(demand.gang)

    def _recall(self, demand: Demand) -> Refusal | None:
        """The refusal of an earlier cycle, unless pods placed in this cycle may help the demand."""
        kept = self._backlog.kept(demand.gang)
        if kept is not None:
            return kept
        if self._outcome.steps and has_required_affinity(demand):
            return None
        return self._refusals.recall(demand.gang, demand.cause)

    def try_again(self, skipped: Iterable[Demand]) -> None:
        """Try the failed demands again, then those skipped because of them: other capacity is free now."""
        self._solver.capacity_changed(is_more=True)
        self._queue_gates = QueueGates(self._session)
        before, self._outcome.failures = self._outcome.failures, {}
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
        self._outcome.tried.add(demand.gang.id)
        self.withholding.held_assignments.release_for(demand)
        rest: Demand | None = demand
        avoided = self._node_failures.nodes_to_avoid(demand.gang.id)
        for avoiding in (avoided, NOWHERE) if avoided else (NOWHERE,):
            rest = self._place(rest, avoiding) if rest is not None else None
        rest = self._place_instead_of_holders(rest) if rest is not None else None
        if rest is None:
            return
        if demand.choice is not None and self._outcome.is_exhausted:
            self._fail(Failure(rest, tried=False))
        elif not self._starts_with_others(demand) and not self._is_repaired_by_others(demand, rest):
            self._fail(Failure(rest, blocked_by=self._solver.blocking_reservations(rest)))

    def _starts_with_others(self, demand: Demand) -> bool:
        """Whether the gang starts with other members or subgroups."""
        if demand.choice is None:
            return False
        key = self._choice_key(demand, demand.choice)
        if key is not None and self._solver.is_infeasible(key):
            return False
        found = start_with_others(demand, self._certified_answer)
        taken = self._solver.placer.take(*found) if found is not None else None
        if found is None or taken is None:
            if key is not None:
                self._solver.note_infeasible(key)
            return False
        self._assign(found[0], taken)
        self._outcome.with_other_members.add(demand.gang.id)
        return True

    def _certified_answer(self, demand: Demand) -> Placed | None:
        taken = self._solver.taken(demand)
        return self._solver.placer.certified(demand, taken).answer if taken is not None else None

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
            self._outcome.with_other_members.add(demand.gang.id)
        return is_enough(self._placed(choice.members), choice.missing, parts)

    def _placed(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if self._session.pod_state(pod) is PodState.ALLOCATED]

    def _choice_key(self, demand: Demand, choice: MemberChoice) -> Hashable | None:
        """Equal for demands with equal choices; None if capacity is withheld from this demand."""
        if self.withholding.is_restricting(demand):
            return None
        return self._problems.key(demand), choice.key

    def _place(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Demand | None:
        """Place the demand; return what is left of it."""
        taken = self._solver.taken(demand, avoiding)
        return self._assign(demand, taken) if taken is not None else demand

    def _place_instead_of_holders(self, demand: Demand) -> Demand | None:
        """Place the demand in capacity that is held for gangs which yield to it; return the rest."""
        failed = self._outcome.failures
        given_up = self._yielding.give_up_to(
            demand,
            unclaimed=self.withholding.held_assignments.requests(),
            nominated=[gang for gang in self._nominations.open if gang in failed and gang != demand.gang.id],
        )
        if not given_up:
            return demand
        held = self.withholding.held_assignments
        given_up.statements.append(held.give_up_devices(given_up.unclaimed))
        with self.withholding.given_up(given_up.unclaimed):
            taken = self._solver.taken_with_more(demand, given_up.key)
        if taken is None:
            given_up.undo()
            return demand
        rest = self._assign(demand, taken)
        held.devices_given_up(given_up.unclaimed)
        self._yielding.hold_rest(given_up)
        self.has_given_up = True
        return rest

    def _assign(self, demand: Demand, taken: Taken) -> Demand | None:
        """Apply a placement; return what is left of the demand."""
        self._apply(self._solver.placer.placement(demand, taken))
        if taken.count == demand.count:
            return None
        return remaining_demand(demand, (pod for _, pods in taken.assignments for pod in pods))

    def _hold(self, demand: Demand) -> None:
        """Hold capacity for as many placeholders as fit, without devices for claims where there are none.

        It is no failure if others do not fit.
        """
        rest = self._hold_as_asked(demand)
        without = capacity_holds.without_devices(rest, self._session)
        if without is not None:
            self._hold_as_asked(without)
        self.withholding.held_assignments.forget(demand.gang.id)

    def _hold_as_asked(self, demand: Demand) -> Demand:
        """Hold capacity for as many placeholders as fit; return what is left of the demand."""
        demand = self._hold_on(demand, self.withholding.held_assignments.hold_again(demand))
        if not demand.batches:
            return demand
        for avoiding in dict.fromkeys((self._node_failures.nodes_to_avoid(demand.gang.id), NOWHERE)):
            taken = self._solver.taken_for_hold(demand, avoiding)
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
            self._solver.capacity_changed()
            with self._session.statement() as statement:
                self._nominations.hold_free_capacity(gang, statement)

    def _fail(self, failure: Failure) -> None:
        """Record a failure. The first one of a gang counts, unless a later demand was not tried at all."""
        self._queue_gates.failed(failure)
        self.withholding.reservations.failed(failure)
        self._note(failure)
        known = self._outcome.failures.get(failure.demand.gang.id)
        if known is None or (known.tried and not failure.tried):
            self._outcome.failures[failure.demand.gang.id] = failure

    def _note(self, failure: Failure) -> None:
        """Note what bounds the work on crowded queues."""
        gang, solves = failure.demand.gang, self._outcome.solves.total() - self._solves_before
        if failure.objection is not None:
            self._backlog.objected(gang, failure.objection, lasts=False)
        else:
            self._backlog.worked(gang, 1 + CROWDED_SOLVE_WORK * solves)

    def _apply(self, placement: DemandPlacement) -> None:
        self._solver.capacity_changed()
        self._outcome.steps.append((placement, apply_placement(self._session, placement)))
        self.withholding.reservations.placed(placement)
