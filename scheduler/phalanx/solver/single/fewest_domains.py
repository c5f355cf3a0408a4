"""The fewest domains that hold a demand, the widest level first, exactly: the heart of the dynamic program.

On one level the largest domains are the fewest. Where one domain of a level is enough, each that is large
enough is tried. Where several are needed, a table per domain holds the most that fits for each number of
domains opened per level below it, and tables of neighbours are added up as in a knapsack. Open domains cost
nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import TABLE_WORK_MAX
from phalanx.solver.arrays import IntArray
from phalanx.solver.forest import Forest
from phalanx.solver.limits import OUTER_SWAPS_MAX
from phalanx.solver.single.tree_knapsack import table_of, table_work, trace
from phalanx.solver.tightest import Tightest, largest, tightest

Rank = Callable[[IntArray], tuple[int, ...]]
"""Orders choices of equal cost by the deepest domains chosen; the smallest rank is the best."""


class Choice(Struct, frozen=True, eq=False):
    """Domains opened per level, the proven lexicographic bound on that, and the deepest domains to use.

    `bound` ends with the room that the deepest domains have at least. `settled` when all choices of this cost
    were compared by rank.
    """

    cost: tuple[int, ...]
    bound: tuple[int, ...]
    domains: IntArray
    settled: bool = False


def fewest(
    forest: Forest, domains: IntArray, demand: int, *, level: int = 0, rank: Rank | None = None
) -> Choice | None:
    """The best choice among these domains of a level and of what is inside them; None when they hold less.

    Without a rank, of choices of equal cost the one with the least room is taken, where the forest has room,
    so that large holes survive: exactly in the outer domains that were chosen, and those are compared where
    one of a level is enough.
    """
    if int(forest.held[level][domains].sum()) < demand:
        return None
    count = _needed(forest, domains, demand, level)
    if count <= 1:
        return _best_single(forest, domains, demand, level, count, rank)
    if level == forest.last:
        found = _tight(forest, domains, demand, count)
        # where prices differ, more room leaves more to choose cheap nodes from
        chosen = _with_open(forest, domains, demand, level, count) if rank else found.chosen
        return Choice((count,), (count, found.least), chosen)
    return _several(forest, domains, demand, level, count, rank)


def needed_per_level(forest: Forest, domains: IntArray, demand: int, *, level: int) -> tuple[int, ...]:
    """Per level from this one, the fewest domains to open when the other levels do not matter."""
    counts = [_needed(forest, domains, demand, level)]
    for outer in range(level, forest.last):
        domains = forest.inside(outer, domains)
        counts.append(_needed(forest, domains, demand, outer + 1))
    return tuple(counts)


def _needed(forest: Forest, domains: IntArray, demand: int, level: int) -> int:
    missing = forest.missing(level, domains, demand)
    held = -np.sort(-forest.held[level][forest.closed(level, domains)])
    return int(np.searchsorted(np.cumsum(held), missing)) + 1 if missing else 0


def _best_single(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> Choice | None:
    """Where the open domains and at most one more are enough: the best of all such choices."""
    opened = domains[forest.open[level][domains]]
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    enough = closed[forest.held[level][closed] >= missing]
    if level == forest.last:
        enough = enough[np.argsort(forest.room_of(enough), kind="stable")] if count else enough[:0]
        least = int(forest.room_of(enough[:1]).sum())
        chosen = [np.append(opened, one) for one in enough] or [opened]
        choices = [Choice((count,), (count, least), one, settled=True) for one in chosen]
        return best_choice(forest, choices if rank else choices[:1], rank)
    deeper = [
        fewest(forest, forest.inside(level, one), demand, level=level + 1, rank=rank)
        for one in ([np.append(opened, one) for one in enough] if count else [opened])
    ]
    choices = [_below(count, choice) for choice in deeper if choice is not None]
    return best_choice(forest, choices, rank)


def _below(count: int, inner: Choice) -> Choice:
    """The choice that opens `count` domains around the inner choice."""
    return Choice((count, *inner.cost), (count, *inner.bound), inner.domains, settled=inner.settled)


def best_choice(forest: Forest, choices: Sequence[Choice], rank: Rank | None) -> Choice:
    """The best of alternatives; its bound is what is proven of all of them together."""

    def order(choice: Choice) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return choice.cost, rank(choice.domains) if rank else (opened_room(forest, choice.domains),)

    best = min(choices, key=order)
    settled = all(choice.settled for choice in choices if choice.cost == best.cost)
    return Choice(best.cost, min(choice.bound for choice in choices), best.domains, settled=settled)


def opened_room(forest: Forest, domains: IntArray) -> int:
    """The room of those of these deepest domains that were not open."""
    return int(forest.room_of(forest.closed(forest.last, domains)).sum())


def _with_open(forest: Forest, domains: IntArray, demand: int, level: int, count: int) -> IntArray:
    """The open domains, and the `count` largest others, the last one as tight as the demand allows."""
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    opened = domains[forest.open[level][domains]]
    return np.append(opened, closed[largest(forest.held[level][closed], count, missing)])


def _tight(forest: Forest, domains: IntArray, demand: int, count: int) -> Tightest:
    """The open ones of these domains of the deepest level, and the tightest `count` others.

    The least is that of the room of the others. The largest where nobody asks how tight they are.
    """
    if forest.room is None:
        return Tightest(_with_open(forest, domains, demand, forest.last, count), 0)
    closed = forest.closed(forest.last, domains)
    held, room = forest.held[forest.last][closed], forest.room[closed]
    found = tightest(held, count, forest.missing(forest.last, domains, demand))
    least = found.least if np.array_equal(room, held) else int(np.sort(room)[:count].sum())
    opened = domains[forest.open[forest.last][domains]]
    return Tightest(np.append(opened, closed[found.chosen]), least)


def _several(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> Choice | None:
    """Where several domains of this level are needed: tables for one more level at a time, while small."""
    simple = needed_per_level(forest, domains, demand, level=level)
    widest = _with_open(forest, domains, demand, level, count)
    best = _inside(forest, widest, demand, level, (count,), rank)
    able = _large_enough(forest, domains, demand, level, count)
    for deepest in range(level + 1, forest.last + 1):
        depth = deepest - level
        limits = best.cost[: depth + 1]
        if limits[depth] == simple[depth]:
            continue
        if table_work(forest, able, limits, level=level) > TABLE_WORK_MAX:
            return Choice(best.cost, (*best.cost[:depth], *simple[depth:], 0), best.domains)
        table = table_of(forest, able, limits, level=level)
        enough = int(np.searchsorted(table.most[limits[:depth]], demand))
        if enough < limits[depth]:
            chosen = np.array(trace(forest, table, (*limits[:depth], enough)), dtype=np.int64)
            best = _inside(forest, chosen, demand, deepest, (*limits[:depth], enough), rank)
    least = _least_room(forest, domains, demand, level, best)
    if rank is None and opened_room(forest, best.domains) > least:
        best = replace(best, domains=_elsewhere(forest, best, demand, least))
    return Choice(best.cost, (*best.cost, least), best.domains)


def _large_enough(forest: Forest, domains: IntArray, demand: int, level: int, count: int) -> IntArray:
    """The open ones, and those that hold what the `count` - 1 largest beside them do not."""
    held, is_open = forest.held[level][domains], forest.open[level][domains]
    others = np.sort(held[~is_open])[::-1][: count - 1]
    missing = forest.missing(level, domains, demand) - int(others.sum())
    return domains[is_open | (held >= missing)]


def _elsewhere(forest: Forest, best: Choice, demand: int, least: int) -> IntArray:
    """As many deepest domains with less room, where another outer one beside one of theirs has them."""
    chosen, room = best.domains, opened_room(forest, best.domains)
    swaps = islice(_swaps(forest, _homes(forest, chosen), demand, best.cost[-1]), OUTER_SWAPS_MAX)
    for inside in swaps:
        found = _tight(forest, inside, demand, best.cost[-1]).chosen
        if opened_room(forest, found) < room:
            chosen, room = found, opened_room(forest, found)
        if room == least:
            break
    return chosen


def _swaps(forest: Forest, homes: IntArray, demand: int, count: int) -> Iterator[IntArray]:
    """The deepest domains of these outer ones with one exchanged, where so many of them hold the demand."""
    outer = forest.last - 1
    siblings = forest.inner[outer - 1] if outer else (np.arange(len(forest.inner[outer])),)
    for around in siblings:
        ours = forest.closed(outer, around[np.isin(around, homes)])
        others = forest.closed(outer, around[~np.isin(around, homes)])
        for one in ours[np.argsort(forest.held[outer][ours], kind="stable")].tolist():
            for other in others[np.argsort(-forest.held[outer][others], kind="stable")].tolist():
                inside = forest.inside(outer, np.append(homes[homes != one], other))
                closed = forest.closed(forest.last, inside)
                most = int(np.sort(forest.held[forest.last][closed])[-count:].sum())
                if most < forest.missing(forest.last, inside, demand):
                    break
                yield inside


def _least_room(forest: Forest, domains: IntArray, demand: int, level: int, best: Choice) -> int:
    """What as many of the deepest domains have room for at least, in whichever outer ones they lie."""
    if forest.room is None:
        return 0
    found = opened_room(forest, best.domains)
    for outer in range(level, forest.last):
        domains = forest.inside(outer, domains)
    counts_the_same = np.array_equal(forest.room, forest.held[forest.last])
    if counts_the_same and found == forest.missing(forest.last, domains, demand):
        return found
    return _tight(forest, domains, demand, best.cost[-1]).least if best.cost[-1] else 0


def _inside(
    forest: Forest, chosen: IntArray, demand: int, level: int, cost: tuple[int, ...], rank: Rank | None
) -> Choice:
    """The choice that opens these domains of a level at this cost, and the best inside them."""
    if level == forest.last:
        as_it_is = rank is not None or forest.room is None
        return Choice(cost, (*cost, 0), chosen if as_it_is else _tighter(forest, chosen, demand, cost[-1]))
    inner = fewest(forest, forest.inside(level, chosen), demand, level=level + 1, rank=rank)
    if inner is None:
        raise AssertionError("domains that hold the demand hold it on every level")
    return Choice(cost + inner.cost, cost + inner.bound, inner.domains)


def _tighter(forest: Forest, chosen: IntArray, demand: int, count: int) -> IntArray:
    """As many domains of the deepest level, in the same outer ones, that hold least beyond the demand."""
    around = forest.inside(forest.last - 1, _homes(forest, chosen))
    return _tight(forest, around, demand, count).chosen


def _homes(forest: Forest, chosen: IntArray) -> IntArray:
    """The outer domains around these of the deepest level."""
    around = forest.inner[forest.last - 1]
    homes = [home for home, inner in enumerate(around) if np.isin(inner, chosen).any()]
    return np.array(homes, dtype=np.int64)
