"""Decide again for a demand after a change of the cluster or of its gang, with all rules that hold then.

An advice is given only if such a trial succeeds. A trial is one solve of the problem that allocation would
build; the trials of an explanation are bounded.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.member_choice import start_with_others
from phalanx.actions.demands.tried_beside import tried_beside
from phalanx.actions.explanations.changed_nodes import ChangedNode, FreeNode, with_changed_nodes
from phalanx.actions.explanations.deletion_filter import necessary_amounts
from phalanx.actions.explanations.fitting_pods import placed_pods
from phalanx.actions.explanations.relaxed_clusters import EmptyCluster, StayingUsage
from phalanx.actions.problems.capacity_holders import CapacityHolder
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import AffinityState, Pod, PodShape
from phalanx.model.resources import NONE, subtract
from phalanx.model.supplies.joined import only_certain
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.infeasibility.explain import raised_budgets
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.largest_fit import as_largest_fit
from phalanx.solver.infeasibility.relaxations import Raises, with_raised_budgets

_NO_RAISES: Raises = {}
_NO_USAGE: Usage = {}


class Change(Struct, frozen=True):
    """A demand, and what is different from the cluster as it is."""

    demand: Demand
    """For the gang as it is then."""

    is_empty: bool = False
    """Whether all running work has ended, except members of the gang and pods that never end."""

    ended: Sequence[CapacityHolder] = ()
    freed: Usage = _NO_USAGE
    raised: Raises = _NO_RAISES
    """By the name of a limit, the amounts by which it is higher."""

    nodes: Sequence[ChangedNode] = ()
    selected: tuple[tuple[int, ...], NodeName] | None = None
    """The numbers of the affinity terms that select a further pod, and its node."""

    def raising(self, limits: Raises) -> "Change":
        """The change with these raises of limits."""
        return replace(self, raised=limits)


class TrialProblems:
    """Builds the problems of changed demands of one session, as allocation would build them."""

    def __init__(self, session: Session, builder: ProblemBuilder, staying: StayingUsage) -> None:
        self._session = session
        self._builder = builder
        self._staying = staying
        self._empty = EmptyCluster(session, staying=staying.on)
        self._when_empty: tuple[Session, ProblemBuilder] | None = None
        self._last: tuple[Demand, tuple[Demand, ...]] | None = None
        """The last demand that was asked about, and what is tried beside it: most trials are about one."""

    def build(self, change: Change) -> PlacementProblem:
        """The problem after the change, without raises of limits: only what fits for certain counts."""
        demand = change.demand
        session = self.session_for(change)
        with only_certain(session.supplies), session.statement() as statement:
            _apply(statement, change)
            problem = self._builder_of(session).build_problem(demand).problem
            problem = with_changed_nodes(problem, demand, session, self._as_free(change.nodes, session))
            statement.roll_back()
        return problem

    def session_for(self, change: Change) -> Session:
        """The session on the cluster of the change."""
        return self._empty.session_for(change.demand.gang) if change.is_empty else self._session

    def _as_free(self, nodes: Sequence[ChangedNode], session: Session) -> list[FreeNode]:
        """The nodes with what is free there; pods that never end run on new nodes too."""
        return [
            FreeNode(
                each,
                subtract(each.node.allocatable, self._staying.on(each.like))
                if each.is_new
                else session.free(each.like),
            )
            for each in nodes
        ]

    def objects_to(self, gang: Gang) -> bool:
        """Whether the changed gang would not be tried."""
        return self._session.hooks.check_gang(gang) is not None

    def beside(self, demand: Demand) -> tuple[Demand, ...]:
        """What the gang may start instead. Nothing is known of a gang of which this cycle has placed pods."""
        if self._session.assigned_nodes(demand.gang):
            return ()
        if self._last is None or self._last[0] is not demand:
            self._last = demand, tried_beside(demand, self._session.records.of(demand.gang))
        return self._last[1]

    def _builder_of(self, session: Session) -> ProblemBuilder:
        if session is self._session:
            return self._builder
        if self._when_empty is None or self._when_empty[0] is not session:
            self._when_empty = (session, ProblemBuilder(session, may_grow=True))
        return self._when_empty[1]


class Trials:
    """The trials of one explanation, as many as the oracle has solves."""

    def __init__(self, problems: TrialProblems, oracle: FeasibilityOracle) -> None:
        self._problems = problems
        self._oracle = oracle
        self._proven: Change | None = None
        """The last change that was proven to help, with the demand that fits then."""

    def renew(self) -> None:
        """Allow as many solves as at first: other searches may have used them all."""
        self._oracle.renew()

    @property
    def may_go_on(self) -> bool:
        """Whether solves are left. If not, the last trials may have failed for this reason."""
        return self._oracle.solves_left > 0

    def fits(self, change: Change) -> bool | None:
        """Whether the demand fits after the change; None if that is not known."""
        if self._problems.objects_to(change.demand.gang):
            return False
        if not self.may_go_on:
            return None
        fits = self._oracle.fits(feasibility_problem(self._problem(change)))
        if fits:
            self._proven = change
        return fits

    def starts(self, change: Change) -> bool | None:
        """Whether the demand, or another one of the gang that is tried then, fits after the change; None if
        that is not known."""
        found = self.fits(change)
        if found or self._problems.objects_to(change.demand.gang):
            return found
        for other in self._problems.beside(change.demand):
            is_tried = other.batches == change.demand.batches
            fits = found if is_tried else self.fits(replace(change, demand=other))
            if not fits and other.choice is not None:
                fits = self._starts_with_others(replace(change, demand=other)) or None
            if fits:
                return True
            found = found if fits is False else None
        return found

    def _starts_with_others(self, change: Change) -> bool:
        found = start_with_others(change.demand, partial(self._place, change))
        if found is not None:
            self._proven = replace(change, demand=found[0])
        return found is not None

    def has_others(self, demand: Demand) -> bool:
        """Whether the gang may start something else instead of the demand."""
        return bool(self._problems.beside(demand))

    def starts_at_once(self) -> bool:
        """Whether the change that was proven last, perhaps for the empty cluster, helps now.

        It does without a solve if the end of all running work would change nothing.
        """
        proven = self._proven
        if proven is None:
            return False
        now = replace(proven, is_empty=False)
        return bool(self.starts(now)) or self._problems.build(now) == self._problems.build(proven)

    def _place(self, change: Change, demand: Demand) -> Placed | None:
        if not self.may_go_on:
            return None
        problem = self._problem(replace(change, demand=demand))
        answer = self._oracle.answer(feasibility_problem(problem) if demand.is_whole else problem)
        return answer if isinstance(answer, Placed) else None

    def _problem(self, change: Change) -> PlacementProblem:
        return with_raised_budgets(self._problems.build(change), change.raised)

    def most(self, change: Change) -> list[Pod]:
        """As many pods of the demand as fit after the change; none if its minimums do not fit."""
        if not self._oracle.solves_left:
            return []
        problem = self._problems.build(change)
        core = replace(feasibility_problem(problem), roles=problem.roles)
        found = as_largest_fit(core, self._oracle.answer(core))
        return placed_pods(change.demand.batches, found.counts)

    def session_for(self, change: Change) -> Session:
        """The session on the cluster of the change."""
        return self._problems.session_for(change)

    def raised_budgets(self, change: Change) -> tuple[Raises, ...]:
        """Raises of budgets, each of which lets the demand that was proven last fit after the change."""
        fitting = self._proven.demand if self._proven is not None else change.demand
        problem = self._problems.build(replace(change, demand=fitting))
        return raised_budgets(feasibility_problem(problem), self._oracle)

    def fewest_raises(self, change: Change, enough: Raises) -> Raises:
        """Those of the raises, which are enough beside the change, of which none can be left out."""
        return necessary_amounts(enough, lambda fewer: self.starts(change.raising(fewer)))


def _apply(statement: Statement, change: Change) -> None:
    for holder in change.ended:
        statement.assume_ended(queue=holder.queue, used=holder.used, booked=holder.booked, gone=holder.pods)
    if change.freed:
        statement.assume_free(usage=change.freed, budgets={})
    if change.selected is not None:
        terms, node = change.selected
        queue = change.demand.gang.queue
        statement.nominate(queue=queue, usage={}, booked={}, expected=[(node, [_selected(terms, change)])])


def _selected(terms: tuple[int, ...], change: Change) -> Pod:
    """A pod that these terms select."""
    state = AffinityState(base_key=ShapeKey("selected"), matched_by=terms)
    shape = PodShape(key=ShapeKey("selected"), requests=NONE, affinity_state=state)
    return replace(change.demand.batches[0].pods[0], shape=shape)
