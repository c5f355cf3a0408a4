"""What is used per key, kept by adding and removing; it can be recomputed from what was added."""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from phalanx.limits import AMOUNT_MAX
from phalanx.model.resources import NONE, Resources

K = TypeVar("K", bound=str)


class Ledger(Generic[K]):
    """Amounts per key. What was handed out never changes: each change makes a new mapping, sorted by name.

    A key whose amounts are all zero is not there. What is more than AMOUNT_MAX is shown as that, and counted
    as it is.
    """

    def __init__(self) -> None:
        self._used: dict[K, Resources] = {}
        self._shown: dict[K, Resources] = {}

    def __getitem__(self, key: K) -> Resources:
        return self._shown.get(key, NONE)

    def __iter__(self) -> Iterator[K]:
        return iter(self._used)

    def __len__(self) -> int:
        return len(self._used)

    def add(self, key: K, amounts: Resources) -> None:
        """Use more."""
        used = dict(self._used.get(key, NONE))
        size = len(used)
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount
        self._keep(key, used if len(used) == size else dict(sorted(used.items())))

    def remove(self, key: K, amounts: Resources) -> None:
        """Use less. Raises AssertionError where less than nothing would be used: then it was never added."""
        used = dict(self._used.get(key, NONE))
        for name, amount in amounts.items():
            rest = used.get(name, 0) - amount
            assert rest >= 0, f"{key}: {name} would be {rest}"
            if rest:
                used[name] = rest
            else:
                used.pop(name, None)
        if used:
            self._keep(key, used)
        else:
            self._used.pop(key, None)
            self._shown.pop(key, None)

    def _keep(self, key: K, used: Resources) -> None:
        self._used[key] = used
        self._shown[key] = _shown(used)

    def view(self) -> Mapping[K, Resources]:
        """All of it, sorted by key."""
        return {key: self._shown[key] for key in sorted(self._shown)}


def _shown(amounts: Resources) -> Resources:
    if max(amounts.values(), default=0) <= AMOUNT_MAX:
        return amounts
    return {name: min(amount, AMOUNT_MAX) for name, amount in amounts.items()}
