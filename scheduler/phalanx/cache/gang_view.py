"""All gangs, sorted by ID, as snapshots show them."""

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Final

from phalanx.model.conversion.pod_groups import GangKey
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId

_INSERTED_MAX: Final = 64
"""Up to this number of changed gangs, each is inserted by bisection. Above it, sorting all is faster."""


class GangView:
    """Gangs by ID, and a mapping of them that stays the same until something changes."""

    def __init__(self) -> None:
        self._by_id: dict[GangId, Gang] = {}
        self._keys: dict[GangId, GangKey] = {}
        """Of all gangs but single pods."""
        self._view: Mapping[GangId, Gang] = {}
        self._changed: dict[GangId, Gang] = {}
        self._order: list[GangId] = []
        self._moved: set[GangId] = set()

    def exchange(self, key: GangKey, old: tuple[Gang, ...], new: tuple[Gang, ...]) -> None:
        """Replace the gangs of a key. A pod that moves to another key may already be listed under its new
        key."""
        for gang in old:
            if self._by_id.get(gang.id) is gang:
                del self._by_id[gang.id]
                self._keys.pop(gang.id, None)
        for gang in new:
            self._by_id[gang.id] = self._changed[gang.id] = gang
            if key.kind is not GangKind.POD:
                self._keys[gang.id] = key
        self._moved.update({gang.id for gang in old} ^ {gang.id for gang in new})

    def trim(self) -> None:
        """Bound the changes that are kept for the next view.

        A remote decider never asks for it, and no cycle may follow the end of all gangs. Neither changes nor
        gangs that are gone may pile up.
        """
        if max(len(self._changed), len(self._moved)) > len(self._by_id):
            self.view()

    def key_of(self, gang: GangId) -> GangKey | None:
        """The key of a gang, unless it is a single pod."""
        return self._keys.get(gang)

    def get(self, gang: GangId) -> Gang | None:
        return self._by_id.get(gang)

    def view(self) -> Mapping[GangId, Gang]:
        """All gangs, sorted by ID. It is the same mapping until something changes."""
        if self._moved:
            self._view = self._moved_view()
        elif self._changed:
            self._view = {**self._view, **self._changed}
        self._changed = {}
        return self._view

    def _moved_view(self) -> dict[GangId, Gang]:
        """The view after gangs came or went; it takes least time if some went only."""
        before = len(self._view)
        gone = [gang for gang in self._moved if gang in self._view and gang not in self._by_id]
        self._put_in_order()
        if len(self._order) == before - len(gone):
            changed = {gang: self._by_id[gang] for gang in self._changed if gang in self._by_id}
            view = {**self._view, **changed}
            for gang in gone:
                del view[gang]
            return view
        return dict(zip(self._order, map(self._by_id.__getitem__, self._order), strict=True))

    def _put_in_order(self) -> None:
        """Restore the sort order: insert a few gangs by bisection; sort many, which merges sorted runs."""
        came = {gang for gang in self._moved if gang in self._by_id and gang not in self._view}
        gone = {gang for gang in self._moved if gang in self._view and gang not in self._by_id}
        if len(gone) + len(came) <= _INSERTED_MAX:
            for gang in gone:
                del self._order[bisect_left(self._order, gang)]
            for gang in came:
                insort(self._order, gang)
        else:
            stay = [gang for gang in self._order if gang not in gone]
            self._order = sorted([*stay, *came])
        self._moved = set()
