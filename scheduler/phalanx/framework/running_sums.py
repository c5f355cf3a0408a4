"""Running sums over mappings that change little between cycles: only changed parts are added."""

from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

from phalanx.model.resources import Resources, sum_of

RUNNING_SUM_CHANGES_PART: Final = 4
"""If more than one in this many parts has changed, the whole sum is computed again, which is faster."""

K = TypeVar("K", bound=str)

Kind = frozenset[str]
"""The names of the resources of one part."""

SumsByKind = Mapping[Kind, Resources]


class RunningSum(Generic[K]):
    """One sum. Parts are compared by identity, so a part that changes must be a new object."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[K, Resources], dict[Kind, dict[str, int]], dict[Kind, int]] = ({}, {}, {})

    def of(self, parts: Mapping[K, Resources]) -> SumsByKind:
        """The sums of parts with the same resources; kinds and resources sorted."""
        before, sums, counts = self._last
        if before is parts:
            return sums
        changed = [key for key, part in parts.items() if before.get(key) is not part]
        added = sum(1 for key in changed if key not in before)
        gone = before.keys() - parts.keys() if len(before) + added > len(parts) else set()
        if (len(changed) + len(gone)) * RUNNING_SUM_CHANGES_PART > len(parts):
            before, sums, counts, changed, gone = {}, {}, {}, list(parts), set()
        else:
            sums, counts = {kind: dict(each) for kind, each in sums.items()}, dict(counts)
        for key in changed:
            _add(sums, counts, parts[key], 1)
        for key in [*changed, *gone]:
            if key in before:
                _add(sums, counts, before[key], -1)
        sums = dict(sorted(sums.items(), key=lambda item: sorted(item[0])))
        self._last = (parts, sums, counts)
        return sums


def _add(sums: dict[Kind, dict[str, int]], counts: dict[Kind, int], part: Resources, times: int) -> None:
    kind = frozenset(part)
    total = sums.get(kind)
    if total is None:
        total = sums[kind] = dict.fromkeys(sorted(part), 0)
    for name, amount in part.items():
        total[name] += times * amount
    counts[kind] = counts.get(kind, 0) + times
    if not counts[kind]:
        del sums[kind], counts[kind]


class RunningSums:
    """One sum per purpose."""

    def __init__(self) -> None:
        self._sums: dict[Hashable, RunningSum[Any]] = {}
        self._used: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._sums)

    def by_kind(self, purpose: Hashable, parts: Mapping[K, Resources]) -> SumsByKind:
        """The sums of parts with the same resources. `parts` must not change afterwards."""
        self._used.add(purpose)
        running: RunningSum[K] = self._sums.setdefault(purpose, RunningSum())
        return running.of(parts)

    def forget_unused(self) -> None:
        """Remove sums that were not used since the last call: their queues do not exist any more."""
        used, self._used = self._used, set()
        self._sums = {purpose: each for purpose, each in list(self._sums.items()) if purpose in used}

    def total(self, purpose: Hashable, parts: Mapping[K, Resources]) -> dict[str, int]:
        return dict(sorted(sum_of(self.by_kind(purpose, parts).values()).items()))
