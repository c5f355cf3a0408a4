"""Consolidate: move gangs so that others fit into capacity that is free but scattered.

For a gang that does not fit, it searches the fewest moves with which it fits: gangs that are evicted and for
all of which there is capacity elsewhere at the same time. The freed capacity is nominated as in preemption;
the moved gangs have their new capacity held (`consolidation/moves.py`). Nothing is moved in a cycle that
evicts, while the breaker is open, or after nodes became faulty. In a dry run the plan is only reported.
"""

from collections import Counter

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.consolidation.movable_gangs import MovablePool, is_plain
from phalanx.actions.consolidation.move_planner import Moved, MovePlanner, TriedMovePlan
from phalanx.actions.consolidation.moves import kind_of
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.limits import (
    CONSOLIDATIONS_TRIED_MAX,
    CYCLE_MOVES_LIMIT,
    SHOWN_VICTIMS,
)
from phalanx.actions.outcome import Failure
from phalanx.actions.preemption.eviction_limits import limits_of
from phalanx.actions.preemption.nominations import nominate
from phalanx.actions.preemption.victims import assume_terminated
from phalanx.actions.reservations.reservations import hold
from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.limits import MOVE_DETERMINISTIC_LIMIT
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Move, MovedGang, MovePlan, Nomination
from phalanx.model.names import GangId, NodeName, ShapeKey
from phalanx.model.reasons import Evidence, Reason, Verdict


def execute(cycle: Cycle) -> None:
    """Make, or propose, moves."""
    step = _Consolidation(cycle)
    if _is_quiet(cycle.session):
        step.look()
    step.close()


def _is_quiet(session: Session) -> bool:
    """Whether this cycle evicts nothing so far, and no node became faulty lately."""
    since = session.snapshot.now - session.config.tolerance.breaker_window_ms
    records = session.health.records.values()
    has_turned = any(not each.good and each.since and each.since > since for each in records)
    return session.may_evict and not session.evictions and not has_turned


