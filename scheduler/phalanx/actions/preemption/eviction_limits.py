"""Limits on evictions, counted over all evictions of one cycle."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from phalanx.actions.limits import SHOWN_VICTIMS
from phalanx.framework.evictions import PodEvictionLimit
from phalanx.framework.session import Session
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence


class Evicted(Protocol):
    """Pods that are evicted together: a victim, or a gang that is moved."""

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods."""


class Counted(Struct, frozen=True):
    """A limit on some victims, with the number of pods that each victim takes of it."""

    limit: PodEvictionLimit
    most: int
    takes: tuple[tuple[int, int], ...]


class EvictionLimits:
    """The limits of a session, less the pods in `taken`, which are evicted already."""

    def __init__(self, limits: Sequence[PodEvictionLimit], taken: Collection[PodUid] = ()) -> None:
        self._limits = limits
        self._of: dict[PodUid, list[int]] = {}
        for index, limit in enumerate(limits):
            for uid in limit.pods:
                self._of.setdefault(uid, []).append(index)
        self._taken: Counter[int] = Counter()
        self.take(taken)

    def take(self, pods: Iterable[PodUid]) -> None:
        """Count these pods as evicted."""
        self._taken.update(index for uid in pods for index in self._of.get(uid, ()))

    def on(self, victims: Sequence[Evicted]) -> list[Counted]:
        """The limits that the victims exceed together."""
        takes: dict[int, list[tuple[int, int]]] = {}
        for position, victim in enumerate(victims if self._of else ()):
            counts = Counter(index for pod in victim.pods for index in self._of.get(pod.uid, ()))
            for index, count in counts.items():
                takes.setdefault(index, []).append((position, count))
        counted = [
            Counted(self._limits[index], max(0, self._limits[index].count - self._taken[index]), tuple(found))
            for index, found in sorted(takes.items())
        ]
        return [each for each in counted if sum(count for _, count in each.takes) > each.most]

    def breaches(self, victims: Sequence[Evicted]) -> int:
        """The number of pods by which these victims exceed all limits."""
        return sum(sum(count for _, count in each.takes) - each.most for each in self.on(victims))

    def grows_at(self, victims: Sequence[Evicted]) -> Iterator[int]:
        """Times (ms) at which more of these may be evicted though nothing changes."""
        for each in self.on(victims):
            if each.limit.grows_at is not None:
                yield each.limit.grows_at

    def evidence(self, victims: Sequence[Evicted]) -> tuple[Evidence, ...]:
        """The limits that protect these victims."""
        return tuple(
            Evidence(
                subject=each.limit.name,
                finding=f"allows {each.most} evictions now, {sum(count for _, count in each.takes)} needed",
            )
            for each in self.on(victims)[:SHOWN_VICTIMS]
        )


def limits_of(session: Session, taken: Collection[PodUid]) -> EvictionLimits:
    """The limits of all plugins. Pods that are being deleted count for none."""
    return EvictionLimits(session.plugins.pod_eviction_limits(), taken)
