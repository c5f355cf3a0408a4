"""The waiting gangs of one queue by what is known of them, so that a cycle need not look at each."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from phalanx.framework.retry import fingerprint
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.memory import HelpedBy, Refusal
from phalanx.model.names import GangId
from phalanx.model.reasons import Verdict

START: Final = "start"
"""The cause of the demand of a gang that no pod has started for."""

_FEW: Final = 32
"""Up to this number of changes, lists are changed by bisection. Above it, sorting all is faster."""

_PART: Final = 8
"""If more than one gang in this many moves to another list, both are computed again."""

CurrentBasis = Callable[[HelpedBy, str], str]
"""The present basis of refusals, by what helps and the resource."""


class Group:
    """Gangs whose refusals have one basis, so that one comparison tells whether all of them still hold."""

    def __init__(self, helped_by: HelpedBy, resource: str) -> None:
        self.helped_by = helped_by
        self.resource = resource
        self.entries: dict[GangId, Entry] = {}
        self.is_current = False


class Entry:
    """A waiting gang, and what the last cycle that looked at it found."""

    __slots__ = ("gang", "group", "pods", "refusal")

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.pods = sum(1 for pod in gang.members if pod.is_waiting)
        self.refusal: Refusal | None = None
        self.group: Group | None = None


class SortedRefusals:
    """Refusals by gang, from which a sorted mapping is made with little work after few changes."""

    def __init__(self) -> None:
        self._known: dict[GangId, Refusal] = {}
        self._ids: list[GangId] = []
        self._view: Mapping[GangId, Refusal] | None = None
        self._are_ids_outdated = False

    def __len__(self) -> int:
        return len(self._known)

    def put(self, gang: GangId, refusal: Refusal | None) -> None:
        """Set or remove the refusal of a gang."""
        if (gang in self._known) is not (refusal is not None):
            self._are_ids_outdated = True
        self._view = None
        if refusal is None:
            self._known.pop(gang, None)
        else:
            self._known[gang] = refusal

    def view(self) -> Mapping[GangId, Refusal]:
        """All refusals, sorted. It is the same mapping until something changes."""
        if self._view is None:
            if self._are_ids_outdated:
                # New gangs are a short run at the end of a sorted one, which sorting merges fast.
                stay = [gang for gang in self._ids if gang in self._known]
                self._ids = sorted([*stay, *(self._known.keys() - set(stay))])
                self._are_ids_outdated = False
            self._view = dict(zip(self._ids, map(self._known.__getitem__, self._ids), strict=True))
        return self._view


class QueueIndex:
    """The untouched gangs of one queue, in their usual order.

    A gang is due if it was not tried, or if its refusal does not hold any more. It is settled if its refusal
    holds until capacity becomes free. All others are unschedulable. Gangs are sorted into these three once
    the queue is crowded.
    """

    def __init__(self) -> None:
        self.entries: dict[GangId, Entry] = {}
        self.places: list[QueuePlace] = []
        self.due: list[QueuePlace] = []
        self.settled: list[QueuePlace] = []
        self.unexplained: dict[GangId, Entry] = {}
        self.refusals = SortedRefusals()
        self.pods = 0
        self.is_sorted = False
        """Whether refusals are known and gangs are sorted by them."""
        self.shown: dict[GangId, Verdict] = {}
        """The verdicts that results show."""
        self._unshown: dict[GangId, None] = {}
        self._shown_until: dict[GangId, int] = {}
        self._ids: list[GangId] | None = None
        self._in_order: list[Verdict] | None = None
        self._groups: dict[str, Group] = {}
        self._wakes: dict[GangId, int] = {}
        self._are_lists_outdated = True

    # --- gangs ----------------------------------------------------------------------------------------------

    def change(self, gone: Iterable[GangId], gangs: Iterable[Gang]) -> None:
        """Remove and add gangs; a gang that changed is removed and added."""
        removed = [self.entries.pop(gang_id) for gang_id in gone]
        added = [Entry(gang) for gang in gangs]
        self._are_lists_outdated |= len(removed) + len(added) > _FEW
        self._ids = self._in_order = None
        for entry in removed:
            self._take_out(entry)
            self._hide(entry.gang.id)
            self.refusals.put(entry.gang.id, None)
            self.pods -= entry.pods
        for entry in added:
            self.entries[entry.gang.id] = entry
            self._unshown[entry.gang.id] = None
            self.pods += entry.pods
        if self._are_lists_outdated:
            self.places = sorted([entry.gang.place for entry in self.entries.values()])
            return
        for entry in removed:
            _remove(self.places, entry.gang.place)
        for entry in added:
            insort(self.places, entry.gang.place)
            insort(self.due, entry.gang.place)

    def forget_refusals(self) -> None:
        """Forget what was found: the queue is not crowded any more."""
        if not self.is_sorted:
            return
        self.is_sorted, self._are_lists_outdated = False, True
        self._groups, self._wakes, self.unexplained = {}, {}, {}
        self.refusals = SortedRefusals()
        self.shown, self._shown_until, self._unshown = {}, {}, dict.fromkeys(self.entries)
        for entry in self.entries.values():
            entry.refusal, entry.group = None, None

    # --- refusals -------------------------------------------------------------------------------------------

    def learn(self, entry: Entry, refusal: Refusal | None) -> None:
        """Note what the last cycle that looked at the gang found."""
        self._take_out(entry)
        self._hide(entry.gang.id)
        self._unshown[entry.gang.id] = None
        entry.refusal = refusal
        self.refusals.put(entry.gang.id, refusal)
        if refusal is not None and refusal.fingerprint == fingerprint(entry.gang, START):
            self._put_into_group(entry, refusal)
        if not self._are_lists_outdated:
            _insert(self._list_of(entry), entry.gang.place)

    def refresh(self, current: CurrentBasis, now: int) -> None:
        """Sort the gangs by whether their refusals hold now."""
        for basis, group in self._groups.items():
            is_current = basis == current(group.helped_by, group.resource)
            if is_current is not group.is_current:
                self._turn(group, is_current=is_current)
        for gang_id in [gang_id for gang_id, until in self._wakes.items() if until <= now]:
            self._take_out(self.entries[gang_id])
            if not self._are_lists_outdated:
                insort(self.due, self.entries[gang_id].gang.place)
        if self._are_lists_outdated:
            self._are_lists_outdated = False
            listed = [(place, self._list_of(self.entries[place[-1]])) for place in self.places]
            due = [place for place, places in listed if places is self.due]
            self.settled = [place for place, places in listed if places is self.settled]
            self.due = due

    def next_wake(self) -> int | None:
        """The time (ms) at which the first refusal ends by itself."""
        return min(self._wakes.values(), default=None)

    def longest_unexplained(self, count: int) -> list[Entry]:
        """Gangs that have waited longest for an explanation."""
        return nsmallest(count, self.unexplained.values(), key=_unexplained_since)

    # --- verdicts -------------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[GangId]:
        """All gangs in their usual order."""
        if self._ids is None:
            self._ids = [place[-1] for place in self.places]
        return self._ids

    @property
    def shown_in_order(self) -> list[Verdict]:
        """The verdicts on all gangs, which must all be shown."""
        if self._in_order is None:
            self._in_order = list(map(self.shown.__getitem__, self.ids))
        return self._in_order

    def outdated_verdicts(self, now: int) -> list[GangId]:
        """Gangs whose verdict must be shown anew."""
        if self._shown_until and min(self._shown_until.values()) <= now:
            for gang in [gang for gang, until in self._shown_until.items() if until <= now]:
                self._hide(gang)
                self._unshown[gang] = None
        return list(self._unshown)

    def show(self, entry: Entry, verdict: Verdict, now: int) -> None:
        """Show this verdict until the deadline of the gang has passed, or something else is learnt."""
        gang, deadline = entry.gang.id, entry.gang.deadline
        self._unshown.pop(gang, None)
        self._in_order = None
        self.shown[gang] = verdict
        if deadline is not None and deadline > now:
            self._shown_until[gang] = deadline

    @property
    def next_deadline(self) -> int | None:
        """The time (ms) at which the next gang misses its deadline."""
        return min(self._shown_until.values(), default=None)

    def _hide(self, gang: GangId) -> None:
        self.shown.pop(gang, None)
        self._unshown.pop(gang, None)
        self._shown_until.pop(gang, None)

    # --- the lists ------------------------------------------------------------------------------------------

    def _put_into_group(self, entry: Entry, refusal: Refusal) -> None:
        group = self._groups.get(refusal.basis)
        if group is None:
            group = self._groups[refusal.basis] = Group(refusal.helped_by, refusal.resource)
        entry.group = group
        group.entries[entry.gang.id] = entry
        if refusal.until is not None:
            self._wakes[entry.gang.id] = refusal.until
        if not refusal.explained:
            self.unexplained[entry.gang.id] = entry

    def _turn(self, group: Group, *, is_current: bool) -> None:
        """Move the gangs of a group to another list, since their refusals hold or do not hold any more."""
        is_small = len(group.entries) * _PART < len(self.places)
        self._are_lists_outdated |= not is_small
        entries = () if self._are_lists_outdated else tuple(group.entries.values())
        for entry in entries:
            _remove(self._list_of(entry), entry.gang.place)
        group.is_current = is_current
        for entry in entries:
            _insert(self._list_of(entry), entry.gang.place)

    def _list_of(self, entry: Entry) -> list[QueuePlace] | None:
        """The list in which the gang is; None for an unschedulable gang."""
        if entry.group is None or not entry.group.is_current:
            return self.due
        return self.settled if entry.group.helped_by is HelpedBy.CAPACITY else None

    def _take_out(self, entry: Entry) -> None:
        """Take the gang out of its list and of its group."""
        if not self._are_lists_outdated:
            _remove(self._list_of(entry), entry.gang.place)
        gang_id, group = entry.gang.id, entry.group
        self._wakes.pop(gang_id, None)
        self.unexplained.pop(gang_id, None)
        if group is not None and entry.refusal is not None:
            del group.entries[gang_id]
            if not group.entries:
                del self._groups[entry.refusal.basis]
        entry.group = None


def after(places: Sequence[QueuePlace], last: QueuePlace | None) -> Iterator[QueuePlace]:
    """All places in turn: those after the last one, then the others."""
    start = 0 if last is None else bisect_right(places, last)
    yield from places[start:]
    yield from places[:start]


def _unexplained_since(entry: Entry) -> tuple[int, QueuePlace]:
    refusal = entry.refusal
    return (refusal.unexplained_since or 0) if refusal is not None else 0, entry.gang.place


def _insert(places: list[QueuePlace] | None, place: QueuePlace) -> None:
    if places is not None:
        insort(places, place)


def _remove(places: list[QueuePlace] | None, place: QueuePlace) -> None:
    if places is not None:
        del places[bisect_left(places, place)]
