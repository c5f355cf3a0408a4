"""Give starts of this cycle up for a gang that may evict, and start that gang instead.

Nothing of a start has been sent yet. A gang whose start is given up is as if this cycle had not tried it: its
pods wait, its queue is not charged, nothing is held for its members to come, and it has the start again that
backfill had reserved for it. Its verdict names the other gang. `docs/preemption.md` has the rule for users.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage, remaining_demand, whole_demand
from phalanx.actions.outcome import Failure, Outcome
from phalanx.actions.preemption.decision import Decision
from phalanx.actions.preemption.nominations import beyond
from phalanx.actions.preemption.victims import Victim, usage_of_pods
from phalanx.actions.problems.capacity_holders import charged
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.reservations.reservations import Reservation, binding, hold
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import Assignments
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import NONE, Resources, add


def give_up(cycle: Cycle, starts: Sequence[Victim], instead: Gang, causes: Mapping[GangId, str]) -> None:
    """Give these starts up for a gang that may evict them, for these causes."""
    for start in starts:
        _take_back(cycle.session, start)
    gone = {pod.uid for start in starts for pod in start.pods}
    outcome, steps = cycle.outcome, cycle.outcome.steps
    outcome.steps = []
    for placement, statement in steps:
        demand, pods = placement.demand, {pod.uid for _, some in placement.assignments for pod in some}
        if gone.isdisjoint(pods):
            outcome.steps.append((placement, statement))
            continue
        _fail(outcome, demand, _objection(instead, causes[demand.gang.id]))
        left = _without(placement.assignments, gone)
        if left and demand.stage is not Stage.START:
            outcome.steps.append((replace(placement, assignments=left), statement))


def start_instead(cycle: Cycle, decision: Decision, others: Sequence[Decision]) -> bool:
    """Start a gang that others were given up for; return whether it fits.

    It starts beside what other decisions nominate, and beside the reservations that bind it. What an earlier
    cycle nominated for it is free again. What it requests besides this demand is tried in the next cycle.
    """
    outcome, gang = cycle.outcome, decision.demand.gang
    bound = binding(outcome.reserved, decision.demand, cycle.session)
    respected = [each for each in bound if each.gang not in decision.passed]
    with cycle.session.statement() as statement:
        if gang.id in cycle.nominations.open:
            cycle.nominations.give_up(gang, statement)
        placement = _placement(cycle.session, whole_demand(decision.demand), others, respected)
        if placement is None:
            statement.roll_back()
            return False
    outcome.steps.append((placement, apply_placement(cycle.session, placement)))
    outcome.reserved = tuple(each for each in outcome.reserved if each.gang != gang.id)
    failed = outcome.failures.pop(gang.id).demand
    rest = remaining_demand(failed, (pod for _, pods in placement.assignments for pod in pods))
    if rest.batches:
        outcome.failures[gang.id] = Failure(rest)
    return True


def postpone_others(outcome: Outcome) -> None:
    """Let the next cycle try the gangs that did not fit before starts were given up: they may fit now."""
    for gang, failure in outcome.failures.items():
        if failure.is_new and failure.blocked_by is None:
            objection = Objection(
                reason=Reason.NOT_TRIED_YET,
                message="did not fit before starts of other gangs were given up",
                next_step="Wait: the next cycle tries it again",
            )
            outcome.failures[gang] = Failure(failure.demand, objection=objection)


def _placement(
    session: Session, demand: Demand, others: Sequence[Decision], bound: Sequence[Reservation]
) -> DemandPlacement | None:
    """A placement of the whole demand; None if it does not fit."""
    placer = Placer(session, ProblemBuilder(session))
    found: DemandPlacement | None = None
    with session.respecting_nominations(demand.gang), session.statement() as trial:
        hold(bound, trial)
        for each in others:
            _nominate(each, trial)
        taken = placer.place_whole(demand)
        if taken is not None:
            found = placer.placement(demand, taken)
        trial.roll_back()
    return found


def _take_back(session: Session, start: Victim) -> None:
    """Give the placement up, and what is held for members of the gang that do not exist yet."""
    used, booked = usage_of_pods(start.pods, session)
    holds = [each for each in session.capacity_holds if start.whole and each.gang.id == start.gang.id]
    with session.statement() as statement:
        for each in holds:
            statement.release_hold(each)
        statement.give_up(gang=session.gangs[start.gang.id], pods=start.pods, used=used, booked=booked)


def _without(assignments: Assignments, gone: Collection[PodUid]) -> Assignments:
    kept = [(node, tuple(pod for pod in pods if pod.uid not in gone)) for node, pods in assignments]
    return [(node, pods) for node, pods in kept if pods]


def _fail(outcome: Outcome, demand: Demand, objection: Objection) -> None:
    """Note that the demand waits again. Surplus whose rest has failed already keeps that verdict."""
    gang = demand.gang.id
    if demand.stage is Stage.START or gang not in outcome.failures:
        outcome.failures[gang] = Failure(demand, objection=objection)
    before = outcome.used_reservations.get(gang)
    if before is not None:
        reserved = (*outcome.reserved, before)
        outcome.reserved = tuple(sorted(reserved, key=lambda each: each.precedence))


def _objection(instead: Gang, cause: str) -> Objection:
    return Objection(
        reason=Reason.PREEMPTED,
        message=f"its start was given up for {named_parts.titled(f'gang {instead}')}: {cause}",
        next_step="Wait: the next cycle tries it again",
    )


def _nominate(decision: Decision, trial: Statement) -> None:
    """Take what a gang will use beyond what its victims still hold."""
    gang, plan = decision.demand.gang, decision.plan
    held: dict[NodeName, Resources] = {}
    for victim in plan.evicted:
        for node, amounts in victim.used.items():
            held[node] = add(held.get(node, NONE), amounts)
    usage = beyond(plan.usage, held)
    trial.nominate(queue=gang.queue, usage=usage, booked=charged(usage), expected=plan.assignments)
