"""The gangs of a queue that were refused for capacity, and which of them a cycle looks at.

A refusal holds until a change helps that is part of its basis. Even then the gang does not start as long as
nodes have too little free for it (`free_capacity.py`). If very many gangs wait, a cycle looks at the first
ones, at those that may start now, and at a few others in turn. The others *rest*: they keep their verdict and
count as demand. In a strict FIFO queue all but the first ones rest, since none starts before these.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from phalanx.actions.backlog.equal_gangs import Entry, place_of
from phalanx.actions.backlog.free_capacity import FreeCapacity, Lacks, lacks_of
from phalanx.framework.queues.division import NOT_WAITING, Bundles
from phalanx.framework.queues.unseen_demand import UnseenDemand
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.reasons import Category, Reason

OPEN_GANGS_TRIED: Final = 16
"""The first of many gangs of a queue that were refused for capacity, at which each cycle looks: as many as
one cycle evicts for, and more than a queue has reservations."""


class Refused(Struct, frozen=True):
    """The open gangs of a queue by what a cycle does with them, in order."""

    first: Sequence[Entry]
    """It looks at them in any case."""
    due: Sequence[Entry] = ()
    """They may start now."""
    resting: Sequence[Entry] = ()
    outdated: Sequence[Entry] = ()
    """Those of the first whose refusal is outdated although nodes have too little free for them."""


class _Ordered:
    """The open gangs in order."""

    def __init__(self, entries: Iterable[Entry], *, is_strict: bool) -> None:
        self._is_strict = is_strict
        ordered = sorted(entries, key=place_of)
        self.always = [each for each in ordered if not self._may_rest(each)]
        """Those that every cycle looks at."""
        self.others = [each for each in ordered if self._may_rest(each)]
        self._created = sorted(each.gang.created for each in ordered if _is_demand(each))

    def add(self, entry: Entry) -> None:
        insort(self._list_of(entry), entry, key=place_of)
        if _is_demand(entry):
            insort(self._created, entry.gang.created)

    def remove(self, entry: Entry) -> None:
        """Remove a gang whose refusal and group are as they were."""
        some = self._list_of(entry)
        del some[bisect_left(some, entry.place, key=place_of)]
        if _is_demand(entry):
            del self._created[bisect_left(self._created, entry.gang.created)]

    @property
    def oldest(self) -> int:
        """The creation (s) of the oldest one that counts as demand."""
        return self._created[0] if self._created else NOT_WAITING

    def _list_of(self, entry: Entry) -> list[Entry]:
        return self.others if self._may_rest(entry) else self.always

    def _may_rest(self, entry: Entry) -> bool:
        """Whether the basis of its refusal says when to look at it again, or it waits behind the head."""
        refusal = entry.refusal
        is_behind = refusal is not None and refusal.verdict.reason is Reason.BLOCKED_BY_QUEUE_HEAD
        return entry.group is not None or (self._is_strict and is_behind)


class OpenGangs:
    """The gangs of one queue that a change of any kind may help."""

    def __init__(self, *, is_strict: bool) -> None:
        self.entries: dict[GangId, Entry] = {}
        self._is_strict = is_strict
        self._in_order: _Ordered | None = None
        """None until some rest."""
        self._sums: _Sums | None = None
        self._excluded: set[GangId] = set()
        """Gangs for which the nodes had too little free at this capacity version."""
        self._capacity_version = -1

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: Entry) -> None:
        """Add a gang with its refusal and its group."""
        self.entries[entry.gang.id] = entry
        if self._in_order is not None:
            self._in_order.add(entry)
        if self._sums is not None:
            self._sums.add(entry)

    def discard(self, entry: Entry) -> None:
        """Remove a gang before its refusal changes; nothing if it is not one of these."""
        if self.entries.pop(entry.gang.id, None) is None:
            return
        self._excluded.discard(entry.gang.id)
        if self._in_order is not None:
            self._in_order.remove(entry)
        if self._sums is not None:
            self._sums.add(entry, -1)

    def all_first(self) -> Refused:
        """The cycle looks at all."""
        return Refused(list(self.entries.values()))

    def divided(self, capacity: FreeCapacity, capacity_version: int) -> Refused:
        """The cycle does not look at all. `capacity`: what is free at its begin."""
        if capacity_version != self._capacity_version:
            self._excluded.clear()
            self._capacity_version = capacity_version
        ordered = self._ordered()
        first, rest = ordered.others[:OPEN_GANGS_TRIED], ordered.others[OPEN_GANGS_TRIED:]
        due = (
            []
            if self._is_strict
            else [each for each in rest if is_outdated(each) and self._fits(each, capacity)]
        )
        outdated = [each for each in first if is_outdated(each) and not self._fits(each, capacity)]
        return Refused([*ordered.always, *first], due, rest, outdated)

    def demand_without(self, seen: Collection[GangId], behind: Mapping[GangId, int]) -> UnseenDemand:
        """The demand of the gangs that the cycle does not look at.

        `behind`: how many equal gangs there are behind a gang.
        """
        if self._sums is None:
            self._sums = _Sums()
            for entry in self.entries.values():
                self._sums.add(entry)
        counted = [self.entries[gang] for gang in seen if gang in self.entries]
        sums = self._sums.copy()
        for entry in counted:
            sums.add(entry, -1)
        for gang, count in behind.items():
            if gang in self.entries and gang not in seen:
                sums.add(self.entries[gang], count)
        gangs = partial(self._gangs, frozenset(seen), behind)
        return UnseenDemand(self._ordered().oldest, *sums.result(), gangs)

    def _gangs(
        self, seen: Collection[GangId], behind: Mapping[GangId, int]
    ) -> Iterator[tuple[Sequence[Pod], int]]:
        for gang, entry in self.entries.items():
            if gang not in seen and _is_demand(entry):
                yield _lacks(entry).pods, 1 + behind.get(gang, 0)

    def _fits(self, entry: Entry, capacity: FreeCapacity) -> bool:
        """Whether the nodes have enough free, or its queue has changed, which may object to the gang.

        What nodes have free grows only with the capacity version.
        """
        if entry.group is not None and not entry.group.is_queue_current:
            return True
        if entry.gang.id in self._excluded:
            return False
        if may_take(capacity, entry):
            return True
        self._excluded.add(entry.gang.id)
        return False

    def _ordered(self) -> _Ordered:
        if self._in_order is None:
            self._in_order = _Ordered(self.entries.values(), is_strict=self._is_strict)
        return self._in_order


def _lacks(entry: Entry) -> Lacks:
    """What the gang lacks, read once."""
    if entry.lacks is None:
        entry.lacks = lacks_of(entry.gang)
    return entry.lacks


def is_outdated(entry: Entry) -> bool:
    """Whether a change may help the gang that is part of the basis of its refusal."""
    return entry.group is not None and not entry.group.is_current


def may_take(capacity: FreeCapacity, entry: Entry) -> bool:
    """Whether what nodes have free does not exclude that the gang starts."""
    need = _lacks(entry).need
    return need is None or capacity.may_take(need)


def _is_demand(entry: Entry) -> bool:
    """Whether the gang counts as demand: see FairShares."""
    reason = entry.refusal.verdict.reason if entry.refusal is not None else None
    if reason is None or reason is Reason.NODES_UNAVAILABLE:
        return False
    return reason.category is not Category.IMPOSSIBLE


class _Sums:
    """The demand of gangs in total."""

    def __init__(self) -> None:
        self._bundles: dict[frozenset[str], dict[str, int]] = {}
        self._by_pods: dict[frozenset[str], dict[str, int]] = {}

    def add(self, entry: Entry, count: int = 1) -> None:
        """Add the demand of so many gangs like this one."""
        if not _is_demand(entry):
            return
        lacks = _lacks(entry)
        _add(self._bundles, lacks.bundles.items(), count)
        for pod in lacks.pods:
            requests = {name: amount for name, amount in pod.shape.requests.items() if amount > 0}
            _add(self._by_pods, [(frozenset(requests), requests)], count)

    def copy(self) -> "_Sums":
        copied = _Sums()
        copied._bundles = {names: dict(amounts) for names, amounts in self._bundles.items()}
        copied._by_pods = {names: dict(amounts) for names, amounts in self._by_pods.items()}
        return copied

    def result(self) -> tuple[Bundles, Bundles]:
        """The sums of bundles, and those by what pods request, without those of nothing."""
        return _positive(self._bundles), _positive(self._by_pods)


def _add(
    sums: dict[frozenset[str], dict[str, int]],
    more: Iterable[tuple[frozenset[str], Mapping[str, int]]],
    count: int,
) -> None:
    for names, amounts in more:
        total = sums.setdefault(names, {})
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + count * amount


def _positive(sums: Mapping[frozenset[str], Mapping[str, int]]) -> Bundles:
    return {names: dict(amounts) for names, amounts in sums.items() if any(amounts.values())}
