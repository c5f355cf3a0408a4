"""Search the victims whose eviction lets a demand fit, and the placement that follows.

Candidates are added priority by priority, from the lowest one, until they are enough. Among them the solver
chooses the cheapest set. Then the placement is solved with all rules of the demand. If some rule that the
preemption problem does not model is violated, more victims are added by trial, the cheapest first, and then
the unnecessary ones are removed. Soft limits are exceeded only if no set of victims respects them.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand, has_affinity_terms, whole_demand
from phalanx.actions.preemption.eviction_limits import EvictionLimits
from phalanx.actions.preemption.least_evictions import NO_LEAST, LeastEvictions
from phalanx.actions.preemption.objective import ranked
from phalanx.actions.preemption.victim_problem import Bounds, problem_of
from phalanx.actions.preemption.victims import Victim
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.reservations.reservations import Exchange, Reservation, hold
from phalanx.framework.charges import with_marked_charges
from phalanx.framework.evictions import QueueEvictionLimit
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.limits import VICTIM_DETERMINISTIC_LIMIT
from phalanx.model.gangs import Gang
from phalanx.model.names import NO_QUEUE, GangId, NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.reasons import Evidence
from phalanx.model.supplies.known import requests_parts, total_usage
from phalanx.model.supplies.supply import NO_PARTS, Parts
from phalanx.solver.preemption.capacity import CapacityTracker
from phalanx.solver.preemption.engine import choose_victims
from phalanx.solver.preemption.problem import PreemptionProblem, VictimSet

VICTIM_CLASSES_MAX: Final = 8
"""Steps in which more important victims are added; each step is a choice of its own."""

VICTIM_TRIALS_MAX: Final = 16
"""Solves that check whether victims chosen by trial are unnecessary."""

CYCLE_VICTIMS_LIMIT: Final = 2.0
"""Deterministic time that one cycle may spend on choosing victims. Beyond, the greedy heuristic chooses."""


class EvictionPlan(Struct, frozen=True):
    """The victims, and the assignments of the demand after their eviction."""

    victims: tuple[Victim, ...]
    assignments: Assignments
    proof: str
    """How good the choice is, with proven lower bounds."""
    parts: Parts = NO_PARTS

    @property
    def usage(self) -> Usage:
        """What the pods use per node, including supplies; and what queues are
        charged for their claims."""
        used = {node: total_usage(pods, self.parts) for node, pods in self.members.items()}
        return with_marked_charges(used, self.assignments)

    @property
    def members(self) -> dict[NodeName, tuple[Pod, ...]]:
        """The pods by node; pods of several roles may share one."""
        found: dict[NodeName, tuple[Pod, ...]] = {}
        for node, pods in self.assignments:
            found[node] = (*found.get(node, ()), *pods)
        return found

    @property
    def evicted(self) -> list[Victim]:
        """The victims that run."""
        return [victim for victim in self.victims if not victim.is_start]

    @property
    def given_up(self) -> list[Victim]:
        """The starts of this cycle that are given up."""
        return [victim for victim in self.victims if victim.is_start]

    @property
    def gangs_ended(self) -> list[Gang]:
        """The gangs that lose all pods that hold nodes."""
        return gangs_ended_by(self.victims)


def gangs_ended_by(victims: Sequence[Victim]) -> list[Gang]:
    """The gangs of these victims that lose all pods that hold nodes; pods of other schedulers are in none."""
    gone = {pod.uid for victim in victims for pod in victim.pods}
    ended = [victim.gang for victim in victims if victim.holders <= gone and victim.queue != NO_QUEUE]
    return list({gang.id: gang for gang in ended}.values())


class VictimCandidates(Struct, frozen=True):
    """Candidate victims, and the limits on the choice among them."""

    victims: Sequence[Victim]
    queue_limits: Sequence[QueueEvictionLimit]
    limits: EvictionLimits
    least: LeastEvictions = NO_LEAST
    may_exceed_soft: bool = False
    scales: tuple[int, ...] = (1,)
    """Those of the costs of the victims."""
    effort: float = VICTIM_DETERMINISTIC_LIMIT


_NO_LIMITS: Final = EvictionLimits(())


class SearchResult(Struct, frozen=True):
    """The plan, or the limits that prevent one."""

    plan: EvictionPlan | None = None
    protected: tuple[Evidence, ...] = ()
    respected: tuple[GangId, ...] = ()
    """The gangs whose reservations the search respected."""


class VictimSearch:
    """Searches victims for the demands of one session in which terminating pods are assumed to be gone."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = ProblemBuilder(session, may_grow=True)
        self._placer = Placer(session, self._problems)
        self._effort = CYCLE_VICTIMS_LIMIT
        self.errors: list[str] = []

    def key(self, demand: Demand) -> Hashable:
        """Equal for demands that differ only in the names of their pods."""
        return self._problems.key(demand)

    def search(
        self,
        alternatives: Sequence[Sequence[Reservation]],
        demand: Demand,
        candidates: VictimCandidates,
        exchange: Exchange | None = None,
    ) -> SearchResult:
        """Search a plan that respects the first of these sets of reservations for which there is a plan.

        There is none if the demand fits, with the last set, as soon as pods that terminate anyway are gone.
        The `exchange` is tried last.
        """
        if not candidates.least.are_reached(candidates.victims):
            return SearchResult()
        found = ranked(candidates.victims, self._session)
        candidates = replace(candidates, victims=found.victims, scales=found.scales)
        if len(alternatives) > 1 and self._fits_with(alternatives[-1], demand):
            return SearchResult()
        result = SearchResult()
        for reservations in alternatives:
            result = self._search_beside(reservations, demand, candidates)
            if result.plan is not None:
                return result
        if exchange is None:
            return result
        candidates = replace(candidates, least=replace(candidates.least, gaps=exchange.gaps))
        if not candidates.least.are_reached(candidates.victims):
            return result
        instead = self._search_beside(exchange.respected, demand, candidates)
        return instead if instead.plan is not None else result

    def _search_beside(
        self, reservations: Sequence[Reservation], demand: Demand, candidates: VictimCandidates
    ) -> SearchResult:
        with self._session.statement() as reserved:
            hold(reservations, reserved)
            plan = self._plan(demand, candidates)
            protected = self._protecting_limits(demand, candidates) if plan is None else ()
            reserved.roll_back()
        return SearchResult(plan, protected, tuple(each.gang for each in reservations))

    def _fits_with(self, reserved: Sequence[Reservation], demand: Demand) -> bool:
        with self._session.statement() as trial:
            hold(reserved, trial)
            fits = self._assignments(whole_demand(demand), ()) is not None
            trial.roll_back()
        return fits

    def _plan(self, demand: Demand, candidates: VictimCandidates) -> EvictionPlan | None:
        """The best plan; None if no victims are enough, or if none are needed."""
        wanted = whole_demand(demand)
        if not candidates.least.gaps and self._assignments(wanted, ()) is not None:
            return None
        plan = self._first_plan(wanted, candidates)
        hard = [limit for limit in candidates.queue_limits if limit.is_hard]
        if plan is None and len(hard) < len(candidates.queue_limits):
            candidates = replace(candidates, queue_limits=hard)
            plan = self._first_plan(wanted, candidates)
        exceeded = candidates.limits.exceeded_by(candidates.victims)
        if plan is not None or all(each.limit.is_hard for each in exceeded):
            return plan
        plans = self._plans(wanted, replace(candidates, may_exceed_soft=True))
        return min(plans, key=lambda plan: candidates.limits.excess(plan.victims), default=None)

    def _first_plan(self, demand: Demand, candidates: VictimCandidates) -> EvictionPlan | None:
        """The plan with the lowest priorities; if there is none, search without victims that terms select.

        A demand with affinity to pods may need them to stay, and so may one with a spread constraint: their
        domain may be the one with the fewest pods.
        """
        plan = next(self._plans(demand, candidates), None)
        states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
        terms = {each for state in states if state for each in (state.affinity, *state.spread)} - {None}
        if plan is not None or not terms:
            return plan
        others = [
            each for each in candidates.victims if not any(_is_selected(pod, terms) for pod in each.pods)
        ]
        return next(self._plans(demand, replace(candidates, victims=others)), None)

    def _protecting_limits(self, demand: Demand, candidates: VictimCandidates) -> tuple[Evidence, ...]:
        """Some of the limits without which there would be a plan; found by a search with little effort."""
        if not candidates.limits.exceeded_by(candidates.victims):
            return ()
        plan = self._plan(demand, replace(candidates, limits=_NO_LIMITS, effort=0.0))
        return candidates.limits.evidence(plan.victims) if plan is not None else ()

    def _plans(self, demand: Demand, candidates: VictimCandidates) -> Iterator[EvictionPlan]:
        for some in _by_importance(candidates.victims):
            plan = self._plan_with(demand, replace(candidates, victims=some))
            if plan is not None:
                yield plan

    def _plan_with(self, demand: Demand, candidates: VictimCandidates) -> EvictionPlan | None:
        """The plan with the cheapest of these candidates, or the one that a trial finds.

        If victims have anti-affinity to the demand, the first choice may use the nodes that they leave. The
        second choice uses only nodes that are eligible now.
        """
        problem = self._problem(demand, candidates)
        choice = self._choose(problem, candidates)
        if choice is None:
            return None
        plan = self._checked(demand, candidates, problem, choice)
        if plan is None and has_affinity_terms(demand):
            other = self._choose(self._problem(demand, candidates, with_unblocked_nodes=False), candidates)
            if other is not None:
                plan = self._checked(demand, candidates, problem, replace(other, bound=choice.bound))
        return plan or self._plan_by_trial(demand, candidates, problem, choice)

    def _problem(
        self, demand: Demand, candidates: VictimCandidates, *, with_unblocked_nodes: bool = True
    ) -> PreemptionProblem:
        bounds = Bounds(
            candidates.queue_limits,
            candidates.limits.exceeded_by(candidates.victims),
            candidates.scales,
            least=candidates.least,
            may_exceed_soft=candidates.may_exceed_soft,
        )
        return problem_of(
            self._session, demand, candidates.victims, bounds, with_unblocked_nodes=with_unblocked_nodes
        )

    def _choose(self, problem: PreemptionProblem, candidates: VictimCandidates) -> VictimSet | None:
        answer = choose_victims(problem, effort=min(self._effort, candidates.effort))
        self._effort -= answer.spent
        self.errors.extend(f"victims: {each}" for each in answer.errors)
        return answer.choice

    def _checked(
        self, demand: Demand, candidates: VictimCandidates, problem: PreemptionProblem, choice: VictimSet
    ) -> EvictionPlan | None:
        """The plan of this choice, if a placement satisfies all rules."""
        chosen = [candidates.victims[index] for index in choice.units]
        assignments = self._assignments(demand, chosen)
        if assignments is None:
            return None
        proof = _proof(problem, choice.units, choice.bound, candidates.victims)
        return self._plan_of(demand, chosen, assignments, proof)

    def _plan_by_trial(
        self, demand: Demand, candidates: VictimCandidates, problem: PreemptionProblem, choice: VictimSet
    ) -> EvictionPlan | None:
        """Double the number of victims until the demand fits, then remove the unnecessary ones."""
        victims = candidates.victims
        tracker = CapacityTracker(problem)
        tracker.evict(choice.units)
        order = list(choice.units)
        for index in _cheapest_first(victims):
            more = tracker.with_required(index)
            if more and tracker.keeps_limits(more):
                tracker.evict(more)
                order += more
        count, assignments = len(choice.units), None
        while assignments is None and count < len(order):
            count = min(len(order), max(1, 2 * count))
            some = [victims[index] for index in order[:count]]
            assignments = self._assignments(demand, some) if candidates.least.are_reached(some) else None
        if assignments is None:
            return None
        units, assignments = self._without_unnecessary(demand, candidates, order[:count], assignments)
        chosen = [victims[unit] for unit in units]
        proof = _proof(problem, units, choice.bound, candidates.victims)
        return self._plan_of(demand, chosen, assignments, proof)

    def _without_unnecessary(
        self, demand: Demand, candidates: VictimCandidates, units: Sequence[int], assignments: Assignments
    ) -> tuple[Sequence[int], Assignments]:
        """Remove victims that are not on the assigned nodes, then blocks of victims of ever smaller size.

        The most expensive blocks are removed first.
        """
        victims, least = candidates.victims, candidates.least
        on_nodes = _on_nodes(victims, units, {node for node, _ in assignments})
        if len(on_nodes) < len(units) and least.are_reached([victims[unit] for unit in on_nodes]):
            found = self._assignments(demand, [victims[unit] for unit in on_nodes])
            units, assignments = (on_nodes, found) if found is not None else (units, assignments)
        units = sorted(units, key=lambda unit: (-victims[unit].cost, unit))
        size, tries = len(units), VICTIM_TRIALS_MAX
        while size > 1 and tries > 0:
            size, start = -(-size // 2), 0
            while start < len(units) and tries > 0:
                fewer = [*units[:start], *units[start + size :]]
                found, rest = None, [victims[unit] for unit in fewer]
                if _is_closed(rest) and least.are_reached(rest):
                    tries -= 1
                    found = self._assignments(demand, rest)
                if found is not None:
                    units, assignments = fewer, found
                else:
                    start += size
        return units, assignments

    def _plan_of(
        self, demand: Demand, victims: Sequence[Victim], assignments: Assignments, proof: str
    ) -> EvictionPlan:
        """The plan, with the parts of nodes that the pods get when the victims have terminated."""
        if not any(requests_parts(batch.pods[0].shape.requests) for batch in demand.batches):
            return EvictionPlan(tuple(victims), assignments, proof)
        with self._session.statement() as trial:
            self._assume_terminated(victims, trial)
            trial.hold_capacity(gang=demand.gang, assignments=assignments)
            parts = self._session.capacity_holds[-1].parts
            trial.roll_back()
        return EvictionPlan(tuple(victims), assignments, proof, parts)

    def _assignments(self, demand: Demand, victims: Sequence[Victim]) -> Assignments | None:
        """The assignments of the whole demand when these have terminated; None if it does not fit."""
        with self._session.statement() as trial:
            self._assume_terminated(victims, trial)
            taken = self._placer.place_whole(demand)
            trial.roll_back()
        return taken.assignments if taken is not None else None

    def _assume_terminated(self, victims: Sequence[Victim], trial: Statement) -> None:
        for each in victims:
            trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)


