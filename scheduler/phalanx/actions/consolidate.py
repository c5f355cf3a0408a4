"""Consolidate: move gangs so that others fit into capacity that is free but fragmented.

For a gang that does not fit, the step searches the fewest moves with which it fits. A moved gang is evicted,
and there must be capacity for all moved gangs elsewhere at the same time. The freed capacity is nominated as
in preemption; the new capacity of the moved gangs is held (`consolidation/moves.py`). Nothing is moved in a
cycle that evicts otherwise, while the breaker is open, or soon after nodes became faulty, nor for a gang for
which it is enough to give up starts of this cycle. In a dry run the plan is only reported.

For a gang inside a guarantee the step runs once more after preemption, also without the action. Then it may
evict other gangs together with the moves (`consolidation/evictions_beside_moves.py`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.consolidation.evictions_beside_moves import is_inside_guarantee, sets_to_evict
from phalanx.actions.consolidation.movable_gangs import MovablePool
from phalanx.actions.consolidation.move_planner import CheckedMovePlan, Moved, MovePlanner
from phalanx.actions.consolidation.moves import apart_of, kind_of
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of
from phalanx.actions.limits import SHOWN_VICTIMS
from phalanx.actions.outcome import Failure
from phalanx.actions.preemption.enough_starts import EnoughStarts
from phalanx.actions.preemption.eviction_limits import limits_of
from phalanx.actions.preemption.nominations import nominate
from phalanx.actions.preemption.victim_search import gangs_ended_by
from phalanx.actions.preemption.victims import Victim, assume_terminated
from phalanx.actions.problems.held_devices import in_order
from phalanx.actions.reservations.reservations import hold
from phalanx.framework.config import ActionName
from phalanx.framework.evictable_pods import candidate
from phalanx.limits import MOVE_DETERMINISTIC_LIMIT
from phalanx.model import named_parts
from phalanx.model.charges import total_requests
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Move, MovedGang, MovePlan, Nomination
from phalanx.model.names import GangId, NodeName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence, Reason, Verdict

CONSOLIDATIONS_TRIED_MAX: Final = 2
"""Gangs for which one cycle searches moves, in seconds each in a large cluster. The next cycle continues."""

CYCLE_MOVES_LIMIT: Final = 2.0
"""Deterministic time that one cycle may spend on plans of moves. Beyond, the greedy heuristic plans."""


def execute(cycle: Cycle) -> None:
    """Execute the first plan that is found, or propose plans in a dry run."""
    step = _Consolidation(cycle)
    if _may_move_gangs(cycle):
        step.search()
    step.close()


def execute_for_guarantees(cycle: Cycle) -> None:
    """Move gangs, and evict others with them, for gangs inside guarantees."""
    config = cycle.session.config
    if ActionName.PREEMPT not in config.actions or not config.consolidation.for_guarantees:
        return
    step = _Consolidation(cycle, is_for_guarantees=True)
    if _may_move_gangs(cycle):
        step.search()
    step.close()


def _may_move_gangs(cycle: Cycle) -> bool:
    """Whether gangs were refused, this cycle evicts nothing so far, and no node became faulty lately."""
    session = cycle.session
    if not cycle.outcome.failures or not session.may_evict or session.evictions:
        return False
    since = session.snapshot.now - session.config.tolerance.breaker_window_ms
    records = session.health.records.values()
    return not any(not each.good and each.since and each.since > since for each in records)


class _Consolidation:
    def __init__(self, cycle: Cycle, *, is_for_guarantees: bool = False) -> None:
        self._cycle = cycle
        self._is_for_guarantees = is_for_guarantees
        self._evicted: tuple[Victim, ...] = ()
        """The victims that are evicted beside the moves of the last plan."""
        self._session = session = cycle.session
        self._outcome = cycle.outcome
        self._moves = cycle.moves
        self._nominations = cycle.nominations
        self._pool = MovablePool(session, cycle.nominations, cycle.moves)
        self._starts = EnoughStarts(session, cycle.outcome, moved=cycle.moves.open)
        self._config = session.config.consolidation
        self._now = session.snapshot.now
        self._effort = CYCLE_MOVES_LIMIT
        self._next_search = self._still_waiting()
        self._proposed = self._still_proposed()
        self._executed: tuple[Demand, CheckedMovePlan] | None = None
        self._plans: list[MovePlan] = []
        self._is_complete = True

    def search(self) -> None:
        """Search moves for the failed gangs in order, until a plan is executed."""
        planner = MovePlanner(self._session)
        tried = 0
        for failure in self._outcome.failures.values():
            gang = failure.demand.gang
            if not self._may_try(failure) or (failure.is_new and self._fits_with_starts(failure.demand)):
                continue
            if tried == CONSOLIDATIONS_TRIED_MAX:
                self._is_complete = False
                break
            tried += 1
            self._next_search[gang.id] = self._now + self._config.interval_ms
            plan = self._isolated_plan(failure.demand, planner)
            if plan is None:
                continue
            self._report(failure.demand, plan)
            if not self._config.dry_run:
                self._executed = (failure.demand, plan)
                self._execute(failure.demand, plan)
                break

    def close(self) -> None:
        """Write new and unfinished moves and the next searches to the memory of the next cycle."""
        cycle, moves = self._cycle, self._moves.unfinished()
        cycle.memory = replace(
            cycle.memory,
            moves=moves,
            next_move_search=dict(sorted({**cycle.memory.next_move_search, **self._next_search}.items())),
            proposed_plans=dict(sorted({**cycle.memory.proposed_plans, **self._proposed}.items())),
        )
        cycle.plans = (*cycle.plans, *self._plans)
        cycle.notes = {**cycle.notes, **{gang: _note_on(plan) for gang, plan in self._proposed.items()}}
        if self._executed is not None:
            self._nominate(*self._executed)
        next_at = min([*self._next_search.values(), *(move.until for move in moves.values())], default=None)
        cycle.wake_at(next_at if self._is_complete else self._now)

    # --- the beneficiary ------------------------------------------------------------------------------------

    def _may_try(self, failure: Failure) -> bool:
        """Whether it is a whole start that does not fit, may preempt, and is blocked by nothing else."""
        demand, gang = failure.demand, failure.demand.gang
        if not failure.tried or failure.objection is not None or failure.blocked_by is not None:
            return False
        if demand.stage is not Stage.START or not demand.is_whole or gang.active or not gang.may_preempt:
            return False
        if (
            gang.id in self._next_search
            or self._moves.is_served(gang.id)
            or gang.id in self._session.verdicts
        ):
            return False
        shapes = [batch.pods[0].shape for batch in demand.batches]
        if self._session.facts.needed_supplies(shapes):
            return False
        if self._is_nominated(gang.id):
            return False
        if self._is_for_guarantees:
            return is_inside_guarantee(demand, self._session)
        return self._is_enough_free(demand)

    def _is_nominated(self, gang: GangId) -> bool:
        """Whether capacity is nominated for it, or it rests after failed nominations."""
        return gang in self._nominations.open or self._nominations.rests_until(gang) is not None

    def _is_enough_free(self, demand: Demand) -> bool:
        """Whether enough of each resource is free in the whole cluster."""
        asked = total_requests([pod for batch in demand.batches for pod in batch.pods])
        return all(
            amount <= sum(max(0, self._session.free(node).get(name, 0)) for node in self._session.nodes)
            for name, amount in asked.items()
        )

    def _fits_with_starts(self, demand: Demand) -> bool:
        """Whether preemption gives starts up for the demand, which costs nothing."""
        return bool(
            self._outcome.isolate_errors(
                lambda: self._starts.fit(demand),
                about=f"starts that are given up for {demand.gang}",
            )
        )

    # --- the plan -------------------------------------------------------------------------------------------

    def _isolated_plan(self, demand: Demand, planner: MovePlanner) -> CheckedMovePlan | None:
        return self._outcome.isolate_errors(
            lambda: self._plan(demand, planner),
            about=f"moves for {demand.gang}",
        )

    def _plan(self, demand: Demand, planner: MovePlanner) -> CheckedMovePlan | None:
        """A plan that respects the reservations of others.

        None if the demand fits as soon as pods that terminate anyway are gone.
        """
        with self._session.statement() as trial:
            hold(self._outcome.reserved_for_others(demand.gang.id), trial)
            plan = None
            if not self._fits_soon(demand, planner):
                find = self._plan_with_evictions if self._is_for_guarantees else self._plan_within_limits
                plan = find(demand, planner)
            trial.roll_back()
        return plan

    def _plan_with_evictions(self, demand: Demand, planner: MovePlanner) -> CheckedMovePlan | None:
        """A plan after the eviction of the best victims with which there is one. Some gang must move."""
        for victims in sets_to_evict(demand, self._session, self._pool.nominated_victims):
            with self._session.statement() as trial:
                for each in victims:
                    trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)
                plan = self._plan_within_limits(demand, planner, victims)
                trial.roll_back()
            if plan is not None and plan.moved:
                self._evicted = victims
                return plan
        return None

    def _plan_within_limits(
        self, demand: Demand, planner: MovePlanner, evicted: Sequence[Victim] = ()
    ) -> CheckedMovePlan | None:
        """A plan of gangs that may be evicted beside others; None if they may not be evicted together."""
        gone = {pod.uid for each in evicted for pod in each.pods}
        gangs = {each.gang.id for each in evicted}
        limits = limits_of(self._session, self._pool.nominated_victims | gone)
        plan, spent = planner.plan(
            demand,
            [
                unit
                for unit in self._pool.units_for(demand.gang)
                if unit.gang.id not in gangs and not limits.exceeded_by([unit])
            ],
            moves_max=self._config.moves_max - len(self._moves.open),
            effort=min(self._effort, MOVE_DETERMINISTIC_LIMIT),
        )
        self._effort -= spent
        if plan is None or limits.exceeded_by([each.unit for each in plan.moved]):
            return None
        return plan

    def _fits_soon(self, demand: Demand, planner: MovePlanner) -> bool:
        with self._session.statement() as trial:
            assume_terminated(self._session, trial)
            fits = planner.fits(demand)
            trial.roll_back()
        return fits

    # --- evictions, nominations and reports -----------------------------------------------------------------

    def _execute(self, demand: Demand, plan: CheckedMovePlan) -> None:
        """Evict all gangs of the plan, each one whole, and hold all new capacity from now on."""
        gang = demand.gang
        name = named_parts.workload(gang)
        message = f"moved so that {name} of queue {gang.queue} can start; it restarts in reserved capacity"
        for each in plan.moved:
            with self._session.statement() as statement:
                statement.evict(
                    gang=self._session.gangs[each.unit.gang.id],
                    pods=each.unit.pods,
                    reason=EvictionReason.CONSOLIDATED,
                    message=message,
                    beneficiary=str(gang),
                )
        self._evict_others(demand)
        moved = {each.unit.gang.id: self._move(each) for each in plan.moved}
        others = [pod for each in self._evicted for pod in each.pods]
        self._moves.begin(gang, plan.usage, moved, others)
        self._session.refuse(gang, _verdict(gang, _report_of(gang, plan, 0, is_executed=True), others))

    def _evict_others(self, demand: Demand) -> None:
        """Evict the victims beside the moves, one statement for each gang."""
        gang, causes = demand.gang, self._causes(demand)
        by_gang: dict[GangId, list[Pod]] = {}
        for victim in self._evicted:
            by_gang.setdefault(victim.gang.id, []).extend(victim.pods)
        for gang_id, pods in by_gang.items():
            with self._session.statement() as statement:
                statement.evict(
                    gang=candidate(gang_id, self._session),
                    pods=pods,
                    reason=EvictionReason.PREEMPTED,
                    message=formatting.evicted_for(gang, causes[gang_id]),
                    beneficiary=str(gang),
                )

    def _causes(self, demand: Demand) -> dict[GangId, str]:
        beneficiary, hooks = beneficiary_of(demand), self._session.hooks
        return {each.gang.id: hooks.explain_eviction(each.gang, beneficiary) for each in self._evicted}

    def _move(self, moved: Moved) -> Move:
        gang = moved.unit.gang
        _, controller, shape = (
            kind_of(moved.unit.demand.gang.members[0]) if gang.kind is GangKind.POD else ("", "", "")
        )
        return Move(
            queue=gang.queue,
            namespace=gang.namespace,
            usage=moved.usage,
            pods=tuple(pod.uid for pod in moved.unit.pods),
            until=self._now + self._session.config.retry.nomination_ms,
            controller=controller,
            shape=ShapeKey(shape),
            apart=apart_of(moved.assignments),
            devices=in_order(moved.devices),
        )

    def _nominate(self, demand: Demand, plan: CheckedMovePlan) -> None:
        """Nominate the capacity that the moves free, as after a preemption."""
        cycle, gang = self._cycle, demand.gang.id
        nomination = Nomination(
            usage=plan.usage,
            members=plan.members,
            devices=in_order(plan.devices),
            victims=(
                *(pod.uid for moved in plan.moved for pod in moved.unit.pods),
                *(pod.uid for each in self._evicted for pod in each.pods),
            ),
            causes=self._causes(demand),
            decided=self._now,
            queue=demand.gang.queue,
            until=self._now + self._session.config.retry.nomination_ms,
            attempts=self._nominations.attempts(gang) + 1,
        )
        moved = {moved.unit.gang.id: gang for moved in plan.moved}
        moved.update({ended.id: gang for ended in gangs_ended_by(self._evicted)})
        cycle.memory = replace(
            cycle.memory,
            nominations=dict(sorted({**cycle.memory.nominations, gang: nomination}.items())),
            preempted=dict(sorted({**cycle.memory.preempted, **moved}.items())),
        )
        cycle.nominated = (*cycle.nominated, *nominate(plan.assignments, self._session.cycle))

    def _report(self, demand: Demand, plan: CheckedMovePlan) -> None:
        """Report a plan once, and again only when it moves other gangs or uses other nodes."""
        report = _report_of(demand.gang, plan, self._session.cycle, is_executed=not self._config.dry_run)
        known = self._session.snapshot.memory.proposed_plans.get(demand.gang.id)
        if known is None or known.moves != report.moves:
            self._plans.append(report)
        if self._config.dry_run:
            self._proposed[demand.gang.id] = report

    def _still_waiting(self) -> dict[GangId, int]:
        """Gangs for which no moves are searched yet, with the time (ms) of the next search."""
        known = self._session.snapshot.memory.next_move_search
        return {gang: at for gang, at in known.items() if self._now < at and self._is_waiting(gang)}

    def _is_waiting(self, gang: GangId) -> bool:
        """Whether it does not fit, or the cycle does not look at it."""
        session = self._session
        is_unseen = gang in session.snapshot.gangs and gang not in session.gangs
        return is_unseen or gang in self._outcome.failures

    def _still_proposed(self) -> dict[GangId, MovePlan]:
        known = self._session.snapshot.memory.proposed_plans
        return {gang: plan for gang, plan in known.items() if gang in self._next_search}


def _note_on(plan: MovePlan) -> tuple[Evidence, ...]:
    """Evidence of a plan that was found in a dry run."""
    some = plan.moves[:SHOWN_VICTIMS]
    return (
        Evidence("dry run of moves", f"the gang fits if {_moved(plan)} move; {_quality(plan)}"),
        *(_move_of(each, "would go") for each in some),
    )


def _verdict(gang: Gang, plan: MovePlan, evicted: Sequence[Pod]) -> Verdict:
    """The verdict of the gang while gangs move for it, and while pods are evicted beside them."""
    some = plan.moves[:SHOWN_VICTIMS]
    beside = f" and {formatting.pods(len(evicted))} to be evicted" if evicted else ""
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.EVICTION_IN_PROGRESS,
        message=f"{_moved(plan)} to be moved{beside} must terminate first",
        evidence=(
            *(Evidence(named_parts.workload(pod), "is being evicted") for pod in evicted[:SHOWN_VICTIMS]),
            *(_move_of(each, "is moved") for each in some),
            Evidence("choice of moves", _quality(plan)),
        ),
        next_step="Wait: the gang starts when they have terminated, within their grace periods",
    )


def _move_of(moved: MovedGang, how: str) -> Evidence:
    return Evidence(named_parts.workload(moved.group), f"{how} to {formatting.named_nodes(moved.nodes)}")


def _moved(plan: MovePlan) -> str:
    gangs = "1 gang" if len(plan.moves) == 1 else f"{len(plan.moves)} gangs"
    return f"{formatting.pods(plan.pods)} of {gangs}"


def _quality(plan: MovePlan) -> str:
    if plan.pods > plan.pods_bound:
        return f"at least {formatting.pods(plan.pods_bound)} must move (lower bound)"
    if plan.cost > plan.cost_bound:
        return f"fewest pods; cost {plan.cost}, lower bound {plan.cost_bound}"
    return f"fewest pods; cost {plan.cost}, proven optimal"


def _report_of(gang: Gang, plan: CheckedMovePlan, cycle: int, *, is_executed: bool) -> MovePlan:
    result = plan.result
    assert result.plan is not None
    return MovePlan(
        gang=gang.id,
        group=str(gang),
        cycle=cycle,
        moves=tuple(_moved_gang(each) for each in plan.moved),
        pods=result.plan.pods,
        pods_bound=result.pods_bound,
        cost=result.plan.cost,
        cost_bound=result.cost_bound,
        is_executed=is_executed,
    )


def _moved_gang(moved: Moved) -> MovedGang:
    counts: Counter[NodeName] = Counter()
    for node, pods in moved.assignments:
        counts[node] += len(pods)
    gang = moved.unit.gang
    return MovedGang(gang.id, str(gang), len(moved.unit.pods), dict(sorted(counts.items())))