class _Consolidation:
    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._session = session = cycle.session
        self._outcome = cycle.outcome
        self._moves = cycle.moves
        self._nominations = cycle.nominations
        self._pool = MovablePool(session, cycle.nominations, cycle.moves)
        self._config = session.config.consolidation
        self._now = session.snapshot.now
        self._effort = CYCLE_MOVES_LIMIT
        self._next_search = self._still_waiting()
        self._proposed = self._still_proposed()
        self._made: tuple[Demand, TriedMovePlan] | None = None
        self._plans: list[MovePlan] = []
        self._is_complete = True

    def look(self) -> None:
        """Search moves for each failed gang in order, until a plan is executed."""
        planner = MovePlanner(self._session)
        tried = 0
        for failure in self._outcome.failures.values():
            gang = failure.demand.gang
            if not self._may_try(failure):
                continue
            if tried == CONSOLIDATIONS_TRIED_MAX:
                self._is_complete = False
                break
            tried += 1
            self._next_search[gang.id] = self._now + self._config.interval_ms
            made = self._isolated_plan(failure.demand, planner)
            if made is None:
                continue
            self._report(failure.demand, made)
            if not self._config.dry_run:
                self._made = (failure.demand, made)
                self._execute(failure.demand, made)
                break

    def close(self) -> None:
        """Leave to the next cycle what was decided, and what of the old is still true."""
        cycle, moves = self._cycle, self._moves.left()
        cycle.memory = replace(
            cycle.memory,
            moves=moves,
            next_move_search=dict(sorted(self._next_search.items())),
            proposed_plans=dict(sorted(self._proposed.items())),
        )
        cycle.plans = tuple(self._plans)
        cycle.notes = {gang: _note_on(plan) for gang, plan in self._proposed.items()}
        if self._made is not None:
            self._nominate(*self._made)
        due = min([*self._next_search.values(), *(move.until for move in moves.values())], default=None)
        cycle.wake_at(due if self._is_complete else self._now)

    # --- who is helped --------------------------------------------------------------------------------------

    def _may_try(self, failure: Failure) -> bool:
        """Whether it is a whole start that does not fit, may preempt, and is blocked by nothing else."""
        demand, gang = failure.demand, failure.demand.gang
        if not failure.tried or failure.objection is not None or failure.blocked_by is not None:
            return False
        if demand.stage is not Stage.START or not demand.is_whole or not gang.may_preempt:
            return False
        if (
            gang.id in self._next_search
            or self._moves.is_served(gang.id)
            or gang.id in self._session.verdicts
        ):
            return False
        shapes = [batch.pods[0].shape for batch in demand.batches]
        if not all(is_plain(shape, self._session) for shape in shapes):
            return False
        return not self._is_being_helped(gang.id) and self._is_enough_free(demand)

    def _is_being_helped(self, gang: GangId) -> bool:
        """Whether capacity is nominated for it, or it rests after nominations in vain."""
        return gang in self._nominations.open or self._nominations.rests_until(gang) is not None

    def _is_enough_free(self, demand: Demand) -> bool:
        """Whether enough of each resource is free in the whole cluster."""
        asked = total_requests([pod for batch in demand.batches for pod in batch.pods])
        return all(
            amount <= sum(max(0, self._session.free(node).get(name, 0)) for node in self._session.nodes)
            for name, amount in asked.items()
        )

    def _isolated_plan(self, demand: Demand, planner: MovePlanner) -> TriedMovePlan | None:
        return self._outcome.isolate_errors(
            lambda: self._plan(demand, planner),
            about=f"moves for {demand.gang}",
        )

    def _plan(self, demand: Demand, planner: MovePlanner) -> TriedMovePlan | None:
        """Search beside the reservations of others; None if it is enough to wait for pods that terminate."""
        with self._session.statement() as trial:
            hold(self._outcome.reserved_for_others(demand.gang.id), trial)
            made = None if self._fits_soon(demand, planner) else self._plan_now(demand, planner)
            trial.roll_back()
        return made

    def _plan_now(self, demand: Demand, planner: MovePlanner) -> TriedMovePlan | None:
        """None also if each gang of the plan may go, but not all of them together."""
        limits = limits_of(self._session, self._pool.on_their_way)
        made, spent = planner.plan(
            demand,
            [unit for unit in self._pool.units_for(demand.gang) if not limits.on([unit])],
            moves_max=self._config.moves_max - len(self._moves.open),
            effort=min(self._effort, MOVE_DETERMINISTIC_LIMIT),
        )
        self._effort -= spent
        return made if made is None or not limits.on([each.unit for each in made.moved]) else None

    def _fits_soon(self, demand: Demand, planner: MovePlanner) -> bool:
        with self._session.statement() as trial:
            assume_terminated(self._session, trial)
            fits = planner.fits(demand)
            trial.roll_back()
        return fits

    # --- what is done and told ------------------------------------------------------------------------------

    def _execute(self, demand: Demand, made: TriedMovePlan) -> None:
        """Evict all gangs of the plan, each one whole, and hold all capacity from now on."""
        gang = demand.gang
        message = f"moved so that {gang} of queue {gang.queue} can start; it restarts in reserved capacity"
        for each in made.moved:
            with self._session.statement() as statement:
                statement.evict(
                    gang=self._session.gangs[each.unit.gang.id],
                    pods=each.unit.pods,
                    reason=EvictionReason.CONSOLIDATED,
                    message=message,
                    beneficiary=str(gang),
                )
        moved = {each.unit.gang.id: self._move(each) for each in made.moved}
        self._moves.begin(gang, made.usage, moved)
        self._session.refuse(gang, _verdict(gang, self._plans[-1]))

    def _move(self, moved: Moved) -> Move:
        gang = moved.unit.gang
        _, controller, shape = kind_of(moved.unit.pods[0]) if gang.kind is GangKind.POD else ("", "", "")
        return Move(
            queue=gang.queue,
            namespace=gang.namespace,
            usage=moved.usage,
            pods=tuple(pod.uid for pod in moved.unit.pods),
            until=self._now + self._session.config.retry.nomination_ms,
            controller=controller,
            shape=ShapeKey(shape),
        )

    def _nominate(self, demand: Demand, made: TriedMovePlan) -> None:
        """Nominate the capacity that the moves free, as after a preemption."""
        cycle, gang = self._cycle, demand.gang.id
        nomination = Nomination(
            usage=made.usage,
            victims=tuple(pod.uid for moved in made.moved for pod in moved.unit.pods),
            decided=self._now,
            until=self._now + self._session.config.retry.nomination_ms,
            attempts=self._nominations.attempts(gang) + 1,
        )
        moved = {moved.unit.gang.id: gang for moved in made.moved}
        cycle.memory = replace(
            cycle.memory,
            nominations=dict(sorted({**cycle.memory.nominations, gang: nomination}.items())),
            preempted=dict(sorted({**cycle.memory.preempted, **moved}.items())),
        )
        cycle.nominated = (*cycle.nominated, *nominate(made.seats, self._session.cycle))

    def _report(self, demand: Demand, made: TriedMovePlan) -> None:
        """Report a plan once, and again only when it moves other gangs or uses other nodes."""
        plan = _plan_of(demand.gang, made, self._session.cycle, is_executed=not self._config.dry_run)
        known = self._session.snapshot.memory.proposed_plans.get(demand.gang.id)
        if known is None or known.moves != plan.moves:
            self._plans.append(plan)
        if self._config.dry_run:
            self._proposed[demand.gang.id] = plan

    def _still_waiting(self) -> dict[GangId, int]:
        """Gangs for which the next search is not due."""
        known = self._session.snapshot.memory.next_move_search
        return {gang: at for gang, at in known.items() if gang in self._outcome.failures and self._now < at}

    def _still_proposed(self) -> dict[GangId, MovePlan]:
        known = self._session.snapshot.memory.proposed_plans
        return {gang: plan for gang, plan in known.items() if gang in self._next_search}


