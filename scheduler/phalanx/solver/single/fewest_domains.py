"""The fewest domains that hold a demand, lexicographically from the widest level down, exactly.

On one level the largest domains are the fewest. Where one domain of a level suffices, each that is large
enough is tried. Where several are needed, the tree knapsack decides. Domains with running members (open
domains) cost nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from phalanx.solver.arrays import IntArray
from phalanx.solver.single.tree_knapsack import (
    Forest,
    TightSelection,
    largest,
    table_of,
    table_work,
    tightest,
    trace,
)

TABLE_WORK_MAX: Final = 20_000_000
"""Additions of the dynamic program for one level, about 0.1 s. Above it a simpler bound is used."""

OUTER_SWAPS_MAX: Final = 8
"""Exchanges of an outer domain that are tried for tighter inner ones, a millisecond each."""

Rank = Callable[[IntArray], tuple[int, ...]]
"""Orders choices of equal cost by their deepest domains; the smallest rank is the best."""


class DomainChoice(Struct, frozen=True, eq=False):
    """A choice of domains and what is proven about it."""

    cost: tuple[int, ...]
    """Domains opened per level."""
    bound: tuple[int, ...]
    """Lexicographic lower bound on `cost`, followed by one on the capacity opened on the deepest level."""
    domains: IntArray
    """The deepest domains to use."""
    compared: bool = False
    """Whether all choices of this cost were compared by rank."""


def fewest(
    forest: Forest, domains: IntArray, demand: int, *, level: int = 0, rank: Rank | None = None
) -> DomainChoice | None:
    """Return the best choice among these domains and those inside; None when they hold less.

    Without a rank, the least capacity decides among choices of equal cost: exactly inside the chosen outer
    domains, and across outer domains where one of a level suffices.
    """
    if int(forest.held[level][domains].sum()) < demand:
        return None
    count = _fewest_needed(forest, domains, demand, level)
    if count <= 1:
        return _best_single(forest, domains, demand, level, count, rank)
    if level == forest.last:
        found = _tight(forest, domains, demand, count)
        # if costs differ, more capacity gives more choice of cheap nodes
        chosen = _with_open(forest, domains, demand, level, count) if rank else found.chosen
        return DomainChoice((count,), (count, found.least), chosen)
    return _several(forest, domains, demand, level, count, rank)


def needed_per_level(forest: Forest, domains: IntArray, demand: int, *, level: int) -> tuple[int, ...]:
    """The fewest domains to open per level, each level by itself."""
    counts = [_fewest_needed(forest, domains, demand, level)]
    for outer in range(level, forest.last):
        domains = forest.inside(outer, domains)
        counts.append(_fewest_needed(forest, domains, demand, outer + 1))
    return tuple(counts)


def _fewest_needed(forest: Forest, domains: IntArray, demand: int, level: int) -> int:
    missing = forest.missing(level, domains, demand)
    held = -np.sort(-forest.held[level][forest.closed(level, domains)])
    return int(np.searchsorted(np.cumsum(held), missing)) + 1 if missing else 0


def _best_single(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> DomainChoice | None:
    """Where the open domains and at most one more suffice: the best of all such choices."""
    opened = domains[forest.open[level][domains]]
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    enough = closed[forest.held[level][closed] >= missing]
    if level == forest.last:
        enough = enough[np.argsort(forest.capacity_of(enough), kind="stable")] if count else enough[:0]
        least = int(forest.capacity_of(enough[:1]).sum())
        chosen = [np.append(opened, domain) for domain in enough] or [opened]
        choices = [DomainChoice((count,), (count, least), domain, compared=True) for domain in chosen]
        return best_choice(forest, choices if rank else choices[:1], rank)
    deeper = [
        fewest(forest, forest.inside(level, domain), demand, level=level + 1, rank=rank)
        for domain in ([np.append(opened, domain) for domain in enough] if count else [opened])
    ]
    choices = [_with_outer(count, choice) for choice in deeper if choice is not None]
    return best_choice(forest, choices, rank)


def _with_outer(count: int, inner: DomainChoice) -> DomainChoice:
    """Open `count` domains around the inner choice."""
    return DomainChoice((count, *inner.cost), (count, *inner.bound), inner.domains, compared=inner.compared)


def best_choice(forest: Forest, choices: Sequence[DomainChoice], rank: Rank | None) -> DomainChoice:
    """Return the best of alternatives with the bound that holds for all of them."""

    def order(choice: DomainChoice) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return choice.cost, rank(choice.domains) if rank else (opened_capacity(forest, choice.domains),)

    best = min(choices, key=order)
    compared = all(choice.compared for choice in choices if choice.cost == best.cost)
    return DomainChoice(best.cost, min(choice.bound for choice in choices), best.domains, compared=compared)


def opened_capacity(forest: Forest, domains: IntArray) -> int:
    """The capacity of these deepest domains without the open ones."""
    return int(forest.capacity_of(forest.closed(forest.last, domains)).sum())


def _with_open(forest: Forest, domains: IntArray, demand: int, level: int, count: int) -> IntArray:
    """The open domains and the `count` largest others, the last as tight as the demand allows."""
    closed = forest.closed(level, domains)
    missing = forest.missing(level, domains, demand)
    opened = domains[forest.open[level][domains]]
    return np.append(opened, closed[largest(forest.held[level][closed], count, missing)])


def _tight(forest: Forest, domains: IntArray, demand: int, count: int) -> TightSelection:
    """The open ones of these deepest domains and the tightest `count` others.

    `least` bounds the capacity of the others; without a tightness term the largest are taken.
    """
    if forest.capacity is None:
        return TightSelection(_with_open(forest, domains, demand, forest.last, count), 0)
    closed = forest.closed(forest.last, domains)
    held, capacity = forest.held[forest.last][closed], forest.capacity[closed]
    found = tightest(held, count, forest.missing(forest.last, domains, demand))
    least = found.least if np.array_equal(capacity, held) else int(np.sort(capacity)[:count].sum())
    opened = domains[forest.open[forest.last][domains]]
    return TightSelection(np.append(opened, closed[found.chosen]), least)


def _several(
    forest: Forest, domains: IntArray, demand: int, level: int, count: int, rank: Rank | None
) -> DomainChoice | None:
    """Where several domains are needed: knapsack tables for one more level at a time while they are small."""
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
            return DomainChoice(best.cost, (*best.cost[:depth], *simple[depth:], 0), best.domains)
        table = table_of(forest, able, limits, level=level)
        enough = int(np.searchsorted(table.most[limits[:depth]], demand))
        if enough < limits[depth]:
            chosen = np.array(trace(forest, table, (*limits[:depth], enough)), dtype=np.int64)
            best = _inside(forest, chosen, demand, deepest, (*limits[:depth], enough), rank)
    least = _least_capacity(forest, domains, demand, level, best)
    if rank is None and opened_capacity(forest, best.domains) > least:
        best = replace(best, domains=_with_swapped_outer_domain(forest, best, demand, least))
    return DomainChoice(best.cost, (*best.cost, least), best.domains)


def _large_enough(forest: Forest, domains: IntArray, demand: int, level: int, count: int) -> IntArray:
    """Open domains, and those that hold what the `count` - 1 largest others do not."""
    held, is_open = forest.held[level][domains], forest.open[level][domains]
    others = np.sort(held[~is_open])[::-1][: count - 1]
    missing = forest.missing(level, domains, demand) - int(others.sum())
    return domains[is_open | (held >= missing)]


def _with_swapped_outer_domain(forest: Forest, best: DomainChoice, demand: int, least: int) -> IntArray:
    """As many deepest domains with less capacity after the exchange of one outer domain."""
    chosen, capacity = best.domains, opened_capacity(forest, best.domains)
    swaps = islice(
        _outer_swaps(forest, _outer_domains(forest, chosen), demand, best.cost[-1]), OUTER_SWAPS_MAX
    )
    for inside in swaps:
        found = _tight(forest, inside, demand, best.cost[-1]).chosen
        if opened_capacity(forest, found) < capacity:
            chosen, capacity = found, opened_capacity(forest, found)
        if capacity == least:
            break
    return chosen


def _outer_swaps(forest: Forest, outer_domains: IntArray, demand: int, count: int) -> Iterator[IntArray]:
    """The deepest domains after each exchange of one outer domain, where enough of them hold the demand."""
    outer = forest.last - 1
    siblings = forest.inner[outer - 1] if outer else (np.arange(len(forest.inner[outer])),)
    for around in siblings:
        ours = forest.closed(outer, around[np.isin(around, outer_domains)])
        others = forest.closed(outer, around[~np.isin(around, outer_domains)])
        for domain in ours[np.argsort(forest.held[outer][ours], kind="stable")].tolist():
            for other in others[np.argsort(-forest.held[outer][others], kind="stable")].tolist():
                inside = forest.inside(outer, np.append(outer_domains[outer_domains != domain], other))
                closed = forest.closed(forest.last, inside)
                most = int(np.sort(forest.held[forest.last][closed])[-count:].sum())
                if most < forest.missing(forest.last, inside, demand):
                    break
                yield inside


def _least_capacity(forest: Forest, domains: IntArray, demand: int, level: int, best: DomainChoice) -> int:
    """A lower bound on the capacity of as many deepest domains, in any outer ones."""
    if forest.capacity is None:
        return 0
    found = opened_capacity(forest, best.domains)
    for outer in range(level, forest.last):
        domains = forest.inside(outer, domains)
    counts_the_same = np.array_equal(forest.capacity, forest.held[forest.last])
    if counts_the_same and found == forest.missing(forest.last, domains, demand):
        return found
    return _tight(forest, domains, demand, best.cost[-1]).least if best.cost[-1] else 0


def _inside(
    forest: Forest, chosen: IntArray, demand: int, level: int, cost: tuple[int, ...], rank: Rank | None
) -> DomainChoice:
    """The choice that opens these domains at this cost, and the best inside them."""
    if level == forest.last:
        as_it_is = rank is not None or forest.capacity is None
        return DomainChoice(
            cost, (*cost, 0), chosen if as_it_is else _tighter(forest, chosen, demand, cost[-1])
        )
    inner = fewest(forest, forest.inside(level, chosen), demand, level=level + 1, rank=rank)
    if inner is None:
        raise AssertionError("domains that hold the demand hold it on every level")
    return DomainChoice(cost + inner.cost, cost + inner.bound, inner.domains)


def _tighter(forest: Forest, chosen: IntArray, demand: int, count: int) -> IntArray:
    """As many deepest domains in the same outer ones that hold least beyond the demand."""
    around = forest.inside(forest.last - 1, _outer_domains(forest, chosen))
    return _tight(forest, around, demand, count).chosen


def _outer_domains(forest: Forest, chosen: IntArray) -> IntArray:
    """The outer domains that contain these deepest ones."""
    around = forest.inner[forest.last - 1]
    outer_domains = [home for home, inner in enumerate(around) if np.isin(inner, chosen).any()]
    return np.array(outer_domains, dtype=np.int64)
