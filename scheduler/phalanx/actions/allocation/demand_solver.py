"""Solve demands beside what is withheld from them. Which problems are infeasible is remembered in a cycle."""

from collections.abc import Hashable, Sequence
from functools import partial

from phalanx.actions.allocation.withholding import Withholding
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.placer import NOWHERE, Placer, Taken
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.reservations.reservations import BlockingReservations, Reservation
from phalanx.model.names import NodeName
from phalanx.solver.answer import Answer, Placed, Unplaceable
from phalanx.solver.engine import place


class DemandSolver:
    """Finds placements of demands in one cycle, and the reservations that block a demand."""

    def __init__(self, cycle: Cycle, problems: ProblemBuilder, withholding: Withholding) -> None:
        self._problems = problems
        self._withholding = withholding
        self._outcome = cycle.outcome
        self.placer = Placer(cycle.session, problems, cycle.outcome.lacking)
        self._trials = Placer(cycle.session, problems)
        self._infeasible: set[Hashable] = set()
        self._blocked_by: dict[Hashable, BlockingReservations | None] = {}
        """By key of the problem, until something is placed: often many equal gangs wait in a row."""

    def taken(self, demand: Demand, avoiding: frozenset[NodeName] = NOWHERE) -> Taken | None:
        """The placement that respects the reservations that bind the demand; None if no pod fits."""
        return self.placer.place(demand, partial(self._solve, demand), avoiding)

    def taken_for_hold(self, demand: Demand, avoiding: frozenset[NodeName]) -> Taken | None:
        """The same for placeholders; what their claims lack is not noted."""
        return self._trials.place(demand, partial(self._solve, demand), avoiding)

    def taken_with_more(self, demand: Demand, given_up: Hashable) -> Taken | None:
        """The placement with capacity that was given up, of which some demand may know that it is too little.

        If there is one, what was infeasible before may be feasible from now on.
        """
        before, self._infeasible = self._infeasible, set()
        key = (given_up, self._problems.key(demand))
        taken = self.taken(demand) if key not in before else None
        if taken is None:
            self._infeasible = before | {key}
        return taken

    def capacity_changed(self, *, is_more: bool = False) -> None:
        """What blocks a demand may be another reservation now.

        `is_more`: what was infeasible may be feasible.
        """
        self._blocked_by.clear()
        if is_more:
            self._infeasible.clear()

    def is_infeasible(self, key: Hashable) -> bool:
        """Whether a question with this key is known to have no answer."""
        return key in self._infeasible

    def note_infeasible(self, key: Hashable) -> None:
        """A question with this key has no answer until there is more capacity."""
        self._infeasible.add(key)

    def blocking_reservations(self, demand: Demand) -> BlockingReservations | None:
        """The reservations without which the demand would fit: those that block it alone, else all."""
        *_, bound = self._withholding.alternatives(demand)
        if not bound:
            return None
        key = (tuple(each.gang for each in bound), self._withholding.reservations.key(demand, bound))
        if key not in self._blocked_by:
            self._blocked_by[key] = self._find_blocking(demand, bound)
        return self._blocked_by[key]

    def _find_blocking(self, demand: Demand, bound: Sequence[Reservation]) -> BlockingReservations | None:
        def solve(avoiding: frozenset[NodeName]) -> Placed | None:
            return self._answer(self._problems.build_problem(demand, avoiding=avoiding))

        if self._trials.place(demand, solve) is None:
            return None
        alone = tuple(each for each in bound if len(bound) > 1 and not self._fits_beside(demand, each))
        return BlockingReservations(alone or tuple(bound), free_until=min(each.held_from for each in bound))

    def _fits_beside(self, demand: Demand, reserved: Reservation) -> bool:
        keyed = self._withholding.reservations.build_problem(
            demand, (reserved,), avoiding=NOWHERE, known_infeasible=self._infeasible
        )
        return keyed is not None and self._answer(keyed) is not None

    def _solve(self, demand: Demand, avoiding: frozenset[NodeName]) -> Placed | None:
        """The answer beside the first of the sets of reservations with which some pod fits."""
        for respected in self._withholding.alternatives(demand):
            keyed = self._withholding.build_problem(
                demand, respected, avoiding=avoiding, known_infeasible=self._infeasible
            )
            answer = self._answer(keyed) if keyed is not None else None
            if answer is not None:
                return answer
        return None

    def _answer(self, keyed: KeyedProblem) -> Placed | None:
        if keyed.key in self._infeasible:
            return None
        answer = place(keyed.problem)
        self._outcome.solves[_backend(answer)] += 1
        self._outcome.errors.extend(answer.errors)
        if isinstance(answer, Placed) and answer.assignments:
            return answer
        if isinstance(answer, Unplaceable) and not answer.proven:
            self._outcome.inconclusive += 1
        self._infeasible.add(keyed.key)
        return None


def _backend(answer: Answer) -> str:
    return answer.certificate.by if isinstance(answer, Placed) else answer.by
