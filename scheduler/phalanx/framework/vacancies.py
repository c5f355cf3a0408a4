"""Which waiting pods may take the places of lost and reserved members.

A place is taken by one pod of the same role and subgroup with requests that are no larger in any resource. As
many pods as possible take places; among equal numbers, the first ones in the order of the gang.
"""

from collections.abc import Iterable, Mapping, Sequence

from phalanx.limits import RECORDED_KINDS_MAX
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.records import RecordKind

Counts = Mapping[RecordKind, int]
"""Numbers of members by kind."""


def may_take(pod: RecordKind, place: RecordKind) -> bool:
    if pod[:2] != place[:2]:
        return False
    amounts = dict(place[2])
    return all(amount <= amounts.get(name, 0) for name, amount in pod[2])


class Vacancies:
    """Places, and the pods that take them one after the other.

    A pod that comes later may move an earlier one to another place, as in the augmenting paths of bipartite
    matching. Pods and places of one kind are counted, not listed.
    """

    def __init__(self, places: Counts) -> None:
        self.left = {kind: count for kind, count in sorted(places.items()) if count > 0}
        """The places that nobody takes."""
        self._taken: dict[RecordKind, dict[RecordKind, int]] = {}
        """By place and by pod, how many pods of that kind take it."""
        self._usable: dict[RecordKind, list[RecordKind]] = {}
        self._refused: set[RecordKind] = set()
        self._places = list(self.left)

    def take(self, pod: RecordKind) -> bool:
        """Give a place to a pod of this kind; return whether it gets one."""
        if pod in self._refused:
            return False
        if self._augment(pod, set()):
            return True
        self._refused.add(pod)
        return False

    def _augment(self, pod: RecordKind, seen: set[RecordKind]) -> bool:
        usable = self._usable_by(pod)
        for place in usable:
            if self.left.get(place, 0) > 0:
                self.left[place] -= 1
                self._count(place, pod, 1)
                return True
        for place in usable:
            if place in seen:
                continue
            seen.add(place)
            for other, count in list(self._taken.get(place, {}).items()):
                if count > 0 and other != pod and self._augment(other, seen):
                    self._count(place, other, -1)
                    self._count(place, pod, 1)
                    return True
        return False

    def _count(self, place: RecordKind, pod: RecordKind, by: int) -> None:
        taken = self._taken.setdefault(place, {})
        taken[pod] = taken.get(pod, 0) + by

    def _usable_by(self, pod: RecordKind) -> list[RecordKind]:
        """The places that it may take: those of its own kind first."""
        known = self._usable.get(pod)
        if known is None:
            bounded = self._places if len(self._usable) < RECORDED_KINDS_MAX else ()
            found = [place for place in bounded if may_take(pod, place)]
            known = self._usable[pod] = sorted(found, key=lambda place: place != pod)
        return known


def taking(pods: Iterable[Pod], kinds: Mapping[PodUid, RecordKind], places: Counts) -> list[Pod]:
    """The pods that take places, in their order."""
    if not places:
        return []
    vacancies = Vacancies(places)
    return [pod for pod in pods if vacancies.take(kinds[pod.uid])]


def untaken(pods: Iterable[RecordKind], places: Counts) -> dict[RecordKind, int]:
    """The places that are left when these pods have taken as many as they can."""
    vacancies = Vacancies(places)
    for pod in pods:
        vacancies.take(pod)
    return {kind: count for kind, count in vacancies.left.items() if count > 0}


def missing_from(recorded: Counts, present: Sequence[RecordKind]) -> dict[RecordKind, int]:
    """The recorded members of which none is present.

    A present member whose role or subgroup was changed still is one of those that were recorded: the members
    that are left over on both sides are matched, those with equal requests first, then the largest records.
    """
    left = dict(recorded)
    others = []
    for kind in present:
        if left.get(kind, 0) > 0:
            left[kind] -= 1
        else:
            others.append(kind)
    for kind in others:
        remove_one(left, kind)
    return {kind: count for kind, count in left.items() if count > 0}


def remove_one(counts: dict[RecordKind, int], kind: RecordKind) -> None:
    """Remove a member of this kind, else one with equal requests, else the largest one."""
    found = [each for each, count in counts.items() if count > 0]
    if found:
        chosen = max(found, key=lambda each: (each == kind, each[2] == kind[2], _size(each), each))
        counts[chosen] -= 1


def _size(kind: RecordKind) -> tuple[int, ...]:
    """Devices count most, then processors and memory."""
    amounts = dict(kind[2])
    devices = sum(amount for name, amount in amounts.items() if "/" in name)
    return (devices, amounts.get("cpu", 0), amounts.get("memory", 0))
