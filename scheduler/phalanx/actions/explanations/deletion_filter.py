"""Leave out what is not necessary: a deletion filter (Chinneck and Dravnieks, 1991)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from phalanx.model.resources import Resources

T = TypeVar("T")
K = TypeVar("K")


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


def necessary_amounts(
    amounts: Mapping[K, Resources], is_enough: Callable[[Mapping[K, Resources]], object]
) -> Mapping[K, Resources]:
    """Those of the amounts by place of which none can be left out. Pods in other places, or others, may need
    less."""

    def by_place(parts: Sequence[tuple[K, str]]) -> Mapping[K, Resources]:
        chosen: dict[K, dict[str, int]] = {}
        for place, name in parts:
            chosen.setdefault(place, {})[name] = amounts[place][name]
        return chosen

    parts = [(place, name) for place, of_place in amounts.items() for name in of_place]
    return by_place(necessary(parts, lambda fewer: is_enough(by_place(fewer))))
