"""The fewest domains that hold a demand, the widest level first, exactly: the heart of the dynamic program.

On one level the largest domains are the fewest. Where one domain of a level is enough, each that is large
enough is tried. Where several are needed, a table per domain holds the most that fits for each number of
domains opened per level below it, and tables of neighbours are added up as in a knapsack. Open domains cost
nothing.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from phalanx.limits import TABLE_WORK_MAX
from phalanx.solver.forest import Forest
from phalanx.solver.rows import IntArray
from phalanx.solver.tables import table_of, table_work, trace
from phalanx.solver.tightest import largest, tightest

Rank = Callable[[IntArray], tuple[int, ...]]
"""Orders choices of equal cost by the deepest domains chosen; the smallest rank is the best."""

Pick = Callable[[IntArray, int, int], IntArray]
"""Of domains that hold so much each, so many that hold a demand; their positions."""


class Choice(Struct, frozen=True, eq=False):
    """Domains opened per level, the proven lexicographic bound on that, and the deepest domains to use.

    `settled` when all choices of this cost were compared by rank.
    """

    cost: tuple[int, ...]
    bound: tuple[int, ...]
    domains: IntArray
    settled: bool = False


def fewest(
    forest: Forest, domains: IntArray, demand: int, *, level: int = 0, rank: Rank | None = None
) -> Choice | None:
    """The best choice among these domains of a level and of what is inside them; None when they hold less.

    Without a rank, of choices of equal cost the one that holds least is taken, so that large holes survive:
    exactly in the outer domains that were chosen, and those are compared where one of a level is enough.
    """
    if int(forest.held[level][domains].sum()) < demand:
        return None
    count = _needed(forest, domains, demand, level)
    if count <= 1:
        return _best_single(forest, domains, demand, level, count, rank)
    if level == forest.last:  # where prices differ, more room leaves more to choose cheap nodes from
        pick = largest if rank else tightest
        return Choice((count,), (count,), _with_open(forest, domains, demand, level, count, pick))
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
    largest = -np.sort(-forest.held[level][forest.closed(level, domains)])
    return int(np.searchsorted(np.cumsum(largest), missing)) + 1 if missing else 0


def _best_single(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> Choice | None:
    """Where the open domains and at most one more are enough: the best of all such choices."""
    opened = domains[forest.open[level][domains]]
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    enough = closed[forest.held[level][closed] >= missing]
    if level == forest.last and rank is None:
        smallest = enough[np.argsort(forest.held[level][enough], kind="stable")][:count]
        return Choice((count,), (count,), np.append(opened, smallest))
    chosen = [np.append(opened, one) for one in enough] if count else [opened]
    if level == forest.last:
        choices = [Choice((count,), (count,), one, settled=True) for one in chosen]
    else:
        deeper = [
            fewest(forest, forest.inside(level, one), demand, level=level + 1, rank=rank) for one in chosen
        ]
        choices = [_below(count, choice) for choice in deeper if choice is not None]
    return best_choice(forest, choices, rank)


def _below(count: int, inner: Choice) -> Choice:
    """The choice that opens `count` domains around the inner choice."""
    return Choice((count, *inner.cost), (count, *inner.bound), inner.domains, settled=inner.settled)


def best_choice(forest: Forest, choices: Sequence[Choice], rank: Rank | None) -> Choice:
    """The best of alternatives; its bound is what is proven of all of them together."""

    def order(choice: Choice) -> tuple[tuple[int, ...], tuple[int, ...]]:
        held = forest.held[forest.last][choice.domains]
        return choice.cost, rank(choice.domains) if rank else (int(held.sum()),)

    best = min(choices, key=order)
    settled = all(choice.settled for choice in choices if choice.cost == best.cost)
    return Choice(best.cost, min(choice.bound for choice in choices), best.domains, settled=settled)


def _with_open(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, pick: Pick
) -> IntArray:
    """The open domains, and `count` others that hold what those do not."""
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    opened = domains[forest.open[level][domains]]
    return np.append(opened, closed[pick(forest.held[level][closed], count, missing)])


def _several(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> Choice | None:
    """Where several domains of this level are needed: tables for one more level at a time, while small."""
    simple = needed_per_level(forest, domains, demand, level=level)
    widest = _with_open(forest, domains, demand, level, count, largest)
    best = _inside(forest, widest, demand, level, (count,), rank)
    for deepest in range(level + 1, forest.last + 1):
        depth = deepest - level
        limits = best.cost[: depth + 1]
        if limits[depth] == simple[depth]:
            continue
        if table_work(forest, domains, limits, level=level) > TABLE_WORK_MAX:
            return Choice(best.cost, best.cost[:depth] + simple[depth:], best.domains)
        table = table_of(forest, domains, limits, level=level)
        enough = int(np.searchsorted(table.most[limits[:depth]], demand))
        if enough < limits[depth]:
            chosen = np.array(trace(forest, table, (*limits[:depth], enough)), dtype=np.int64)
            best = _inside(forest, chosen, demand, deepest, (*limits[:depth], enough), rank)
    return Choice(best.cost, best.cost, best.domains)


def _inside(
    forest: Forest, chosen: IntArray, demand: int, level: int, cost: tuple[int, ...], rank: Rank | None
) -> Choice:
    """The choice that opens these domains of a level at this cost, and the best inside them."""
    if level == forest.last:
        return Choice(cost, cost, chosen if rank else _tighter(forest, chosen, demand, cost[-1]))
    inner = fewest(forest, forest.inside(level, chosen), demand, level=level + 1, rank=rank)
    if inner is None:
        raise AssertionError("domains that hold the demand hold it on every level")
    return Choice(cost + inner.cost, cost + inner.bound, inner.domains)


def _tighter(forest: Forest, chosen: IntArray, demand: int, count: int) -> IntArray:
    """As many domains of the deepest level, in the same outer ones, that hold least beyond the demand."""
    outer = forest.last - 1
    homes = [home for home, inner in enumerate(forest.inner[outer]) if np.isin(inner, chosen).any()]
    around = forest.inside(outer, np.array(homes, dtype=np.int64))
    return _with_open(forest, around, demand, forest.last, count, tightest)
