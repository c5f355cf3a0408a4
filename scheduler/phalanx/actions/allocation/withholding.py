"""What is withheld from a demand, and for whom.

A cycle keeps capacity from demands for gangs that have a right to it first: what was held in the last cycle
and is not held again yet, what is nominated for a gang that is tried later, and what starts are reserved on.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, beneficiary_of
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.enqueue import HELD_DESPITE
from phalanx.actions.problems.capacity_holders import charged, total_of
from phalanx.actions.problems.problem_builder import KeyedProblem, ProblemBuilder
from phalanx.actions.reservations.backfill import Reservations
from phalanx.actions.reservations.held_assignments import HeldAssignments
from phalanx.actions.reservations.reservations import Reservation
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import NONE, sum_of


class Withholding:
    """What one cycle withholds from demands."""

    def __init__(self, cycle: Cycle, problems: ProblemBuilder) -> None:
        self._session = cycle.session
        self._nominations = cycle.nominations
        self.held_assignments = _held_assignments(cycle)
        self.reservations = Reservations(cycle.session, problems, cycle.answers)
        self._nominated_later = {
            demand.gang.id: demand.gang
            for demand in cycle.demand_queue.first
            if demand.gang.id in cycle.nominations.open
        }
        """Gangs with nominated capacity that have not been tried yet."""
        self._given_up: frozenset[GangId] = frozenset()
        """Gangs whose held capacity the present demand may take."""

    def tried(self, gang: GangId) -> None:
        """The gang is tried now: what is nominated for it is not withheld from later demands."""
        self._nominated_later.pop(gang, None)

    def is_restricting(self, demand: Demand) -> bool:
        """Whether anything is withheld from the demand."""
        is_held = self.held_assignments.withheld_from(demand) is not None
        return is_held or bool(self._nominated_for(demand)) or bool(self.reservations.binding(demand))

    def alternatives(self, demand: Demand) -> Iterator[Sequence[Reservation]]:
        """The sets of reservations to respect, in the order in which they are tried."""
        nomination = self._nominations.open.get(demand.gang.id)
        return self.reservations.alternatives(demand, nomination.passed if nomination is not None else None)

    @contextmanager
    def given_up(self, gangs: frozenset[GangId]) -> Iterator[None]:
        """What was held for these gangs in the last cycle is not withheld meanwhile."""
        self._given_up = gangs
        try:
            yield
        finally:
            self._given_up = frozenset()

    def build_problem(
        self,
        demand: Demand,
        respected: Sequence[Reservation],
        *,
        avoiding: frozenset[NodeName],
        known_infeasible: Collection[Hashable],
    ) -> KeyedProblem | None:
        """The problem without what is withheld; None if it is known to be infeasible."""
        held = self.held_assignments.withheld_from(demand, self._given_up)
        nominated = self._nominated_for(demand)
        if held is None and not nominated:
            return self.reservations.build_problem(
                demand, respected, avoiding=avoiding, known_infeasible=known_infeasible
            )
        with self._session.statement() as statement:
            if held is not None:
                statement.assume_free(usage=held.usage, budgets=held.budgets)
            statement.assume_free(usage=self._nominations.withheld_for(nominated), budgets={})
            keyed = self.reservations.build_problem(
                demand, respected, avoiding=avoiding, known_infeasible=known_infeasible
            )
            statement.roll_back()
        key = held.key if held is not None else None
        return replace(keyed, key=(key, nominated, keyed.key)) if keyed is not None else None

    def _nominated_for(self, demand: Demand) -> tuple[GangId, ...]:
        """Gangs tried later whose nominated capacity the demand may not use.

        It may use that of gangs of lower rank in its queue, as if it evicted them.
        """
        if not self._nominated_later:
            return ()
        gang, rank = demand.gang, rank_of(demand.gang, self._session)
        below = {
            later.id
            for later in self._nominated_later.values()
            if later.queue == gang.queue and rank_of(later, self._session) > rank
        }
        usable = below if below and self._may_replace(below, demand) else ()
        return tuple(name for name in self._nominated_later if name not in usable)

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


def _held_assignments(cycle: Cycle) -> HeldAssignments:
    """The held assignments, without gangs whose objection does not end soon."""
    verdicts = cycle.session.verdicts.items()
    refused = {gang for gang, verdict in verdicts if verdict.reason not in HELD_DESPITE}
    holds = {gang: hold for gang, hold in cycle.capacity_holds.open.items() if gang not in refused}
    return HeldAssignments(cycle.session, holds)
