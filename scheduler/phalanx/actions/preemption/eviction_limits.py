"""Limits on evictions, counted over all evictions of one cycle."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.limits import SHOWN_VICTIMS
from phalanx.framework.evictions import PodEvictionLimit
from phalanx.framework.session import Session
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence


class EvictedPods(Protocol):
    """Pods that are evicted together: a victim, or a gang that is moved."""

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods."""


class ExceededLimit(Struct, frozen=True):
    """A limit that the victims exceed together."""

    limit: PodEvictionLimit
    most: int
    """The number of pods that may still be evicted."""
    takes: tuple[tuple[int, int], ...]
    """The index of each victim, and the number of its pods that count against the limit."""


class EvictionLimits:
    """The limits of a session. Pods in `taken` are evicted already and count against them."""

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

    def exceeded_by(self, victims: Sequence[EvictedPods]) -> list[ExceededLimit]:
        """The limits that the victims exceed together."""
        takes: dict[int, list[tuple[int, int]]] = {}
        for position, victim in enumerate(victims if self._of else ()):
            counts = Counter(index for pod in victim.pods for index in self._of.get(pod.uid, ()))
            for index, count in counts.items():
                takes.setdefault(index, []).append((position, count))
        found = []
        for index, counts_of in sorted(takes.items()):
            limit = self._limits[index]
            most = max(0, limit.count - self._taken[index])
            if sum(count for _, count in counts_of) > most:
                found.append(ExceededLimit(limit, most, tuple(counts_of)))
        return found

    def excess(self, victims: Sequence[EvictedPods]) -> int:
        """The number of pods by which these victims exceed the limits, summed over the limits."""
        return sum(sum(count for _, count in each.takes) - each.most for each in self.exceeded_by(victims))

    def grows_at(self, victims: Sequence[EvictedPods]) -> Iterator[int]:
        """Times (ms) at which more of these victims may be evicted although the cluster does not change."""
        for each in self.exceeded_by(victims):
            if each.limit.grows_at is not None:
                yield each.limit.grows_at

    def evidence(self, victims: Sequence[EvictedPods]) -> tuple[Evidence, ...]:
        """The limits that protect these victims."""
        return tuple(
            Evidence(
                subject=each.limit.name,
                finding=f"allows {formatting.evictions(each.most)} now, "
                f"{sum(count for _, count in each.takes)} needed",
            )
            for each in self.exceeded_by(victims)[:SHOWN_VICTIMS]
        )


def limits_of(session: Session, taken: Collection[PodUid]) -> EvictionLimits:
    """The limits of all plugins. Limits do not count pods that are being deleted."""
    return EvictionLimits(session.hooks.pod_eviction_limits(), taken)