def _note_on(plan: MovePlan) -> tuple[Evidence, ...]:
    """Evidence of a plan that is not executed."""
    some = plan.moves[:SHOWN_VICTIMS]
    return (
        Evidence("dry run of moves", f"the gang fits if {_moved(plan)} move; {_quality(plan)}"),
        *(Evidence(each.group, f"would go to {formatting.listed(each.nodes)}") for each in some),
    )


def _verdict(gang: Gang, plan: MovePlan) -> Verdict:
    some = plan.moves[:SHOWN_VICTIMS]
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.EVICTION_IN_PROGRESS,
        message=f"waiting until {_moved(plan)} that move for it have terminated",
        evidence=(
            *(Evidence(each.group, f"is moved to {formatting.listed(each.nodes)}") for each in some),
            Evidence("choice of moves", _quality(plan)),
        ),
        next_step="Wait: the gang starts when they have terminated, within their grace periods",
    )


def _moved(plan: MovePlan) -> str:
    gangs = "1 gang" if len(plan.moves) == 1 else f"{len(plan.moves)} gangs"
    return f"{formatting.pods(plan.pods)} of {gangs}"


def _quality(plan: MovePlan) -> str:
    if plan.pods > plan.pods_bound:
        return f"at least {formatting.pods(plan.pods_bound)} must move (lower bound)"
    if plan.cost > plan.cost_bound:
        return f"fewest pods; cost {plan.cost}, lower bound {plan.cost_bound}"
    return f"fewest pods; cost {plan.cost}, proven optimal"


def _plan_of(gang: Gang, made: TriedMovePlan, cycle: int, *, is_executed: bool) -> MovePlan:
    planned = made.planned
    assert planned.plan is not None
    return MovePlan(
        gang=gang.id,
        group=str(gang),
        cycle=cycle,
        moves=tuple(_moved_gang(each) for each in made.moved),
        pods=planned.plan.pods,
        pods_bound=planned.pods_bound,
        cost=planned.plan.cost,
        cost_bound=planned.cost_bound,
        is_executed=is_executed,
    )


def _moved_gang(moved: Moved) -> MovedGang:
    counts: Counter[NodeName] = Counter()
    for node, pods in moved.seats:
        counts[node] += len(pods)
    gang = moved.unit.gang
    return MovedGang(gang.id, str(gang), len(moved.unit.pods), dict(sorted(counts.items())))
