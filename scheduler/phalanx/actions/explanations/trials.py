"""Decide again for a demand after a change of the cluster or of its gang, with all rules that hold then.

An advice is given only if such a trial succeeds. A trial is one solve of the problem that allocation would
build; the trials of an explanation are bounded.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.changed_nodes import ChangedNode, with_changed_nodes
from phalanx.actions.explanations.relaxed_clusters import EmptyCluster
from phalanx.actions.problems.capacity_holders import CapacityHolder
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import AffinityState, Pod, PodShape
from phalanx.model.resources import NONE
from phalanx.solver.infeasibility.explain import largest_fit, raised_budgets
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.relaxations import Raises, with_raised_budgets
from phalanx.solver.problem import PlacementProblem

_NO_RAISES: Raises = {}
_NO_USAGE: Usage = {}


class Change(Struct, frozen=True):
    """A demand, and what is different from the cluster as it is."""

    demand: Demand
    """For the gang as it is then."""

    is_empty: bool = False
    """Whether all pods that may end have ended, except members of the gang."""

    ended: Sequence[CapacityHolder] = ()
    freed: Usage = _NO_USAGE
    raised: Raises = _NO_RAISES
    """By the name of a limit, the amounts by which it is higher."""

    nodes: Sequence[ChangedNode] = ()
    selected: tuple[int, NodeName] | None = None
    """The number of affinity terms that select a further pod, and its node."""


class Trials:
    """The trials of one explanation."""

    def __init__(self, session: Session, empty: EmptyCluster, oracle: FeasibilityOracle) -> None:
        self._session = session
        self._empty = empty
        self._oracle = oracle
        self._builders: dict[int, tuple[Session, ProblemBuilder]] = {}

    @property
    def are_left(self) -> bool:
        """Whether another trial is allowed."""
        return self._oracle.solves_left > 0

    def fits(self, change: Change) -> bool:
        """Whether the demand is proven to fit after the change."""
        if not self.are_left or self._session.hooks.check_gang(change.demand.gang) is not None:
            return False
        problem = with_raised_budgets(self._problem(change), change.raised)
        return self._oracle.fits(feasibility_problem(problem)) is True

    def raised_budgets(self, change: Change) -> tuple[Raises, ...]:
        """Raises of budgets that let the demand fit."""
        return raised_budgets(feasibility_problem(self._problem(change)), self._oracle)

    def most(self, change: Change) -> tuple[int, ...]:
        """The pods of each batch that fit together."""
        return largest_fit(feasibility_problem(self._problem(change)), self._oracle).minimums

    def _problem(self, change: Change) -> PlacementProblem:
        demand = change.demand
        session = self._empty.session_for(demand.gang) if change.is_empty else self._session
        with session.statement() as statement:
            _apply(statement, change, session)
            problem = self._builder(session).build_problem(demand).problem
            problem = with_changed_nodes(problem, demand, session, change.nodes)
            statement.roll_back()
        return problem

    def _builder(self, session: Session) -> ProblemBuilder:
        if id(session) not in self._builders:
            self._builders[id(session)] = (session, ProblemBuilder(session, may_grow=True))
        return self._builders[id(session)][1]


def _apply(statement: Statement, change: Change, session: Session) -> None:
    for holder in change.ended:
        statement.assume_ended(queue=holder.queue, used=holder.used, booked=holder.booked, gone=holder.pods)
    if change.freed:
        statement.assume_free(usage=change.freed, budgets={})
    if change.selected is not None:
        number, node = change.selected
        queue = change.demand.gang.queue
        statement.nominate(queue=queue, usage={}, booked={}, expected=[(node, [_selected(number, change)])])


def _selected(number: int, change: Change) -> Pod:
    """A pod without requests that the terms of this number select."""
    state = AffinityState(base_key=ShapeKey("selected"), matched_by=(number,))
    shape = PodShape(key=ShapeKey("selected"), requests=NONE, affinity_state=state)
    return replace(change.demand.batches[0].pods[0], shape=shape)
