"""Enqueue: order the demands of the gangs that may be tried. The other gangs get their verdict at once."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.demand_queue import DemandQueue
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.actions.member_losses import MemberLosses, pending_restart
from phalanx.actions.reservations import capacity_holds
from phalanx.actions.reservations.held_assignments import charges_of
from phalanx.framework.session import Session
from phalanx.framework.states import GangState
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import ALSO, Category, Evidence, Objection, Reason, Verdict

HELD_DESPITE: Final = (
    Reason.MEMBERS_MISSING,
    Reason.BACKOFF_AFTER_FAILURE,
    Reason.UNMANAGED_PODS,
    Reason.SCHEDULING_GATED,
    Reason.VOLUME_NOT_BOUND,
    Reason.RESOURCE_CLAIM_NOT_READY,
)
"""Objections that usually end soon. Any other objection ends a capacity hold."""


def execute(cycle: Cycle) -> None:
    """Queue the demands of every gang that lacks members and to which there is no objection."""
    session, nominations, moves = cycle.session, cycle.nominations, cycle.moves
    demands = [*_demands(cycle), *_first_demands_of_crowded_queues(cycle)]
    if all(demand.cause == capacity_holds.CAUSE for demand in demands):
        return  # no pod waits that could take the held capacity
    held = [(demand.gang.id, demand.count) for demand in demands if demand.cause == capacity_holds.CAUSE]
    if session.health.is_open:
        session.retry_key.append(sorted(session.health.distrusted))
    if held:
        session.retry_key.append(held)
    if nominations.open:
        session.retry_key.append(nominations.content())
    if moves.open:
        session.retry_key.append(moves.content())
    charges = {gang: charges_of(cycle.capacity_holds.open[gang], gang, session) for gang, _ in held}
    cycle.demand_queue = DemandQueue(
        session,
        demands,
        nominated=nominations.open,
        moved=moves.open,
        held=charges,
        more=partial(_more_demands, cycle),
        equal=partial(_equal_demands, cycle),
    )


def _first_demands_of_crowded_queues(cycle: Cycle) -> Iterator[Demand]:
    for name in cycle.backlog.crowded:
        yield from _more_demands(cycle, name)


def _more_demands(cycle: Cycle, name: QueueName) -> list[Demand]:
    """Demands of the next gangs of a crowded queue; empty if the cycle tries no more of them."""
    selection = cycle.backlog.crowded.get(name)
    cycle.backlog.note_placements(cycle.session.placements)
    while selection is not None and (gangs := selection.more()):
        cycle.session.add_gangs(gang for gang in gangs if gang.id not in cycle.session.gangs)
        demands = list(_demands_of(cycle, [gang.id for gang in gangs]))
        if demands:
            return demands
    return []


def _equal_demands(cycle: Cycle, tried: Demand) -> list[Demand]:
    """Demands of the next gangs that are equal to the gang of this demand, if that one was placed."""
    if tried.stage is not Stage.START or cycle.session.gang_state(tried.gang) is not GangState.PLACED:
        return []
    gangs = cycle.backlog.equal_gangs_after(tried.gang)
    if not gangs:
        return []
    cycle.session.add_gangs(gangs)
    return list(_demands_of(cycle, [gang.id for gang in gangs]))


def _demands(cycle: Cycle) -> Iterator[Demand]:
    session, holds, crowded = cycle.session, cycle.capacity_holds, cycle.backlog.crowded
    in_crowded = [gang for gang in session.waiting if gang.queue in crowded]
    later = {gang.id for gang in in_crowded if crowded[gang.queue].waits(gang.id)}
    concerned = {gang.id for gang in session.waiting} | holds.open.keys() | holds.ended.keys()
    yield from _demands_of(cycle, sorted(concerned - later))


def _demands_of(cycle: Cycle, gangs: Iterable[GangId]) -> Iterator[Demand]:
    session, holds = cycle.session, cycle.capacity_holds
    for gang in [session.gangs[name] for name in gangs]:
        hold = holds.open.get(gang.id)
        found: Objection | tuple[Demand, ...] = ()
        if gang.has_waiting:
            found = (
                session.objection(gang)
                or _eviction_objection(gang, session)
                or _restart_objection(gang, cycle.member_losses)
                or cycle.backlog.objection_to_oversized(gang)
                or demands_of(gang, session.records.of(gang), session.can_run)
            )
        if isinstance(found, Objection):
            found = _with_others(gang, found, session)
            cycle.backlog.objected(gang, found, lasts=session.hooks.are_answers_lasting)
            session.refuse(gang, verdict_of(gang, found))
            if hold is not None and found.reason in HELD_DESPITE:
                yield from _hold_demand(gang, hold, (), session)
        elif hold is None:
            if not found and gang.id in holds.ended:
                _report_expired(gang, holds.ended[gang.id], session)
            yield from found
        else:
            minimum = [demand for demand in found if demand.stage is not Stage.SURPLUS]
            yield from minimum
            yield from _hold_demand(gang, hold, minimum, session)
            yield from (demand for demand in found if demand.stage is Stage.SURPLUS)


def _with_others(gang: Gang, first: Objection, session: Session) -> Objection:
    """With all that somebody must correct beside it. What only ends with time is left out."""
    if first.reason.category is not Category.MISCONFIGURED:
        return first
    wrong = [*gang.problems, *session.hooks.objections(gang)]
    texts = {each.message: each.reason for each in wrong if each.reason.category is not Category.WAITING}
    if not gang.problems and not gang.is_complete and not gang.is_gated:
        lacking = demands_of(gang, session.records.of(gang), session.can_run)
        texts |= {lacking.message: lacking.reason} if isinstance(lacking, Objection) else {}
    texts.pop(first.message, None)
    others = tuple(Evidence(ALSO, f"{reason.value}: {text}") for text, reason in texts.items())
    return replace(first, others=others) if others else first


def _report_expired(gang: Gang, composition: GangComposition, session: Session) -> None:
    objection = capacity_holds.expiry_objection(gang, composition, session)
    if objection is not None:
        session.refuse(gang, verdict_of(gang, objection))


def _hold_demand(
    gang: Gang, hold: GangComposition, demands: Iterable[Demand], session: Session
) -> Iterator[Demand]:
    demanded = [pod for demand in demands for batch in demand.batches for pod in batch.pods]
    demand = capacity_holds.demand_of(gang, hold, demanded, session)
    if demand is not None:
        yield demand


def _eviction_objection(gang: Gang, session: Session) -> Objection | None:
    """The objection to new pods of an evicted gang while not all its old pods are being deleted.

    They do not wait until the old pods have terminated, since some pods never terminate.
    """
    by = session.preempted.get(gang.id)
    old = [pod for pod in gang.members if pod.holds_node] if by is not None else []
    left = len(old)
    may_start = all(pod.deleting for pod in old) and any(pod.is_waiting for pod in gang.members)
    if by is None or not left or may_start:
        return None
    beneficiary = session.gangs.get(by)
    name = named_parts.workload(beneficiary) if beneficiary is not None else "another gang"
    return Objection(
        reason=Reason.PREEMPTED,
        message=f"preempted by {name}; {formatting.pods(left)} still to terminate",
        next_step="Wait: the gang starts again by itself when it fits",
    )


def _restart_objection(gang: Gang, member_losses: MemberLosses) -> Objection | None:
    """The objection to new pods until the whole gang is restarted, so that old and new members do not mix."""
    loss = pending_restart(member_losses, gang)
    if loss is None:
        return None
    orphans = sum(1 for pod in loss.victims if pod.controller is None)
    if orphans:
        return Objection(
            reason=Reason.UNMANAGED_PODS,
            message=f"cannot restart after {loss.cause}: {formatting.pods(orphans)} without controller",
            next_step="Delete all pods of the gang and create them again",
        )
    return Objection(
        reason=Reason.RECOVERING,
        message=f"restarting after {loss.cause}; {formatting.pods(len(loss.victims))} still to terminate",
        next_step="Wait: the gang starts again by itself; spec.recovery sets when it restarts",
    )


def verdict_of(gang: Gang, objection: Objection) -> Verdict:
    """The verdict on a gang that is not tried because of this objection."""
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=objection.reason,
        message=objection.message,
        next_step=objection.next_step,
        evidence=objection.others,
    )
