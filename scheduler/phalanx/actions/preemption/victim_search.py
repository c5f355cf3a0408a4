"""Searches the victims whose eviction lets a demand fit, and the placement that follows.

Priorities are added from the lowest until the victims are enough. Among those the solver chooses the cheapest
set, which is tried with all rules of the demand. If the rules require more than the solver knows of, victims
are added by trial, the cheapest first, and those that turn out to be unnecessary stay. Soft limits are
exceeded only if no victims exist that respect them.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand, has_affinity_terms
from phalanx.actions.limits import (
    CYCLE_FEWEST_VICTIMS_LIMIT,
    CYCLE_VICTIMS_LIMIT,
    FEWEST_VICTIMS_LIMIT,
    FEWEST_VICTIMS_UNITS_MAX,
    VICTIM_PRIORITIES_MAX,
    VICTIM_TRIALS_MAX,
)
from phalanx.actions.preemption.eviction_limits import EvictionLimits
from phalanx.actions.preemption.victim_problem import Bounds, problem_of
from phalanx.actions.preemption.victims import Victim
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.reservations.reservations import Reservation, hold
from phalanx.framework.evictions import QueueEvictionLimit
from phalanx.framework.session import Session
from phalanx.framework.statement import Assignments, Statement, Usage
from phalanx.limits import VICTIM_DETERMINISTIC_LIMIT
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import NO_DEVICES, Devices, requests_share, total_usage
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence
from phalanx.solver.engine import place
from phalanx.solver.preemption.capacity import CapacityTracker
from phalanx.solver.preemption.engine import choose_victims, fewest_victims
from phalanx.solver.preemption.problem import PreemptionProblem, VictimSet
from phalanx.solver.problem import Placed


class EvictionPlan(Struct, frozen=True):
    """The victims, where the demand goes, and a statement of how good the choice is."""

    victims: tuple[Victim, ...]
    seats: Assignments
    proof: str
    devices: Devices = NO_DEVICES

    @property
    def usage(self) -> Usage:
        """What the pods use per node, with devices of shares and NUMA zones."""
        return {node: total_usage(pods, self.devices) for node, pods in self.members.items()}

    @property
    def members(self) -> dict[NodeName, tuple[Pod, ...]]:
        """The pods by node; pods of several roles may share one."""
        found: dict[NodeName, tuple[Pod, ...]] = {}
        for node, pods in self.seats:
            found[node] = (*found.get(node, ()), *pods)
        return found

    @property
    def gangs_ended(self) -> list[Gang]:
        """The gangs that lose all they hold."""
        gone = {pod.uid for victim in self.victims for pod in victim.pods}
        gangs = {victim.gang.id: victim.gang for victim in self.victims if victim.holders <= gone}
        return list(gangs.values())


class VictimCandidates(Struct, frozen=True):
    """Candidate victims, and what bounds the choice among them."""

    victims: Sequence[Victim]
    floors: Sequence[QueueEvictionLimit]
    limits: EvictionLimits
    may_break: bool = False
    effort: float = VICTIM_DETERMINISTIC_LIMIT


_NO_LIMITS: Final = EvictionLimits(())


class SearchResult(Struct, frozen=True):
    """The plan, or the limits that prevent one."""

    made: EvictionPlan | None = None
    protected: tuple[Evidence, ...] = ()
    beside: tuple[GangId, ...] = ()


class VictimSearch:
    """Searches victims for the demands of one session, in which others are assumed to have terminated."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = ProblemBuilder(session, may_grow=True)
        self._effort = CYCLE_VICTIMS_LIMIT
        self._effort_to_count = CYCLE_FEWEST_VICTIMS_LIMIT
        self.errors: list[str] = []

    def key(self, demand: Demand) -> Hashable:
        """Equal for demands that differ only in the names of their pods."""
        return self._problems.key(demand)

    def make_beside(
        self, ways: Sequence[Sequence[Reservation]], demand: Demand, search: VictimCandidates
    ) -> SearchResult:
        """Search beside the first of these sets of reservations that allows a plan.

        Nothing is evicted if it is enough, beside the last set, to wait for pods that terminate anyway.
        """
        if len(ways) > 1 and self._fits_beside(ways[-1], demand):
            return SearchResult()
        sought = SearchResult()
        for beside in ways:
            with self._session.statement() as reserved:
                hold(beside, reserved)
                made = self.make(demand, search)
                protected = self.protecting_limits(demand, search) if made is None else ()
                reserved.roll_back()
            sought = SearchResult(made, protected, tuple(each.gang for each in beside))
            if made is not None:
                break
        return sought

    def _fits_beside(self, reserved: Sequence[Reservation], demand: Demand) -> bool:
        with self._session.statement() as trial:
            hold(reserved, trial)
            fits = self._assignments(_whole(demand), ()) is not None
            trial.roll_back()
        return fits

    def make(self, demand: Demand, search: VictimCandidates) -> EvictionPlan | None:
        """The best plan; None if no victims are enough, or if the demand fits without any."""
        wanted = _whole(demand)
        if self._assignments(wanted, ()) is not None:
            return None
        made = self._first(wanted, search)
        if made is not None or all(each.limit.is_hard for each in search.limits.on(search.victims)):
            return made
        choices = self._choices(wanted, replace(search, may_break=True))
        return min(choices, key=lambda choice: search.limits.breaches(choice.victims), default=None)

    def _first(self, demand: Demand, search: VictimCandidates) -> EvictionPlan | None:
        """If that fails, search without the victims that the demand has affinity to."""
        made = next(self._choices(demand, search), None)
        near = {
            state.affinity for batch in demand.batches if (state := batch.pods[0].shape.affinity_state)
        } - {None}
        if made is not None or not near:
            return made
        others = [each for each in search.victims if not any(_is_meant(pod, near) for pod in each.pods)]
        return next(self._choices(demand, replace(search, victims=others)), None)

    def protecting_limits(self, demand: Demand, search: VictimCandidates) -> tuple[Evidence, ...]:
        """The limits without which victims would be enough; a rough check, which finds some of them."""
        if not search.limits.on(search.victims):
            return ()
        made = self.make(demand, replace(search, limits=_NO_LIMITS, effort=0.0))
        return search.limits.evidence(made.victims) if made is not None else ()

    def _choices(self, demand: Demand, search: VictimCandidates) -> Iterator[EvictionPlan]:
        for some in _by_importance(search.victims):
            made = self._choose(demand, replace(search, victims=some))
            if made is not None:
                yield made

    def _choose(self, demand: Demand, search: VictimCandidates) -> EvictionPlan | None:
        """Pods with anti-affinity to victims fit where those go, or else where they are not."""
        problem = self._problem(demand, search)
        choice = self._chosen(problem, search)
        if choice is None:
            return None
        made = self._tried(demand, search, problem, choice)
        if made is None and has_affinity_terms(demand):
            other = self._chosen(self._problem(demand, search, parts=False), search)
            if other is not None:
                made = self._tried(demand, search, problem, replace(other, bound=choice.bound))
        return made or self._by_trial(demand, search, problem, choice)

    def _problem(self, demand: Demand, search: VictimCandidates, *, parts: bool = True) -> PreemptionProblem:
        limits = search.limits.on(search.victims)
        bounds = Bounds(search.floors, limits, may_break=search.may_break)
        return problem_of(self._session, demand, search.victims, bounds, parts=parts)

    def _chosen(self, problem: PreemptionProblem, search: VictimCandidates) -> VictimSet | None:
        answer = choose_victims(problem, effort=min(self._effort, search.effort))
        self._effort -= answer.spent
        self.errors.extend(f"victims: {each}" for each in answer.errors)
        return answer.choice

    def _tried(
        self, demand: Demand, search: VictimCandidates, problem: PreemptionProblem, choice: VictimSet
    ) -> EvictionPlan | None:
        """The plan, if the choice satisfies all rules."""
        chosen = [search.victims[index] for index in choice.units]
        seats = self._assignments(demand, chosen)
        if seats is None:
            return None
        return self._made(demand, chosen, seats, self._proof(problem, choice.units, choice.bound, search))

    def _by_trial(
        self, demand: Demand, search: VictimCandidates, problem: PreemptionProblem, choice: VictimSet
    ) -> EvictionPlan | None:
        """Add victims, twice as many each time, then drop the unnecessary ones."""
        victims = search.victims
        room = CapacityTracker(problem)
        room.evict(choice.units)
        order = list(choice.units)
        for index in _cheapest_first(victims):
            more = room.with_required(index)
            if more and room.keeps_limits(more):
                room.evict(more)
                order += more
        count, seats = len(choice.units), None
        while seats is None and count < len(order):
            count = min(len(order), max(1, 2 * count))
            seats = self._assignments(demand, [victims[index] for index in order[:count]])
        if seats is None:
            return None
        units, seats = self._without_unnecessary(demand, victims, order[:count], seats)
        chosen = [victims[unit] for unit in units]
        return self._made(demand, chosen, seats, self._proof(problem, units, choice.bound, search))

    def _proof(
        self, problem: PreemptionProblem, units: Sequence[int], bound: int, search: VictimCandidates
    ) -> str:
        """Proven lower bounds on the number and the cost of victims."""
        least = 1
        if len(units) > 1 and len(problem.units) <= FEWEST_VICTIMS_UNITS_MAX and search.effort:
            answer = fewest_victims(problem, effort=min(self._effort_to_count, FEWEST_VICTIMS_LIMIT))
            self._effort_to_count -= answer.spent
            least = answer.choice.bound if answer.choice is not None else least
        return f"{_count(len(units), least)}; {_cost(problem, units, bound)}"

    def _without_unnecessary(
        self, demand: Demand, victims: Sequence[Victim], units: Sequence[int], seats: Assignments
    ) -> tuple[Sequence[int], Assignments]:
        """Keep all that free nothing on the nodes, then drop blocks, ever smaller ones, the most expensive
        first.
        """
        beside = _on_nodes(victims, units, {node for node, _ in seats})
        if len(beside) < len(units):
            found = self._assignments(demand, [victims[unit] for unit in beside])
            units, seats = (beside, found) if found is not None else (units, seats)
        units = sorted(units, key=lambda unit: (-victims[unit].cost, unit))
        size, tries = len(units), VICTIM_TRIALS_MAX
        while size > 1 and tries > 0:
            size, start = -(-size // 2), 0
            while start < len(units) and tries > 0:
                fewer = [*units[:start], *units[start + size :]]
                found = None
                if _is_closed([victims[unit] for unit in fewer]):
                    tries -= 1
                    found = self._assignments(demand, [victims[unit] for unit in fewer])
                if found is not None:
                    units, seats = fewer, found
                else:
                    start += size
        return units, seats

    def _made(self, demand: Demand, ended: Sequence[Victim], seats: Assignments, proof: str) -> EvictionPlan:
        """The plan, with the devices that shares of GPUs get when the victims have terminated."""
        if not any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches):
            return EvictionPlan(tuple(ended), seats, proof)
        with self._session.statement() as trial:
            self._end(ended, trial)
            trial.hold_capacity(gang=demand.gang, assignments=seats)
            devices = self._session.capacity_holds[-1].devices
            trial.roll_back()
        return EvictionPlan(tuple(ended), seats, proof, devices)

    def _assignments(self, demand: Demand, ended: Sequence[Victim]) -> Assignments | None:
        """Where the whole demand goes when these have terminated; None if it does not fit."""
        with self._session.statement() as trial:
            self._end(ended, trial)
            answer = place(self._problems.build_problem(demand).problem)
            seats = (
                assign_pods(self._session, demand, answer.assignments) if isinstance(answer, Placed) else None
            )
            trial.roll_back()
        return seats

    def _end(self, victims: Sequence[Victim], trial: Statement) -> None:
        for each in victims:
            trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)


