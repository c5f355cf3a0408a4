"""Knapsack tables on the tree of domains.

`table_of` is a tree knapsack: for each number of domains opened per level, the most that is held. Tables of
siblings combine by a max-plus convolution; the work is the product of the table shapes along the tree.
`tightest` is a cardinality-constrained subset sum: as many domains as needed that hold the demand with the
least excess, with binary splitting of equal sizes.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from phalanx.solver.arrays import BoolArray, ClassRows, IntArray, sum_per_domain

TIGHTEST_CELLS_MAX: Final = 4_000_000
"""Entries of the subset-sum table over all of its steps: about 15 ms."""


class Forest(Struct, frozen=True, eq=False):
    """The domains of the levels in question, widest first."""

    held: tuple[IntArray, ...]
    """Per level and domain, the amount held: pods of one role, or one resource."""
    open: tuple[BoolArray, ...]
    """Per level and domain, whether members already run there."""
    inner: tuple[tuple[IntArray, ...], ...]
    """Per level but the last, the domains of the next level inside each domain."""
    capacity: IntArray | None = None
    """Capacity of the deepest domains; None without a tightness term."""

    @property
    def last(self) -> int:
        """The deepest level."""
        return len(self.held) - 1

    def inside(self, level: int, domains: IntArray) -> IntArray:
        """The domains of the next level inside these domains."""
        return np.concatenate([self.inner[level][domain] for domain in domains.tolist()])

    def capacity_of(self, domains: IntArray) -> IntArray:
        """The capacity of these deepest domains; 0 without a tightness term."""
        return np.zeros_like(domains) if self.capacity is None else self.capacity[domains]

    def closed(self, level: int, domains: IntArray) -> IntArray:
        """Those of the domains that are not open."""
        return domains[~self.open[level][domains]]

    def missing(self, level: int, domains: IntArray, demand: int) -> int:
        """The part of the demand that the open domains do not hold."""
        return max(0, demand - int(self.held[level][domains[self.open[level][domains]]].sum()))


def forest_of(rows: ClassRows, held: IntArray) -> Forest:
    """Build the forest of the levels that matter to the gang from amounts per row; without capacity."""
    levels = rows.rules.gang_depth
    return Forest(
        held=tuple([sum_per_domain(domain, held) for domain in rows.domain[:levels]]),
        open=rows.tree.open[:levels],
        inner=_inner(rows, levels),
    )


def with_capacity(forest: Forest, capacity: IntArray | None) -> Forest:
    """Set the capacity; None stands for what the domains hold."""
    return replace(forest, capacity=forest.held[forest.last] if capacity is None else capacity)


def _inner(rows: ClassRows, count: int) -> tuple[tuple[IntArray, ...], ...]:
    """Per level but the last, the domains of the next level inside each domain."""
    levels = []
    for level in range(1, count):
        parent = rows.tree.parent[level]
        order = np.argsort(parent, kind="stable")
        ends = np.cumsum(np.bincount(parent, minlength=len(rows.tree.parent[level - 1])))
        levels.append(tuple(np.split(order, ends[:-1])))
    return tuple(levels)


class KnapsackTable(Struct, frozen=True, eq=False):
    level: int
    domains: IntArray
    most: IntArray
    """`most[i, j, ...]`: the most held with at most i of these domains opened, j of the next level, etc."""
    steps: tuple[IntArray, ...] = ()
    """Not on the last level: the tables when only the first n domains exist."""
    parts: tuple["KnapsackTable", ...] = ()
    """Not on the last level: the table of what is inside the n-th domain."""


def table_work(forest: Forest, domains: IntArray, limits: Sequence[int], *, level: int) -> int:
    """Estimate the additions that `table_of` takes."""
    if len(limits) == 1:
        return len(domains)
    own = math.prod(_shape(forest, domains, limits, level))
    work = 0
    for domain in domains.tolist():
        inner = forest.inner[level][domain]
        work += own * math.prod(_shape(forest, inner, limits[1:], level + 1))
        work += table_work(forest, inner, limits[1:], level=level + 1)
    return work


def table_of(forest: Forest, domains: IntArray, limits: Sequence[int], *, level: int) -> KnapsackTable:
    """Build the table of these domains and the levels below, with one limit per level."""
    if len(limits) == 1:
        return KnapsackTable(
            level=level, domains=domains, most=_largest_first(forest, domains, limits[0], level)
        )
    shape = _shape(forest, domains, limits, level)
    steps = [np.zeros(shape, dtype=np.int64)]
    parts = []
    for domain in domains.tolist():
        part = table_of(forest, forest.inner[level][domain], limits[1:], level=level + 1)
        parts.append(part)
        steps.append(_joined(steps[-1], part.most, is_open=bool(forest.open[level][domain])))
    return KnapsackTable(level=level, domains=domains, most=steps[-1], steps=tuple(steps), parts=tuple(parts))


def trace(forest: Forest, table: KnapsackTable, index: tuple[int, ...]) -> list[int]:
    """Return the deepest domains that together hold `table.most[index]`."""
    if not table.parts:
        return _by_size(forest, table.domains, table.level)[: index[0]] + _opened(forest, table)
    chosen: list[int] = []
    for number in reversed(range(len(table.parts))):
        before, part = table.steps[number], table.parts[number].most
        after = int(table.steps[number + 1][index])
        is_open = bool(forest.open[table.level][table.domains[number]])
        if not is_open and int(before[index]) == after:
            continue
        for inner in np.ndindex(part.shape):
            rest = _minus(index, (0 if is_open else 1, *inner))
            if min(rest) >= 0 and int(before[rest]) + int(part[inner]) == after:
                chosen += trace(forest, table.parts[number], inner)
                index = rest
                break
    return chosen


def _minus(index: tuple[int, ...], used: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(have - take for have, take in zip(index, used, strict=True))


def _shape(forest: Forest, domains: IntArray, limits: Sequence[int], level: int) -> tuple[int, ...]:
    """Per level one more than the limit, or than the domains that could be opened."""
    shape = []
    for depth, limit in enumerate(limits):
        shape.append(min(limit, len(forest.closed(level + depth, domains))) + 1)
        if depth + 1 < len(limits):
            domains = forest.inside(level + depth, domains)
    return tuple(shape)


def _largest_first(forest: Forest, domains: IntArray, limit: int, level: int) -> IntArray:
    free = int(forest.held[level][_opened_of(forest, domains, level)].sum())
    sizes = forest.held[level][_by_size(forest, domains, level)[:limit]]
    return free + np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def _by_size(forest: Forest, domains: IntArray, level: int) -> list[int]:
    closed = forest.closed(level, domains)
    largest: list[int] = closed[np.argsort(-forest.held[level][closed], kind="stable")].tolist()
    return largest


def _opened_of(forest: Forest, domains: IntArray, level: int) -> IntArray:
    return domains[forest.open[level][domains]]


def _opened(forest: Forest, table: KnapsackTable) -> list[int]:
    opened: list[int] = _opened_of(forest, table.domains, table.level).tolist()
    return opened


def _joined(before: IntArray, part: IntArray, *, is_open: bool) -> IntArray:
    """Add one more domain: left out, or used with each number of inner domains."""
    after = before.copy()
    opened, (outer, *sizes) = (0 if is_open else 1), before.shape
    fitting = part[tuple([slice(size) for size in sizes])]
    for inner, most in zip(np.ndindex(fitting.shape), fitting.ravel().tolist(), strict=True):
        target = after[(slice(opened, None), *[slice(take, None) for take in inner])]
        rest = [slice(size - take) for take, size in zip(inner, sizes, strict=True)]
        np.maximum(target, before[(slice(outer - opened), *rest)] + most, out=target)
    return after


class _Bundle(Struct, frozen=True):
    """`count` domains taken together or not at all, each `shortfall` below the largest."""

    shortfall: int
    count: int


def largest(held: IntArray, count: int, demand: int) -> IntArray:
    """Positions of the `count` largest domains, the last as tight as the demand allows."""
    order = np.argsort(-held, kind="stable")
    missing = demand - int(held[order[: count - 1]].sum())
    rest = order[count - 1 :]
    return np.append(order[: count - 1], rest[np.flatnonzero(held[rest] >= missing)[-1:]])


class TightSelection(Struct, frozen=True, eq=False):
    """Positions of the chosen domains."""

    chosen: IntArray
    least: int
    """No choice of as many domains that holds the demand holds less."""


def tightest(held: IntArray, count: int, demand: int) -> TightSelection:
    """Choose `count` domains that hold the demand with the least excess.

    The `count` largest must hold it. They are the answer where the table would be too large.
    """
    simple = largest(held, count, demand)
    if int(held[simple].sum()) == demand:
        return TightSelection(simple, demand)
    most = int(held.max())
    slack = count * most - demand
    bundles = _bundles(most - held, count, slack)
    if len(bundles) * (count + 1) * (slack + 1) > TIGHTEST_CELLS_MAX:
        return TightSelection(simple, demand)
    taken: Counter[int] = Counter()
    for bundle in _largest_shortfall(bundles, count, slack):
        taken[bundle.shortfall] += bundle.count
    chosen = [
        np.flatnonzero(held == most - shortfall)[:number] for shortfall, number in sorted(taken.items())
    ]
    positions = np.concatenate(chosen)
    return TightSelection(positions, int(held[positions].sum()))


def _bundles(shortfall: IntArray, count: int, slack: int) -> list[_Bundle]:
    """Split equal domains into bundles of 1, 2, 4, ... and a rest."""
    bundles = []
    for amount, left in zip(
        *(column.tolist() for column in np.unique(shortfall, return_counts=True)), strict=True
    ):
        left = min(left, count)
        size = 1
        while left and amount * size <= slack:
            size = min(size, left)
            bundles.append(_Bundle(amount, size))
            left -= size
            size *= 2
    return bundles


def _largest_shortfall(bundles: Sequence[_Bundle], count: int, slack: int) -> list[_Bundle]:
    """Bundles of `count` domains with the largest total shortfall up to `slack`."""
    first = np.full((count + 1, slack + 1), -1, dtype=np.int32)  # the bundle that first reached this sum
    reached = np.zeros(first.shape, dtype=np.bool_)
    reached[0, 0] = True
    for number, bundle in enumerate(bundles):
        shortfall = bundle.shortfall * bundle.count
        before = reached[: count + 1 - bundle.count, : slack + 1 - shortfall]
        new = before & ~reached[bundle.count :, shortfall:]
        first[bundle.count :, shortfall:][new] = number
        reached[bundle.count :, shortfall:] |= new
    chosen = []
    left, shortfall = count, int(np.flatnonzero(reached[count])[-1])
    while left:
        bundle = bundles[first[left, shortfall]]
        chosen.append(bundle)
        left, shortfall = left - bundle.count, shortfall - bundle.shortfall * bundle.count
    return chosen
