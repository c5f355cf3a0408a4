"""Reservations of waiting gangs, as in EASY backfill, and the capacity profile over time that they leave.

Capacity is counted per resource of a node and per resource of an account of the ledger, as a difference from
now. A gang that ends frees its part. A reserved start takes its part, and frees it after the longest run time
of the gang. A profile is a list of such changes sorted by time; the least capacity between two times is
computed in one pass.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.framework.charges import without_marked
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.guarantees import Coverage, GuaranteeGap
from phalanx.framework.queues.ledger import Account, Ledger
from phalanx.framework.run_times import End, Method
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.limits import RUN_TIME_NOTICE_MS
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

CapacityKey = tuple[NodeName | Account, str]
"""A resource of a node (by name) or of an account."""

CapacityDelta = Mapping[CapacityKey, int]
"""Amounts that a start takes or an end frees."""

Precedence = tuple[Any, ...]
"""Rank, then the order in which starts were reserved; smaller goes first."""

NOT_RESERVED: Final = (1 << 62, 0)
"""The position of a gang without a reservation: after all reservations."""


class EndingGang(Struct, frozen=True):
    """A gang that holds capacity and is expected to end."""

    name: str
    end: End
    usage: Usage
    """What it holds per node."""
    delta: CapacityDelta
    """What its end frees."""
    queue: QueueName = QueueName("")
    pods: tuple[Pod, ...] = ()
    """Its pods that affinity terms concern, with their nodes."""


class Forecast(Struct, frozen=True):
    """Bounds of a reserved start, and what they are based on."""

    earliest: int
    latest: int
    method: Method
    ending: tuple[EndingGang, ...] = ()
    """Some gangs that must end before, the last ones first; empty if it waits for other reservations only."""


class Reservation(Struct, frozen=True):
    """The reserved start of a waiting gang. Times are in milliseconds since the epoch."""

    gang: GangId
    name: str
    queue: QueueName
    precedence: Precedence
    reserved_in: tuple[int, int]
    """The cycle that reserved it first, and the position within that cycle."""
    start: int
    held_from: int
    """The earliest start that was ever reserved for it. From then on no gang of lower precedence may use the
    capacity, even if it would end before the start."""
    end: int | None
    """The end of its longest run; None without a maximum."""
    usage: Usage
    """What it will use per node."""
    delta: CapacityDelta
    """What its start takes."""
    request: Beneficiary
    """What it requests."""
    has_moved: bool = False
    """Whether it is held from a later time because it was late. That happens at most once: then gangs must
    end a while before it."""
    forecast: Forecast | None = None
    """None for a reservation of an earlier cycle that this cycle has not reached yet."""

    @property
    def moves_from(self) -> int:
        """When it has been late for so long that it is held from a later time."""
        return self.held_from + RUN_TIME_NOTICE_MS


def moves(before: Reservation, start: int, now: int) -> bool:
    """Whether a reserved start is held from a later time: for the first time, and a while after it was due.

    A start that is expected soon does not move: nobody could use the capacity until then.
    """
    return not before.has_moved and before.moves_from <= now < start - RUN_TIME_NOTICE_MS


def latest_end(end: int, reservations: Iterable[Reservation]) -> int:
    """When the capacity of a gang that ends then is free, if it has to be evicted after starts have moved."""
    return end + (RUN_TIME_NOTICE_MS if any(each.has_moved for each in reservations) else 0)


def is_exceeded(cell: CapacityKey, more: int, session: Session) -> bool:
    """Whether less than nothing is left of a resource of a node or an account when it changes by `more`."""
    place, name = cell
    if not isinstance(place, tuple):
        return session.free(place).get(name, 0) + more < 0
    queue, selector = place
    limits = [
        limit
        for each in session.queues.path(queue)[:1]
        for limit in (
            [each.limit]
            if selector is None
            else [flavor.limit for flavor in each.flavors if flavor.node_selector == selector]
        )
    ]
    used = session.ledger.usage(queue, selector).get(name, 0)
    return any(name in limit and limit[name] - used + more < 0 for limit in limits)


def hold(reservations: Iterable[Reservation], statement: Statement) -> None:
    """Take the capacity of these starts."""
    for reservation in reservations:
        statement.nominate(queue=reservation.queue, usage=reservation.usage, booked={})


class Exchange(Struct, frozen=True):
    """A start in the place of other gangs within a guarantee, which other queues cannot hold back."""

    respected: tuple[Reservation, ...]
    """The reservations that bind the gang even so."""
    gaps: tuple[GuaranteeGap, ...]
    """What the victims must free."""


class BlockingReservations(Struct, frozen=True):
    """Reservations that keep a demand from free capacity."""

    delayed: tuple[Reservation, ...]
    """The reservations that the demand would delay."""
    free_until: int
    """Time (ms) until which the capacity is free."""


def capacity_delta(queue: QueueName, used: Usage, booked: Usage, ledger: Ledger) -> CapacityDelta:
    """What this usage takes of nodes, and its `booked` part of the accounts of the queue."""
    delta: dict[CapacityKey, int] = {}
    for node, amounts in used.items():
        _add(delta, node, without_marked(amounts))
    for node, amounts in booked.items():
        for account in ledger.accounts(queue, node):
            _add(delta, account, amounts)
    return delta


def _add(delta: dict[CapacityKey, int], place: NodeName | Account, amounts: Resources) -> None:
    for name, amount in amounts.items():
        delta[place, name] = delta.get((place, name), 0) + amount


def split(delta: CapacityDelta) -> tuple[dict[NodeName, dict[str, int]], dict[Account, dict[str, int]]]:
    """The parts of nodes and of accounts."""
    usage: dict[NodeName, dict[str, int]] = {}
    accounts: dict[Account, dict[str, int]] = {}
    for (place, name), amount in delta.items():
        if isinstance(place, tuple):
            accounts.setdefault(place, {})[name] = amount
        else:
            usage.setdefault(place, {})[name] = amount
    return usage, accounts


def least_capacity(
    ending: Iterable[EndingGang],
    reservations: Sequence[Reservation],
    *,
    since: int,
    until: int | None,
    only: Collection[CapacityKey] | None = None,
) -> dict[CapacityKey, int]:
    """The least change of capacity against now in [since, until), per key; absent keys do not change.

    `until` None means for ever. `only` restricts the keys.
    """
    changes = sorted(_changes(ending, reservations), key=lambda change: change[:2])
    if until is not None:
        changes = changes[: bisect_left(changes, until, key=lambda change: change[0])]
    first = bisect_right(changes, since, key=lambda change: change[0])
    capacity: dict[CapacityKey, int] = {}
    for _, _, sign, delta in changes[:first]:
        for key, amount in _only(delta, only):
            capacity[key] = capacity.get(key, 0) + sign * amount
    least = dict(capacity)
    # After the last start only ends follow, which make nothing less.
    last = max((index for index, change in enumerate(changes) if change[2] < 0), default=-1)
    for _, _, sign, delta in changes[first : last + 1]:
        for key, amount in _only(delta, only):
            capacity[key] = left = capacity.get(key, 0) + sign * amount
            if left < least.get(key, 0):
                least[key] = left
    return least


def _only(delta: CapacityDelta, only: Collection[CapacityKey] | None) -> Iterable[tuple[CapacityKey, int]]:
    return delta.items() if only is None else [(key, delta[key]) for key in delta if key in only]


def _changes(
    ending: Iterable[EndingGang], reservations: Iterable[Reservation]
) -> Iterator[tuple[int, int, int, CapacityDelta]]:
    """Time, order at that time (0 before 1), +1 for freed or -1 for taken capacity, and how much."""
    for gang in ending:
        yield gang.end.at, 0, 1, gang.delta
    for each in reservations:
        yield each.held_from, 1, -1, each.delta
        if each.end is not None:
            yield each.end, 0, 1, each.delta


def moments(ending: Iterable[EndingGang], reservations: Iterable[Reservation], *, now: int) -> list[int]:
    """The times after now at which capacity is freed, in order."""
    ends = {gang.end.at for gang in ending} | {each.end for each in reservations if each.end is not None}
    return sorted(end for end in ends if end > now)


# --- which reservations bind a demand ---------------------------------------------------------------------


def binding(reservations: Iterable[Reservation], demand: Demand, session: Session) -> tuple[Reservation, ...]:
    """The reservations of higher precedence, which a demand must not delay; none for a repair.

    Reservations do not bind gangs of a queue with higher priority.
    """
    reservations = tuple(reservations)
    if not reservations or demand.stage is Stage.REPAIR:
        return ()
    own = next((each.precedence for each in reservations if each.gang == demand.gang.id), None)
    precedence = own or (rank_of(demand.gang, session), NOT_RESERVED)
    return tuple(
        each
        for each in reservations
        if each.precedence < precedence and not _is_served_before(session, demand.gang.queue, each.queue)
    )


def alternatives(
    bound: Sequence[Reservation],
    demand: Demand,
    session: Session,
    *,
    passed: Collection[GangId] | None = None,
) -> Iterator[Sequence[Reservation]]:
    """The sets of reservations to respect, in the order in which they are tried.

    The first set is all of them. The second set is those that bind it even within the guarantee of its queue.
    `passed`: the gangs whose reservations did not bind it when capacity was nominated for it.
    """
    yield bound
    if passed is None:
        respected = hard(bound, demand, session)
    else:
        respected = [each for each in bound if each.gang not in passed]
    if len(respected) < len(bound):
        yield respected


def hard(bound: Sequence[Reservation], demand: Demand, session: Session) -> list[Reservation]:
    """The reservations that bind it even if its request is within the guarantee of its queue."""
    beneficiary = beneficiary_of(demand)
    return [each for each in bound if not is_guaranteed_before(beneficiary, each.request, session)]


def exchange(bound: Sequence[Reservation], demand: Demand, session: Session) -> Exchange | None:
    """The exchange with gangs that use the guarantee of its side; None if this passes no reservation."""
    beneficiary, guarantees = beneficiary_of(demand), session.guarantees
    respected: list[Reservation] = []
    gaps: list[GuaranteeGap] = []
    for each in bound:
        sides = guarantees.sides(beneficiary, each.queue)
        if sides is None:
            respected.append(each)
            continue
        coverage, missing = guarantees.gaps_before_start(beneficiary, sides.mine, sides.short)
        if coverage > guarantees.coverage_after_start(each.request, sides.theirs, sides.short):
            gaps += [gap for gap in missing if gap not in gaps]
        else:
            respected.append(each)
    return Exchange(tuple(respected), tuple(gaps)) if gaps else None


def _is_served_before(session: Session, queue: QueueName, other: QueueName) -> bool:
    """Whether the queue has a higher priority than the other one at their lowest common ancestor."""
    paths = zip(reversed(session.queues.path(queue)), reversed(session.queues.path(other)), strict=False)
    return next((own.priority > others.priority for own, others in paths if own.name != others.name), False)


def is_guaranteed_before(beneficiary: Beneficiary, request: Beneficiary, session: Session) -> bool:
    """Whether guarantees would cover it further than a request of another queue."""
    guarantees = session.guarantees
    sides = guarantees.sides(beneficiary, request.gang.queue)
    if sides is None:
        return False
    mine = guarantees.coverage_after_start(beneficiary, sides.mine, sides.short)
    if mine is Coverage.NONE:
        return False
    return mine > guarantees.coverage_after_start(request, sides.theirs, sides.short)