def _is_meant(pod: Pod, terms: Collection[int | None]) -> bool:
    """Whether one of these affinity terms, by number, selects the pod."""
    return pod.shape.affinity_state is not None and any(
        each in terms for each in pod.shape.affinity_state.matched_by
    )


def _whole(demand: Demand) -> Demand:
    """The demand, all of it to be placed."""
    batches = tuple(Batch(each.name, each.pods, len(each.pods)) for each in demand.batches)
    return replace(demand, batches=batches)


def _by_importance(victims: Sequence[Victim]) -> Iterator[list[Victim]]:
    """The victims of the lowest priority, then with the next ones, in a bounded number of steps."""
    priorities = sorted({each.gang.priority for each in victims})
    step = -(-len(priorities) // VICTIM_PRIORITIES_MAX)
    for top in [*priorities[step - 1 :: step][:-1], priorities[-1]] if priorities else ():
        yield [each for each in victims if each.gang.priority <= top]


def _cheapest_first(victims: Sequence[Victim]) -> list[int]:
    """Indices in the order of costs."""
    return sorted(range(len(victims)), key=lambda index: (victims[index].cost, index))


def _on_nodes(victims: Sequence[Victim], units: Sequence[int], nodes: Collection[NodeName]) -> list[int]:
    """The units that free something on the nodes, with all units of a gang that goes whole."""
    there = [unit for unit in units if not victims[unit].used.keys().isdisjoint(nodes)]
    whole = {victims[unit].gang.id for unit in there if victims[unit].whole}
    return [unit for unit in units if unit in there or victims[unit].gang.id in whole]


def _is_closed(victims: Sequence[Victim]) -> bool:
    """Whether no gang goes whole while members that can go alone stay."""
    gone = {pod.uid for each in victims for pod in each.pods}
    return all(each.holders <= gone for each in victims if each.whole)


def _count(victims: int, least: int) -> str:
    """A victim is a gang, or a member that may go alone."""
    proof = "the fewest" if victims <= least else f"at least {least} needed (lower bound)"
    return f"{victims} victim{'s' * (victims > 1)}, {proof}"


def _cost(problem: PreemptionProblem, units: Sequence[int], bound: int) -> str:
    """Costs are less than the cost of one violation, so both can be read from their sum."""
    total = problem.cost_of(units)
    breaches, cost = divmod(total, problem.violation_cost)
    least_breaches, least = divmod(bound, problem.violation_cost)
    proof = "proven optimal" if total <= bound else f"lower bound {least}"
    if not breaches:
        return f"cost {cost}, {proof}"
    beyond = f"{breaches} evictions beyond PodDisruptionBudgets"
    if total > bound:
        proof = f"lower bounds {least_breaches} and {least}"
    return f"{beyond}, cost {cost}, {proof}"
