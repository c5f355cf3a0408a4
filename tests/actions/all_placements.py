"""All placements of small gangs: the fewest pods to move so that a gang that waits fits, and plans for it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Protocol, TypeVar

from tests.builders import Decided

Places = dict[str, tuple[str, ...]]
"""The nodes of the pods of each gang."""


class Group(Protocol):
    """A gang; without nodes it waits."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...


G = TypeVar("G", bound=Group)


def placements(
    groups: Sequence[G],
    places: Places,
    nodes: Sequence[str],
    is_allowed: Callable[[Sequence[G], Places], bool],
) -> Iterator[Places]:
    """Each way in which the other gangs can be placed as well."""
    group = next((group for group in groups if group.name not in places), None)
    if group is None:
        yield places
        return
    for chosen in combinations_with_replacement(nodes, group.count):
        more = {**places, group.name: chosen}
        if is_allowed(groups, more):
            yield from placements(groups, more, nodes, is_allowed)


def fewest_pods(
    names: Sequence[str], places: Places, fits: Callable[[Places, tuple[str, ...]], bool]
) -> int | None:
    """The fewest pods of these running gangs to move; None if it is impossible.

    `fits`: whether all gangs can be placed if those of these names are moved and the others stay there.
    """
    found = [
        sum(len(places[name]) for name in some)
        for size in range(len(names) + 1)
        for some in combinations(names, size)
        if fits({name: nodes for name, nodes in places.items() if name not in some}, some)
    ]
    return min(found, default=None)


def planned_moves(decided: Decided, places: Places, fewest: int | None) -> list[str]:
    """The gangs that the cycle moves for the gang `large`; none without a plan.

    A plan moves whole gangs, is no better than its bound says, and exists only where moves help.
    """
    assert not decided.result.stats.errors
    assert ("large" in decided.placed()) == (fewest == 0)
    if not decided.result.plans:
        return []
    (plan,) = decided.result.plans
    assert fewest is not None
    assert plan.pods_bound <= fewest <= plan.pods == len(decided.evicted())
    moved = [move.group.removeprefix("team/") for move in plan.moves]
    assert moved
    assert plan.pods == sum(len(places[name]) for name in moved)
    return moved
