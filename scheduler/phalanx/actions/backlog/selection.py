"""The gangs of one queue that one cycle looks at.

A cycle looks at all open gangs unless there are more than OPEN_GANGS_MAX (`open_gangs.py`), and at all due
gangs unless there are more than CROWDED_DUE_GANGS. Beyond one of them the queue is crowded. The gangs of a
crowded queue are tried in order, until the work on due gangs that do not start reaches half of its limit.
The open gangs follow, then due gangs in turn, then a few of those that rest. In a strict FIFO queue no gang
is tried before a due gang that comes first. Gangs behind equal ones are looked at when some of these are
placed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from msgspec import Struct

from phalanx.actions.backlog.equal_gangs import Entry, Kind, place_of
from phalanx.actions.backlog.free_capacity import FreeCapacity
from phalanx.actions.backlog.open_gangs import is_outdated, may_take
from phalanx.actions.backlog.queue_backlog import QueueBacklog
from phalanx.actions.limits import CROWDED_DUE_GANGS
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.names import GangId

CROWDED_WORK: Final = 128
"""Work of one cycle on gangs of a crowded queue that do not start: 1 for each gang, about 0.1 ms."""

CROWDED_WORK_BESIDE_OTHERS: Final = 16
"""The work while other queues have gangs to try, which wait for the end of the cycle."""

CROWDED_EXPLANATIONS: Final = 8
"""Refusals of a crowded queue that a cycle explains: each takes ten milliseconds or more."""

CROWDED_EXPLANATIONS_BESIDE_OTHERS: Final = 1
"""The same while other queues have gangs to try."""

CROWDED_UNEXPLAINED: Final = 16
"""Refusals of a crowded queue without an explanation beyond which a cycle tries one gang more only: every
cycle looks at these gangs."""

OPEN_GANGS_MAX: Final = 256
"""Gangs of a queue that were refused for capacity beyond which a cycle looks at some of them only: each takes
0.2 ms, and 1 ms after capacity became free."""

RESTING_TRIED: Final = 16
"""Resting gangs of such a queue at which a cycle looks in turn, so that victims are searched for them."""

RESTING_EXPLANATIONS: Final = 2
"""Refusals that a cycle explains of a queue of which gangs rest, unless many are new."""


class Bounds(Struct, frozen=True):
    """What a cycle does at most for a crowded queue."""

    work: int
    """On due gangs that do not start; see CROWDED_WORK."""
    explanations: int
    """Refusals that are explained."""
    renewals: int = 0
    """Outdated refusals that are found again of gangs for which too little is free."""


def bounds_of(crowded: int, *, others_wait: bool, few_are_new: bool = False) -> Bounds:
    """The bounds of each of so many crowded queues. `others_wait`: other queues have gangs to try.
    `few_are_new`: most gangs were explained before."""
    least = Bounds(CROWDED_WORK_BESIDE_OTHERS, CROWDED_EXPLANATIONS_BESIDE_OTHERS)
    if others_wait or not crowded:
        return least
    explanations = RESTING_EXPLANATIONS if few_are_new else CROWDED_EXPLANATIONS
    return Bounds(
        work=max(least.work, CROWDED_WORK // crowded),
        explanations=max(least.explanations, explanations // crowded),
        renewals=1,
    )


class Selection:
    """The gangs of one queue that one cycle looks at."""

    def __init__(
        self,
        backlog: QueueBacklog,
        capacity: FreeCapacity,
        capacity_version: int,
        last_in_turn: QueuePlace | None = None,
        last_rested: QueuePlace | None = None,
        *,
        may_rest: bool = True,
    ) -> None:
        """`capacity`: what is free now. `last_in_turn`: the place of the last gang that earlier cycles tried
        in turn; `last_rested`: that of the last resting one. `may_rest`: whether gangs may rest."""
        self.backlog = backlog
        self._capacity = capacity
        self.rests = may_rest and len(backlog.open) > OPEN_GANGS_MAX
        """Whether open gangs rest."""
        self._refused = (
            backlog.open.divided(capacity, capacity_version) if self.rests else backlog.open.all_first()
        )
        self._first = {entry.gang.id for entry in self._refused.first}
        self._kept: set[GangId] = set()
        self._too_large: set[GangId] = set()
        """Due gangs for which too little is free: what is free shrinks during a cycle."""
        self._due = list(merge(backlog.due, self._refused.due, key=place_of))
        self.is_crowded = self.rests or len(self._due) > CROWDED_DUE_GANGS
        self.bounds = Bounds(0, 0)
        self.seen: dict[GangId, Entry] = {}
        """The gangs that the cycle looks at."""
        self.last_in_turn = last_in_turn
        self.last_rested = last_rested
        self._work = 0
        self._placed: Counter[bytes | None] = Counter()
        """The placed gangs of kinds that have gangs behind others."""
        self._seen_behind: Counter[bytes | None] = Counter()
        """The gangs behind others that the cycle looks at, by kind."""
        self._tried: set[GangId] = set()
        self._lots = self._all_lots()

    @property
    def is_complete(self) -> bool:
        """Whether the cycle looks at all due gangs for which enough is free."""
        return all(entry.gang.id in self.seen or not self._may_start(entry) for entry in self._due)

    @property
    def keeps_some(self) -> bool:
        """Whether the cycle keeps an outdated refusal of one of the first gangs."""
        return bool(self._kept)

    @property
    def untried(self) -> list[Entry]:
        """The gangs in front that the cycle does not try, in order; the same list until something changes."""
        backlog = self.backlog
        seen = len(self.seen) - sum(self._seen_behind.values())
        if not self.is_crowded and seen + len(backlog.unschedulable) == backlog.in_front:
            return backlog.unschedulable
        return [entry for entry in backlog.in_order if self._is_untried(entry)]

    @property
    def unseen_counts(self) -> tuple[int, int]:
        """The numbers of accepted gangs and of their waiting pods that the cycle does not look at."""
        gangs, pods = self.backlog.accepted
        seen = [entry.pods for entry in self.seen.values() if entry.is_accepted and entry.is_front]
        kinds = [kind for kind in self.backlog.equal.long.values() if kind.last.is_accepted]
        gangs += sum(map(self._unseen, kinds)) - len(seen)
        return gangs, pods + sum(kind.last.pods * self._unseen(kind) for kind in kinds) - sum(seen)

    def behind(self) -> dict[GangId, int]:
        """How many gangs that the cycle does not look at are equal to one that it looks at, by that one."""
        kinds = [kind for kind in self.backlog.equal.long.values() if kind.last.gang.id in self.seen]
        return {kind.last.gang.id: self._unseen(kind) for kind in kinds}

    def behind_all(self) -> dict[GangId, int]:
        """How many gangs are behind a gang that are equal to it, whether or not the cycle looks at it."""
        return {kind.last.gang.id: self._unseen(kind) for kind in self.backlog.equal.long.values()}

    def unseen_of(self, kind: Kind) -> list[Entry]:
        """The gangs of a kind that are behind others and that the cycle does not look at, in order."""
        return [entry for entry in kind.behind if entry.gang.id not in self.seen]

    def _unseen(self, kind: Kind) -> int:
        return len(kind.entries) - len(kind.front) - self._seen_behind[kind.last.class_key]

    def equal_after(self, placed: GangId) -> list[Gang]:
        """The next gangs that are equal to the placed one: as many as were looked at, once half of these are
        placed. The cycle looks at them from now on."""
        kind = self._kind_of(placed)
        if kind is None:
            return []
        self._placed[kind.last.class_key] += 1
        seen = len(kind.entries) - self._unseen(kind)
        is_half = 2 * self._placed[kind.last.class_key] >= seen
        return self._see(self.unseen_of(kind)[:seen]) if is_half else []

    def has_more_of(self, gang: GangId) -> bool:
        """Whether there are gangs equal to this one that the cycle does not look at."""
        kind = self._kind_of(gang)
        return kind is not None and self._unseen(kind) > 0

    def _kind_of(self, gang: GangId) -> Kind | None:
        entry = self.backlog.entries.get(gang)
        return self.backlog.equal.kind_of(entry) if entry is not None else None

    def may_take_work(self, gang: GangId) -> bool:
        """Whether the work on the gang counts: not that on gangs that each cycle looks at."""
        return gang in self.seen and gang not in self._first

    def waits(self, gang: GangId) -> bool:
        """Whether `more` has yet to return the gang."""
        return self.is_crowded and gang in self.seen and gang not in self._tried

    def worked(self, amount: int) -> None:
        """Note the work on a due gang that does not start."""
        self._work += amount

    def first(self, named: Iterable[GangId]) -> list[Gang]:
        """The gangs that the cycle looks at in any case.

        `named`: gangs of which more is remembered than their refusal. They are tried at once.
        """
        known = [self.backlog.entries[gang] for gang in named if gang in self.backlog.entries]
        outdated = [entry for entry in self._refused.outdated if entry not in known]
        self._kept = {entry.gang.id for entry in outdated[self.bounds.renewals :]}
        due = () if self.is_crowded else self._due
        entries = [*self._refused.first, *known, *due]
        self._note(entries)
        self._tried.update(entry.gang.id for entry in (known if self.is_crowded else entries))
        return [entry.gang for entry in self.seen.values()]

    def more(self) -> list[Gang]:
        """The next gangs of a crowded queue to try; the cycle may not have looked at them before."""
        return self._see(next(self._lots, []) if self.is_crowded else [])

    def _see(self, entries: Sequence[Entry]) -> list[Gang]:
        self._tried.update(entry.gang.id for entry in entries)
        self._note(entries)
        return [entry.gang for entry in entries]

    def _note(self, entries: Iterable[Entry]) -> None:
        new = {entry.gang.id: entry for entry in entries if entry.gang.id not in self.seen}
        self._seen_behind.update(entry.class_key for entry in new.values() if not entry.is_front)
        self.seen.update(new)

    def _all_lots(self) -> Iterator[list[Entry]]:
        due, is_strict = self._due, self.backlog.is_strict
        opened = sorted(self._refused.first, key=place_of)
        in_order = self._untried(merge(due, opened, key=place_of))
        yield from self._lots_within(in_order, self.bounds.work // (1 if is_strict else 2))
        first_due = next((entry.place for entry in due if entry.gang.id not in self._tried), None)
        if is_strict and first_due is not None:
            opened = [entry for entry in opened if entry.place < first_due]
        rest = list(self._untried(opened))
        if rest:
            yield rest
        if not is_strict:
            for lot in self._lots_within(self._untried(_after(due, self.last_in_turn)), self.bounds.work):
                self.last_in_turn = lot[-1].place
                yield lot
            lot = self._resting_lot()
            if lot:
                self.last_rested = lot[-1].place
                yield lot

    def _resting_lot(self) -> list[Entry]:
        """The next resting gangs; at most one with an outdated refusal, which is found again."""
        found: list[Entry] = []
        is_behind = self._refused.outdated or len(self.backlog.unexplained) >= CROWDED_UNEXPLAINED
        may_renew = self.bounds.renewals > 0 and not is_behind
        for entry in self._untried(_after(self._refused.resting, self.last_rested), may_fit=False):
            if is_outdated(entry) and not may_renew:
                break
            may_renew &= not is_outdated(entry)
            found.append(entry)
            if len(found) == RESTING_TRIED:
                break
        return found

    def keeps(self, gang: GangId) -> bool:
        """Whether the cycle keeps an outdated refusal, of a gang for which nodes have too little free.

        Of the first gangs a cycle finds one refusal again, with its explanation and victims.
        """
        return gang in self._kept

    def _untried(self, entries: Iterable[Entry], *, may_fit: bool = True) -> Iterator[Entry]:
        """Those that were not tried. `may_fit`: without due gangs for which too little is free."""
        return (
            entry for entry in entries if self._is_untried(entry) and (not may_fit or self._may_start(entry))
        )

    def _is_untried(self, entry: Entry) -> bool:
        return entry.is_front and entry.gang.id not in self._tried

    def _may_start(self, entry: Entry) -> bool:
        """Whether enough is free for the gang, if it was refused before."""
        gang = entry.gang.id
        is_new = gang in self._first or gang not in self.backlog.open.entries
        if is_new or (entry.group is not None and not entry.group.is_queue_current):
            return True
        if gang not in self._too_large and not may_take(self._capacity, entry):
            self._too_large.add(gang)
        return gang not in self._too_large

    def _lots_within(self, entries: Iterator[Entry], limit: int) -> Iterator[list[Entry]]:
        """At least one lot. Lots double while they take little work."""
        size = 1
        while lot := list(islice(entries, size)):
            before = self._work
            yield lot
            left = limit - self._work
            if left <= 0 or len(self.backlog.unexplained) >= CROWDED_UNEXPLAINED:
                return
            size = min(2 * size, left) if self._work - before <= len(lot) else 1


def _after(entries: Sequence[Entry], last: QueuePlace | None) -> Iterator[Entry]:
    """All entries in turn: those after the last one, then the others."""
    start = sum(1 for entry in entries if entry.place <= last) if last is not None else 0
    yield from entries[start:]
    yield from entries[:start]
