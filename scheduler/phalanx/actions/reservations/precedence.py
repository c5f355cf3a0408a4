"""Which of the starts that are reserved a demand must not delay."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.reservations.reservations import NOT_RESERVED, Reservation
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues import guarantees
from phalanx.framework.session import Session
from phalanx.model.names import GangId, QueueName


def binding(reserved: Iterable[Reservation], demand: Demand, session: Session) -> tuple[Reservation, ...]:
    """Those of its rank that were promised before, unless its queue comes first; none for a repair."""
    reserved = tuple(reserved)
    if not reserved or demand.stage is Stage.REPAIR:
        return ()
    mine = next((each.precedence for each in reserved if each.gang == demand.gang.id), None)
    precedence = mine or (rank_of(demand.gang, session), NOT_RESERVED)
    return tuple(
        each
        for each in reserved
        if each.precedence < precedence and not _is_served_before(session, demand.gang.queue, each.queue)
    )


def in_turn(
    bound: Sequence[Reservation],
    demand: Demand,
    session: Session,
    *,
    passed: Collection[GangId] | None = None,
) -> Iterator[Sequence[Reservation]]:
    """Beside whom to look for room: all that bind it; and then those alone that bind a guarantee too.

    `passed`: where room is being made for it, whose starts did not bind it when that was decided.
    """
    yield bound
    if passed is None:
        firm = _firm(bound, demand, session)
    else:
        firm = [each for each in bound if each.gang not in passed]
    if len(firm) < len(bound):
        yield firm


def _firm(bound: Sequence[Reservation], demand: Demand, session: Session) -> list[Reservation]:
    """Those that bind it though its queue be guaranteed what it asks for."""
    queue = session.queues.get(demand.gang.queue) if bound else None
    beneficiary = beneficiary_of(demand)
    if queue is None or not guarantees.are_within_guarantees((queue,), beneficiary, session):
        return list(bound)
    return [each for each in bound if not _is_guaranteed_before(beneficiary, each, session)]


def _is_served_before(session: Session, queue: QueueName, other: QueueName) -> bool:
    """Whether the queue has a higher priority than the other one where their ways from the root part."""
    ways = zip(reversed(session.queues.path(queue)), reversed(session.queues.path(other)), strict=False)
    return next((mine.priority > theirs.priority for mine, theirs in ways if mine.name != theirs.name), False)


def _is_guaranteed_before(beneficiary: Beneficiary, reserved: Reservation, session: Session) -> bool:
    """Whether it stays within what its queue is guaranteed, and the reserved start would not."""
    queue, other = beneficiary.gang.queue, reserved.queue
    mine, theirs = (
        guarantees.below_common_ancestor(queue, other, session),
        guarantees.below_common_ancestor(other, queue, session),
    )
    if not mine or not theirs or not guarantees.are_within_guarantees(mine, beneficiary, session):
        return False
    return not guarantees.are_within_guarantees(theirs, reserved.wants, session)
