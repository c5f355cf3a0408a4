"""Step 2: which gangs may be tried, and in which order. The others get their verdict at once."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from phalanx.actions import words
from phalanx.actions.demands.agenda import Agenda
from phalanx.actions.demands.demand import Demand, Stage, demands_of
from phalanx.actions.evictions.nominations import Nominations
from phalanx.actions.evictions.troubles import Troubles, restart_of
from phalanx.actions.moves.moves import Moves
from phalanx.actions.reservations import claims as claims_of
from phalanx.actions.reservations.claims import Claims
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import Seated
from phalanx.model.reasons import Problem, Reason, Verdict

CLAIMED_NEVERTHELESS: Final = (
    Reason.MEMBERS_MISSING,
    Reason.HELD_AFTER_FAILURE,
    Reason.SCHEDULING_GATED,
    Reason.VOLUME_NOT_BOUND,
)
"""What a gang soon overcomes; any other objection means that it does not come back as it is."""


def execute(
    session: Session, troubles: Troubles, claims: Claims, nominations: Nominations, moves: Moves
) -> Agenda:
    """The demands of every gang that lacks members and that nothing holds back."""
    demands = tuple(_demands(session, troubles, claims))
    if all(demand.cause == claims_of.CAUSE for demand in demands):
        return Agenda(session, ())  # room is kept from somebody, and nobody is there
    kept = [(demand.gang.id, demand.count) for demand in demands if demand.cause == claims_of.CAUSE]
    if session.health.is_open:
        session.circumstances.append(sorted(session.health.distrusted))
    if kept:
        session.circumstances.append(kept)
    if nominations.open:
        session.circumstances.append(nominations.content())
    if moves.open:
        session.circumstances.append(moves.content())
    return Agenda(session, demands, ahead=nominations.open, then=moves.open)


def _demands(session: Session, troubles: Troubles, claims: Claims) -> Iterator[Demand]:
    concerned = {gang.id for gang in session.waiting} | claims.open.keys() | claims.ended.keys()
    for gang in [session.gangs[name] for name in sorted(concerned)]:
        claim = claims.open.get(gang.id)
        found: Problem | tuple[Demand, ...] = ()
        if gang.has_waiting:
            found = (
                session.objection(gang)
                or _eviction(gang, session)
                or _restart(gang, troubles)
                or demands_of(gang)
            )
        if isinstance(found, Problem):
            session.refuse(gang, verdict_of(gang, found))
            if claim is not None and found.reason in CLAIMED_NEVERTHELESS:
                yield from _claim(gang, claim, ())
        elif claim is None:
            if not found and gang.id in claims.ended:
                _tell_ended(gang, claims.ended[gang.id], session)
            yield from found
        else:
            minimum = [_ahead(demand) for demand in found if demand.stage is not Stage.SURPLUS]
            yield from minimum
            yield from _claim(gang, claim, minimum)
            yield from (demand for demand in found if demand.stage is Stage.SURPLUS)


def _tell_ended(gang: Gang, seated: Seated, session: Session) -> None:
    problem = claims_of.why_ended(gang, seated)
    if problem is not None:
        session.refuse(gang, verdict_of(gang, problem))


def _ahead(demand: Demand) -> Demand:
    """What a claim is for goes where repairs go, be it all that the gang has."""
    return replace(demand, stage=Stage.REPAIR)


def _claim(gang: Gang, claim: Seated, demands: Iterable[Demand]) -> Iterator[Demand]:
    demanded = [pod for demand in demands for batch in demand.batches for pod in batch.pods]
    demand = claims_of.demand_of(gang, claim, demanded)
    if demand is not None:
        yield demand


def _eviction(gang: Gang, session: Session) -> Problem | None:
    """What is made anew of a gang that was evicted waits until all of the old one is being deleted.

    Whoever wants new pods only when the old ones have ended makes them then; some never end.
    """
    by = session.preempted.get(gang.id)
    old = [pod for pod in gang.members if pod.holds_node] if by is not None else []
    left = len(old)
    may_begin = all(pod.deleting for pod in old) and any(pod.is_waiting for pod in gang.members)
    if by is None or not left or may_begin:
        return None
    beneficiary = session.gangs.get(by)
    return Problem(
        reason=Reason.PREEMPTED,
        message=f"evicted in favour of {beneficiary or 'another gang'}: "
        f"{words.pods(left)} must give back their nodes first",
        next_step="It starts anew by itself when there is room",
    )


def _restart(gang: Gang, troubles: Troubles) -> Problem | None:
    """What is made anew waits until all is: else old and new members would mix."""
    trouble = restart_of(troubles, gang)
    if trouble is None:
        return None
    orphans = sum(1 for pod in trouble.victims if pod.controller is None)
    if orphans:
        return Problem(
            reason=Reason.HELD_AFTER_FAILURE,
            message=f"the gang should be restarted because {trouble.cause}, but {words.pods(orphans)} of it "
            "have no controller that would make them again and are not deleted",
            next_step="Delete all pods of the gang and create them again",
        )
    return Problem(
        reason=Reason.RECOVERING,
        message=f"the gang is restarted because {trouble.cause}: "
        f"{words.pods(len(trouble.victims))} must give back their nodes first",
        next_step="It starts anew by itself; spec.recovery says when it is restarted",
    )


def verdict_of(gang: Gang, problem: Problem) -> Verdict:
    """The verdict on a gang whose objects, or whose queue's, do not let it be tried."""
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=problem.reason,
        message=problem.message,
        next_step=problem.next_step,
    )
