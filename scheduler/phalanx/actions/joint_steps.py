"""Place gangs one after the other as a joint proposal says, each with all rules that it has.

Joint admission uses this for gangs with rules that its model does not state, such as affinity between pods.
Each gang is tried where the proposal has it, then on other nodes of the proposal, then on any nodes. Each
placement passes the check of single placements in the session as it is then, so the order of the gangs
matters: a gang that was placed before stays before those that may need it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.outcome import Outcome
from phalanx.actions.problems.joint_problem import is_modelled, solver_assignments
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.placer import Placer, Taken
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit, Statement
from phalanx.model.names import GangId, NodeName
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.checker import check_assignments
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.objective import Scorer, certify

JOINT_STEPS_HELPED_MAX: Final = 8
"""Waiting gangs that are tried before the placed ones, if a joint proposal fails because of rules that its
model does not state. Each one solves all placements that may change again."""

JOINT_STEPS_MAX: Final = 200
"""Placements that one cycle tries for such proposals: as many as the gangs of one proposal, which the cycle
has tried once before."""

_BY: Final = "joint"

_NO_BOUND: Final = -(1 << 53)
"""Below every value of a term: a placement that no solver has proven. JSON keeps it exact."""

Proposal = Mapping[GangId, Sequence[Assignment]]
"""Where gangs are to be placed. The roles are batches of their demands."""


class JointSteps:
    """Places gangs in the session, which contains all other placements, and rolls back at the end."""

    def __init__(self, session: Session, outcome: Outcome) -> None:
        self._session = session
        self._outcome = outcome
        self._problems = ProblemBuilder(session)
        self._placer = Placer(session, self._problems)
        self._left = JOINT_STEPS_MAX

    def placed_as(
        self, proposal: Proposal, found: Sequence[DemandPlacement], helped: Sequence[Demand]
    ) -> list[DemandPlacement]:
        """The placements of the proposal: all found gangs, and the helped ones that fit; else none.

        Gangs with rules that the proposal leaves out choose first: others are where they fit for certain.
        """
        kept = [placement.demand for placement in found]
        new = [demand for demand in helped if demand.gang.id in proposal]
        exact = [is_modelled(demand, self._session) for demand in kept]
        ordered = [demand for demand, is_exact in zip(kept, exact, strict=True) if not is_exact]
        ordered += [demand for demand in new if not is_modelled(demand, self._session)]
        ordered += [demand for demand, is_exact in zip(kept, exact, strict=True) if is_exact]
        ordered += [demand for demand in new if is_modelled(demand, self._session)]
        return self._placed(ordered, proposal, optional={demand.gang.id for demand in new})

    def helped_first(
        self, found: Sequence[DemandPlacement], helped: Sequence[Demand]
    ) -> list[DemandPlacement]:
        """Place one helped gang after the other before all found ones, which stay where they still fit."""
        demands = [placement.demand for placement in found]
        proposal: dict[GangId, Sequence[Assignment]] = {
            placement.demand.gang.id: solver_assignments(placement) for placement in found
        }
        first: list[Demand] = []
        best: list[DemandPlacement] = []
        for demand in helped[:JOINT_STEPS_HELPED_MAX]:
            placed = self._placed([*first, demand, *demands], proposal, optional=frozenset())
            if placed:
                first.append(demand)
                best = placed
                proposal = {each.demand.gang.id: solver_assignments(each) for each in placed}
        return best

    def _placed(
        self, demands: Sequence[Demand], proposal: Proposal, *, optional: AbstractSet[GangId]
    ) -> list[DemandPlacement]:
        """The placements in this order, without optional gangs that do not fit; none if another gang does
        not fit, or if no optional one does."""
        applied: list[Statement] = []
        placements: list[DemandPlacement] = []
        for demand in demands:
            step = self._step(demand, proposal.get(demand.gang.id, ()))
            if step is not None:
                placements.append(step[0])
                applied.append(step[1])
            elif demand.gang.id not in optional:
                placements.clear()
                break
        for statement in reversed(applied):
            statement.roll_back()
        if optional and optional.isdisjoint(each.demand.gang.id for each in placements):
            return []
        return placements

    def _step(
        self, demand: Demand, proposed: Sequence[Assignment]
    ) -> tuple[DemandPlacement, Statement] | None:
        """Place one gang; None if it fits nowhere, or if enough has been tried."""
        if not self._left:
            return None
        self._left -= 1
        for taken in self._candidates(demand, proposed):
            step = self._applied(demand, taken) if taken is not None else None
            if step is not None:
                return step
        return None

    def _candidates(self, demand: Demand, proposed: Sequence[Assignment]) -> Iterator[Taken | None]:
        """The placement as proposed, then on the nodes of the proposal, then on any nodes."""
        nodes = tuple(dict.fromkeys(each.node for each in proposed))
        if proposed:
            problem = self._problems.build_problem(demand, listing=nodes).problem
            answer = _checked(problem, proposed)
            yield self._placer.take(demand, answer) if answer is not None else None
            yield self._placer.place(demand, partial(self._solve, demand, nodes, is_limited=True))
        yield self._placer.place(demand, partial(self._solve, demand, nodes))

    def _solve(
        self,
        demand: Demand,
        nodes: tuple[NodeName, ...],
        avoiding: frozenset[NodeName],
        *,
        is_limited: bool = False,
    ) -> Placed | None:
        """The answer of the heuristics, else that of all methods unless the cycle has tried enough.

        `is_limited`: on these nodes only.
        """
        whole = self._problems.build_problem(demand, avoiding=avoiding, listing=nodes).problem
        problem = replace(whole, classes=tuple(_on_nodes(whole.classes, nodes))) if is_limited else whole
        for limits in (GREEDY_ONLY, None):
            if limits is None and self._outcome.is_exhausted:
                break
            answer = place(problem) if limits is None else place(problem, limits=limits)
            self._outcome.solves[_BY] += limits is None
            if isinstance(answer, Placed):
                return _checked(whole, answer.assignments)
        return None

    def _applied(self, demand: Demand, taken: Taken) -> tuple[DemandPlacement, Statement] | None:
        """Place it; None if a supply of the nodes turns out not to be enough."""
        without_bound = replace(taken, is_restricted=False)
        placement = replace(self._placer.placement(demand, without_bound), is_joint=True)
        try:
            return placement, apply_placement(self._session, placement)
        except DoesNotFit:
            return None


def _checked(problem: PlacementProblem, assignments: Sequence[Assignment]) -> Placed | None:
    """The assignments with a certificate that no solver has proven; None if they violate a rule."""
    if check_assignments(problem, assignments):
        return None
    scorer = Scorer(problem)
    return certify(scorer, assignments, bound=(_NO_BOUND,) * len(scorer.terms), by=_BY)


def without_needed(placements: Sequence[DemandPlacement], moved: Sequence[int]) -> list[int]:
    """The indices without those whose pods a placement that stays requires near it or counts for its spread.

    Each of these stays too.
    """
    left = list(moved)
    while True:
        stay = [each.demand for index, each in enumerate(placements) if index not in left]
        needed = {number for demand in stay for number in _needed_by(demand)}
        kept = [index for index in left if needed.isdisjoint(_matched(placements[index].demand))]
        if len(kept) == len(left):
            return kept
        left = kept


def _needed_by(demand: Demand) -> Iterator[int]:
    """The terms of required affinity and of spread constraints of its pods."""
    for batch in demand.batches:
        state = batch.pods[0].shape.affinity_state
        if state is not None:
            yield from state.spread if state.affinity is None else (state.affinity, *state.spread)


def _matched(demand: Demand) -> set[int]:
    """The terms that select pods of the demand."""
    states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
    return {number for state in states if state is not None for number in state.matched_by}


def _on_nodes(classes: Sequence[NodeClass], nodes: Collection[NodeName]) -> Iterator[NodeClass]:
    """The classes with only these nodes."""
    for each in classes:
        kept = [place for place, node in enumerate(each.nodes) if node in nodes]
        if kept:
            order = tuple(each.order[place] for place in kept) if each.order else ()
            yield replace(each, nodes=tuple(each.nodes[place] for place in kept), order=order)
