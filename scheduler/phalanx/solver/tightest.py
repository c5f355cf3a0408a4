"""Which domains hold a demand and least beyond it, as few as are needed: the larger holes stay whole.

Exact, as a knapsack: of so many domains as short as may be of the same number of the largest domain.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import IntArray
from phalanx.solver.limits import TIGHTEST_CELLS_MAX


class _Lot(Struct, frozen=True):
    """`count` domains, taken together or not at all; each holds `short` less than the largest."""

    short: int
    count: int


def largest(held: IntArray, count: int, demand: int) -> IntArray:
    """Positions of the `count` domains that hold most, the last one as tight as the demand allows."""
    order = np.argsort(-held, kind="stable")
    missing = demand - int(held[order[: count - 1]].sum())
    rest = order[count - 1 :]
    return np.append(order[: count - 1], rest[np.flatnonzero(held[rest] >= missing)[-1:]])


class Tightest(Struct, frozen=True, eq=False):
    """Positions of the domains chosen. No choice of as many that holds the demand holds less than `least`."""

    chosen: IntArray
    least: int


def tightest(held: IntArray, count: int, demand: int) -> Tightest:
    """Of the choices of `count` domains that hold the demand together, one that holds least.

    The `count` largest must hold it. `largest` where the table would have too many entries.
    """
    simple = largest(held, count, demand)
    if int(held[simple].sum()) == demand:
        return Tightest(simple, demand)
    most = int(held.max())
    slack = count * most - demand
    lots = _lots(most - held, count, slack)
    if len(lots) * (count + 1) * (slack + 1) > TIGHTEST_CELLS_MAX:
        return Tightest(simple, demand)
    taken: Counter[int] = Counter()
    for lot in _shortest_of_all(lots, count, slack):
        taken[lot.short] += lot.count
    chosen = [np.flatnonzero(held == most - short)[:number] for short, number in sorted(taken.items())]
    positions = np.concatenate(chosen)
    return Tightest(positions, int(held[positions].sum()))


def _lots(short: IntArray, count: int, slack: int) -> list[_Lot]:
    """Lots that add up to any number of domains that are equally short: 1, 2, 4 and so on, and a rest."""
    lots = []
    for amount, left in zip(*(each.tolist() for each in np.unique(short, return_counts=True)), strict=True):
        left = min(left, count)
        size = 1
        while left and amount * size <= slack:
            size = min(size, left)
            lots.append(_Lot(amount, size))
            left -= size
            size *= 2
    return lots


def _shortest_of_all(lots: Sequence[_Lot], count: int, slack: int) -> list[_Lot]:
    """Lots of `count` domains in all that are as short as may be, but by no more than `slack`."""
    first = np.full((count + 1, slack + 1), -1, dtype=np.int32)  # the lot that first made it so much
    reached = np.zeros(first.shape, dtype=np.bool_)
    reached[0, 0] = True
    for number, lot in enumerate(lots):
        short = lot.short * lot.count
        before = reached[: count + 1 - lot.count, : slack + 1 - short]
        new = before & ~reached[lot.count :, short:]
        first[lot.count :, short:][new] = number
        reached[lot.count :, short:] |= new
    chosen = []
    left, short = count, int(np.flatnonzero(reached[count])[-1])
    while left:
        lot = lots[first[left, short]]
        chosen.append(lot)
        left, short = left - lot.count, short - lot.short * lot.count
    return chosen
