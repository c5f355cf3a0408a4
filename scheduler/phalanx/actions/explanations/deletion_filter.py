"""Leave out what is not necessary: a deletion filter (Chinneck and Dravnieks, 1991)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def necessary(parts: Sequence[T], is_enough: Callable[[Sequence[T]], object]) -> Sequence[T]:
    """Those of the parts, which are enough together, of which none can be left out; at least one.

    A part is tried again when another was left out. It may have been necessary only because of the other: a
    toleration adds nodes over which pods are spread.
    """
    kept = list(range(len(parts)))
    tried = 0
    while tried < len(kept) and len(kept) > 1:
        first, *rest = kept
        if is_enough([parts[index] for index in sorted(rest)]):
            kept, tried = rest, 0
        else:
            kept, tried = [*rest, first], tried + 1
    return [parts[index] for index in sorted(kept)]
