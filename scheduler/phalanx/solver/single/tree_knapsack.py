"""Tables of the dynamic program: the most that is held for each number of domains opened on each level."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import IntArray
from phalanx.solver.forest import Forest


class Table(Struct, frozen=True, eq=False):
    """`most[i, j, …]`: the most that is held with at most i of these domains opened, j of the next level…

    For all levels but the last, `steps[n]` is the table when only the first n domains are there, and
    `parts[n]` is the table of what is inside the n-th.
    """

    level: int
    domains: IntArray
    most: IntArray
    steps: tuple[IntArray, ...] = ()
    parts: tuple["Table", ...] = ()


def table_work(forest: Forest, domains: IntArray, limits: Sequence[int], *, level: int) -> int:
    """About how many additions `table_of` takes."""
    if len(limits) == 1:
        return len(domains)
    own = math.prod(_shape(forest, domains, limits, level))
    work = 0
    for domain in domains.tolist():
        inner = forest.inner[level][domain]
        work += own * math.prod(_shape(forest, inner, limits[1:], level + 1))
        work += table_work(forest, inner, limits[1:], level=level + 1)
    return work


def table_of(forest: Forest, domains: IntArray, limits: Sequence[int], *, level: int) -> Table:
    """The table of these domains of a level and of the next ones, one limit per level."""
    if len(limits) == 1:
        return Table(level=level, domains=domains, most=_largest_first(forest, domains, limits[0], level))
    shape = _shape(forest, domains, limits, level)
    steps = [np.zeros(shape, dtype=np.int64)]
    parts = []
    for domain in domains.tolist():
        part = table_of(forest, forest.inner[level][domain], limits[1:], level=level + 1)
        parts.append(part)
        steps.append(_joined(steps[-1], part.most, is_open=bool(forest.open[level][domain])))
    return Table(level=level, domains=domains, most=steps[-1], steps=tuple(steps), parts=tuple(parts))


def trace(forest: Forest, table: Table, index: tuple[int, ...]) -> list[int]:
    """The domains of the deepest level of the table that together hold `table.most[index]`."""
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
    """Per level one more than the limit, or than the domains that could be opened where these are fewer."""
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


def _opened(forest: Forest, table: Table) -> list[int]:
    opened: list[int] = _opened_of(forest, table.domains, table.level).tolist()
    return opened


def _joined(before: IntArray, part: IntArray, *, is_open: bool) -> IntArray:
    """The table with one more domain: left out, or used with each number of inner domains."""
    after = before.copy()
    opened, (outer, *sizes) = (0 if is_open else 1), before.shape
    fitting = part[tuple([slice(size) for size in sizes])]
    for inner, most in zip(np.ndindex(fitting.shape), fitting.ravel().tolist(), strict=True):
        target = after[(slice(opened, None), *[slice(take, None) for take in inner])]
        rest = [slice(size - take) for take, size in zip(inner, sizes, strict=True)]
        np.maximum(target, before[(slice(outer - opened), *rest)] + most, out=target)
    return after
