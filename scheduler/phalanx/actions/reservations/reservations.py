"""Starts that are reserved for gangs which wait, and the room that ends and reserved starts leave over time.

All room is counted in cells: a resource of a node, or of an account of the ledger. What is said here is about
changes against now: a gang that ends gives its cells back, a reserved start takes its own and gives them back
when that gang has run as long as it may.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.ledger import Account, Ledger
from phalanx.framework.run_times import End, Method
from phalanx.framework.statement import Statement, Usage
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.resources import Resources

CapacityKey = tuple[NodeName | Account, str]
"""A resource of a node (its name), or of an account."""

CapacityDelta = Mapping[CapacityKey, int]

Precedence = tuple[Any, ...]
"""Rank, then who was promised first; smaller comes first."""

NOT_RESERVED: Final = (1 << 62, 0)
"""After all cycles that promised something."""


class EndingGang(Struct, frozen=True):
    """A gang that holds room and is expected to end."""

    name: str
    end: End
    nodes: Usage
    cells: CapacityDelta


class Forecast(Struct, frozen=True):
    """How a reserved start was worked out: between which times it lies, and some of those who end before.

    `leaving` has the last ones first; nobody where it is reserved starts that must be over.
    """

    earliest: int
    latest: int
    method: Method
    leaving: tuple[EndingGang, ...] = ()


class Reservation(Struct, frozen=True):
    """The start of a waiting gang: when, and what it then takes of each node (`seats`).

    Its room is kept from `held_from`, the earliest start that it was ever promised: nobody who says that it
    ends before may be wrong again. `end` is when it has run as long as it may; None: never. `wants`: what it
    asks for. `forecast` is None for a promise of an earlier cycle that this one has not come to.
    """

    gang: GangId
    name: str
    queue: QueueName
    precedence: Precedence
    given: tuple[int, int]
    start: int
    held_from: int
    end: int | None
    seats: Usage
    cells: CapacityDelta
    wants: Beneficiary
    forecast: Forecast | None = None


def hold(reserved: Iterable[Reservation], statement: Statement) -> None:
    """Take the room of these starts."""
    for each in reserved:
        statement.nominate(queue=each.queue, usage=each.seats, booked={})


class BlockingReservations(Struct, frozen=True):
    """Why a demand must leave room alone: free until then (ms), used longer it would delay these starts."""

    delayed: tuple[Reservation, ...]
    free_until: int


def capacity_delta(queue: QueueName, used: Usage, booked: Usage, ledger: Ledger) -> CapacityDelta:
    """What this use of nodes, of which `booked` is on the queue's account, takes of nodes and accounts."""
    cells: dict[CapacityKey, int] = {}
    for node, amounts in used.items():
        _add(cells, node, amounts)
    for node, amounts in booked.items():
        for account in ledger.accounts(queue, node):
            _add(cells, account, amounts)
    return cells


def _add(cells: dict[CapacityKey, int], place: NodeName | Account, amounts: Resources) -> None:
    for name, amount in amounts.items():
        cells[place, name] = cells.get((place, name), 0) + amount


def split(cells: CapacityDelta) -> tuple[dict[NodeName, dict[str, int]], dict[Account, dict[str, int]]]:
    """By node and by account."""
    nodes: dict[NodeName, dict[str, int]] = {}
    accounts: dict[Account, dict[str, int]] = {}
    for (place, name), amount in cells.items():
        if isinstance(place, tuple):
            accounts.setdefault(place, {})[name] = amount
        else:
            nodes.setdefault(place, {})[name] = amount
    return nodes, accounts


def least_capacity(
    leaving: Iterable[EndingGang],
    reserved: Sequence[Reservation],
    *,
    since: int,
    until: int | None,
    only: Collection[CapacityKey] | None = None,
) -> dict[CapacityKey, int]:
    """Per cell, the least by which its room differs from now between two times, the second excluded.

    Cells that are absent differ by nothing. `until` None means for ever; `only`: no other cells count.
    """
    changes = sorted(_changes(leaving, reserved), key=lambda change: change[:2])
    if until is not None:
        changes = changes[: bisect_left(changes, until, key=lambda change: change[0])]
    first = bisect_right(changes, since, key=lambda change: change[0])
    room: dict[CapacityKey, int] = {}
    for _, _, sign, cells in changes[:first]:
        for cell, amount in _those(cells, only):
            room[cell] = room.get(cell, 0) + sign * amount
    least = dict(room)
    # What only comes back from then on makes nothing less.
    last = max((index for index, change in enumerate(changes) if change[2] < 0), default=-1)
    for _, _, sign, cells in changes[first : last + 1]:
        for cell, amount in _those(cells, only):
            room[cell] = left = room.get(cell, 0) + sign * amount
            if left < least.get(cell, 0):
                least[cell] = left
    return least


def _those(cells: CapacityDelta, only: Collection[CapacityKey] | None) -> Iterable[tuple[CapacityKey, int]]:
    return cells.items() if only is None else [(cell, cells[cell]) for cell in cells if cell in only]


def _changes(
    leaving: Iterable[EndingGang], reserved: Iterable[Reservation]
) -> Iterator[tuple[int, int, int, CapacityDelta]]:
    """When, first (0) or last (1) at that time, +1 for room that comes or -1 for room that goes."""
    for gone in leaving:
        yield gone.end.at, 0, 1, gone.cells
    for each in reserved:
        yield each.held_from, 1, -1, each.cells
        if each.end is not None:
            yield each.end, 0, 1, each.cells


def moments(leaving: Iterable[EndingGang], reserved: Iterable[Reservation], *, now: int) -> list[int]:
    """The times after now at which room is given back, in order."""
    ends = {gone.end.at for gone in leaving} | {each.end for each in reserved if each.end is not None}
    return sorted(end for end in ends if end > now)
