"""The gangs of one queue that have never started, by what is known of them.

A gang is *new* if no cycle has tried it, *open* if a change of any kind may help it, and *unschedulable* if
it does not fit the empty cluster, or a plugin objects to it until something other than the usage changes. The
refusal of an unschedulable gang has a basis. New gangs and those whose basis is outdated are *due*.

A gang is *behind* others if it is equal to several that come before it (`equal_gangs.py`). It is none of the
above, and nothing is remembered of it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from typing import Final

from phalanx.actions.backlog.equal_gangs import Entry, EqualGangs, place_of
from phalanx.actions.backlog.open_gangs import OpenGangs
from phalanx.actions.demands.demand import START
from phalanx.framework.retry import fingerprint
from phalanx.model.gangs import Gang
from phalanx.model.memory import HelpedBy, Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Verdict

LONG_QUEUE_GANGS: Final = 64
"""Gangs of a queue that have not started beyond which pods larger than every node are refused without a
solve, which takes milliseconds."""

CurrentBasis = Callable[[HelpedBy, str], str]
"""The present basis of refusals, by what helps and the resource."""


class Group:
    """Gangs whose refusals have one basis: one comparison tells whether all of them hold."""

    def __init__(self, helped_by: HelpedBy, resource: str, queue_basis: str) -> None:
        self.queue_basis = queue_basis
        self.helped_by = helped_by
        self.resource = resource
        self.entries: dict[GangId, Entry] = {}
        self.is_current = False
        self.is_queue_current = True
        """Whether the queues are as they were then."""


class QueueBacklog:
    """The gangs of one queue that have never started."""

    def __init__(self, *, is_strict: bool) -> None:
        """`is_strict`: for a strict FIFO queue, in which priorities do not order."""
        self.is_strict = is_strict
        self.entries: dict[GangId, Entry] = {}
        self.equal = EqualGangs()
        self.in_front = 0
        """The number of gangs that are not behind others."""
        self.open = OpenGangs(is_strict=is_strict)
        self.unexplained: set[GangId] = set()
        """Open gangs whose refusal is not explained yet."""
        self.accepted = (0, 0)
        """The numbers of gangs in front that the queue accepts, as far as known, and of their pods."""
        self._known: dict[GangId, Refusal] = {}
        self._refusals: Mapping[GangId, Refusal] | None = None
        self._new: dict[GangId, Entry] = {}
        self._groups: dict[tuple[HelpedBy, str], Group] = {}
        self._wakes: dict[GangId, int] = {}
        self._in_order: list[Entry] | None = None
        self._due: list[Entry] | None = None
        self._unschedulable: list[Entry] | None = None
        self.verdicts: list[Verdict] | None = None
        """The last verdicts on the unschedulable gangs, in order; None if they were not listed yet."""

    def add(self, gang: Gang, since: int, class_key: bytes | None) -> None:
        """Add a gang that is in line since then (s). Call `settle` when all are added."""
        entry = self.entries[gang.id] = Entry(gang, since, class_key, is_strict=self.is_strict)
        if self._in_order is not None:
            insort(self._in_order, entry, key=place_of)
        self.equal.add(entry)

    def remove(self, gang: GangId) -> None:
        """Remove a gang that has changed, started or gone."""
        entry = self.entries.pop(gang)
        if self._in_order is not None:
            del self._in_order[bisect_left(self._in_order, entry.place, key=place_of)]
        self.equal.remove(entry)
        self._leave_front(entry)

    def learn(self, entry: Entry, refusal: Refusal | None) -> None:
        """Note what a cycle that looked at the gang found; None if it was placed.

        A gang behind others is tried again when it comes to the front.
        """
        if entry.is_front:
            self._take_out(entry)
            self._put(entry, refusal)

    def settle(
        self,
        named: Collection[GangId],
        known: Callable[[Gang], Refusal | None],
        *,
        any_may_go_first: bool = False,
    ) -> None:
        """Note which gangs come before their equals.

        `named`: gangs that cycles look at in any case. `known` gives the last refusal of a gang.
        `any_may_go_first`: no gang is behind others.
        """
        joining, leaving = self.equal.settle(
            [self.entries[gang] for gang in named if gang in self.entries],
            all_in_front=any_may_go_first or not self.is_long,
        )
        for entry in leaving:
            self._leave_front(entry)
        for entry in joining:
            entry.is_front = True
            self.in_front += 1
            self._put(entry, known(entry.gang))

    def refresh(self, current: CurrentBasis, queue_basis: str, now: int) -> None:
        """Note which refusals do not hold any more. `queue_basis`: the present one."""
        for (_, basis), group in self._groups.items():
            group.is_queue_current = group.queue_basis == queue_basis
            is_current = basis == current(group.helped_by, group.resource)
            if is_current is not group.is_current:
                group.is_current = is_current
                self._due = self._unschedulable = None
        for gang in [gang for gang, until in self._wakes.items() if until <= now]:
            self._leave_group(self.entries[gang])
            self._new[gang] = self.entries[gang]
            self._due = self._unschedulable = None

    def _leave_front(self, entry: Entry) -> None:
        if entry.is_front:
            self._take_out(entry)
            self.in_front -= 1
            entry.is_front, entry.refusal, entry.verdict = False, None, None

    @property
    def due(self) -> list[Entry]:
        """The gangs that are new or whose refusal is outdated, in order."""
        if self._due is None:
            outdated = [group.entries.values() for group in self._lasting() if not group.is_current]
            self._due = sorted(chain(self._new.values(), *outdated), key=place_of)
        return self._due

    @property
    def unschedulable(self) -> list[Entry]:
        """The gangs whose refusal holds until the cluster changes, in order."""
        if self._unschedulable is None:
            current = [group.entries.values() for group in self._lasting() if group.is_current]
            self._unschedulable = sorted(chain.from_iterable(current), key=place_of)
            self.verdicts = None
        return self._unschedulable

    def _lasting(self) -> list[Group]:
        """The groups of unschedulable gangs."""
        return [group for group in self._groups.values() if group.helped_by is not HelpedBy.CAPACITY]

    @property
    def in_order(self) -> list[Entry]:
        """All gangs in order."""
        if self._in_order is None:
            self._in_order = sorted(self.entries.values(), key=place_of)
        return self._in_order

    @property
    def refusals(self) -> Mapping[GangId, Refusal]:
        """All refusals, sorted. It is the same mapping until one changes."""
        if self._refusals is None:
            self._refusals = {gang: self._known[gang] for gang in sorted(self._known)}
        return self._refusals

    @property
    def is_long(self) -> bool:
        """Whether many gangs wait."""
        return len(self.entries) > LONG_QUEUE_GANGS

    def next_wake(self) -> int | None:
        """The time (ms) at which the first refusal of an unschedulable gang ends by itself."""
        return min(self._wakes.values(), default=None)

    def _put(self, entry: Entry, refusal: Refusal | None) -> None:
        gang = entry.gang
        entry.refusal, entry.verdict = refusal, None
        self._count(entry, 1)
        if refusal is not None:
            self._known[gang.id], self._refusals = refusal, None
        if refusal is None or refusal.is_untried:
            self._new[gang.id] = entry
        elif refusal.helped_by is HelpedBy.CAPACITY:
            if not refusal.explained:
                self.unexplained.add(gang.id)
            elif refusal.until is None and refusal.fingerprint == fingerprint(gang, START):
                self._put_into_group(entry, refusal)
            self.open.add(entry)
        elif refusal.fingerprint != fingerprint(gang, START):
            self._new[gang.id] = entry
        else:
            self._put_into_group(entry, refusal)
        self._due = self._unschedulable = None

    def _count(self, entry: Entry, sign: int) -> None:
        gangs, pods = self.accepted
        if entry.is_accepted:
            self.accepted = (gangs + sign, pods + sign * entry.pods)

    def _put_into_group(self, entry: Entry, refusal: Refusal) -> None:
        key = (refusal.helped_by, refusal.basis)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(refusal.helped_by, refusal.resource, refusal.queue_basis)
        entry.group = group
        group.entries[entry.gang.id] = entry
        if refusal.until is not None:
            self._wakes[entry.gang.id] = refusal.until

    def _take_out(self, entry: Entry) -> None:
        gang = entry.gang.id
        self._count(entry, -1)
        self._new.pop(gang, None)
        self.open.discard(entry)
        self.unexplained.discard(gang)
        if self._known.pop(gang, None) is not None:
            self._refusals = None
        self._leave_group(entry)
        self._due = self._unschedulable = None

    def _leave_group(self, entry: Entry) -> None:
        self._wakes.pop(entry.gang.id, None)
        if entry.group is not None and entry.refusal is not None:
            del entry.group.entries[entry.gang.id]
            if not entry.group.entries:
                del self._groups[entry.refusal.helped_by, entry.refusal.basis]
        entry.group = None