def _is_selected(pod: Pod, terms: Collection[int | None]) -> bool:
    """Whether one of these affinity terms, by number, selects the pod."""
    return pod.shape.affinity_state is not None and any(
        each in terms for each in pod.shape.affinity_state.matched_by
    )


def _by_importance(victims: Sequence[Victim]) -> Iterator[list[Victim]]:
    """Yield the victims of the least importance, with more important ones in each step.

    Starts are given up before anything that runs is evicted, whatever their priority.
    """
    running = [each for each in victims if not each.is_start] or victims
    places = sorted({each.importance for each in running})
    step = -(-len(places) // VICTIM_CLASSES_MAX)
    for top in [*places[step - 1 :: step][:-1], places[-1]] if places else ():
        yield [
            each for each in victims if each.importance <= top or (each.is_start and running is not victims)
        ]


def _cheapest_first(victims: Sequence[Victim]) -> list[int]:
    """Indices in the order of costs."""
    return sorted(range(len(victims)), key=lambda index: (victims[index].cost, index))


def _on_nodes(victims: Sequence[Victim], units: Sequence[int], nodes: Collection[NodeName]) -> list[int]:
    """The units that free capacity on the nodes, and all units of gangs that are evicted whole."""
    found = [unit for unit in units if not victims[unit].used.keys().isdisjoint(nodes)]
    whole = {victims[unit].gang.id for unit in found if victims[unit].whole}
    return [unit for unit in units if unit in found or victims[unit].gang.id in whole]


def _is_closed(victims: Sequence[Victim]) -> bool:
    """Whether each gang with a `whole` unit among these loses all its pods."""
    gone = {pod.uid for each in victims for pod in each.pods}
    return all(each.holders <= gone for each in victims if each.whole)


def _proof(problem: PreemptionProblem, units: Sequence[int], bound: int, victims: Sequence[Victim]) -> str:
    """The number of victims, their loss, evictions beyond soft limits, and whether no choice is better."""
    chosen = [victims[unit] for unit in units]
    total, lost = problem.cost_of(units), sum(victim.lost for victim in chosen)
    violations = total // problem.violation_cost
    proof = "proven optimal" if total <= bound else "not proven optimal"
    if total > bound and not violations and len({victim.importance for victim in victims}) == 1:
        proof = f"lower bound {min(lost, bound // problem.scales[-2])}" if lost else proof
    beyond = f", {formatting.evictions(violations)} beyond PodDisruptionBudgets" if violations else ""
    return f"{len(chosen)} victim{'s' * (len(chosen) > 1)}{beyond}; cost {lost}, {proof}"
