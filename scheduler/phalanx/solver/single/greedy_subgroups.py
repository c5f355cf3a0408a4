"""Greedy search where subgroups have rules of their own: one subgroup after the other, the widest rule first.

A subgroup that must share a domain tries domains, tightest first, and all that lies inside it is placed
there before anything else is. One that wishes for few domains tries single ones of the deepest level first,
then of wider ones, then takes the largest. It goes back on a choice only a bounded number of times; what it
does not find is left to CP-SAT.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.limits import SUBGROUP_TRIES_MAX
from phalanx.solver.anchors import anchored, homes, inhabited
from phalanx.solver.arrays import BoolArray, IntArray
from phalanx.solver.nodetable import Counts, Found, NodeTable
from phalanx.solver.objective import is_domain
from phalanx.solver.problem_rules import Bond, Gathering
from phalanx.solver.single.best_fit import fill, fits_beside
from phalanx.solver.single.scopes import Scope

Part = Bond | Gathering


def search_bonded(table: NodeTable, scope: Scope) -> Found | None:
    """All maximums, else all minimums, in the scope and under the rules of subgroups; None when not found."""
    roles, wishes = table.rows.problem.roles, table.rows.book.gatherings
    for want in ([role.maximum for role in roles], [role.minimum for role in roles]):
        for gatherings in dict.fromkeys((wishes, ())):
            counts = _Search(table, scope.nodes, want).run((*table.rows.book.bonds, *gatherings))
            if counts is not None:
                return Found(nodes=scope.nodes, counts=counts)
    return None


def closer_subgroups(table: NodeTable, found: Found) -> Found:
    """As many pods on the same nodes, with subgroups that wish so in fewer domains, where that is found."""
    counts = _Search(table, found.nodes, found.placed).run(table.rows.book.gatherings)
    if counts is None:
        return found
    return min(found, Found(nodes=found.nodes, counts=counts), key=lambda one: _spans(table, one))


def _spans(table: NodeTable, found: Found) -> list[int]:
    """Per level, the domains that subgroups open where they wish for few, added up."""
    rows = table.rows
    spans = [0] * rows.book.gathered_depth
    for gathering in rows.book.gatherings:
        used = table.row[found.nodes[found.counts[:, list(gathering.roles)].any(axis=1)]]
        for level in range(gathering.depth):
            opened = np.setdiff1d(rows.domain[level][used], inhabited(rows, gathering, level))
            spans[level] += len(opened)
    return spans


def _place_in_order(part: Part) -> tuple[int, int, int, int]:
    """The widest first; of equal ones, what should share a domain, then what must, then segments."""
    if isinstance(part, Gathering):
        return (-len(part.roles), 0, part.depth, 0)
    return (-len(part.roles), 2 if part.size else 1, part.level, part.size)


class _Search:
    """One attempt to place so many pods per role on the selected nodes."""

    def __init__(self, table: NodeTable, nodes: IntArray, want: Sequence[int]) -> None:
        self._table = table
        self._nodes = nodes
        self._row = table.row[nodes]
        self._want = list(want)
        self._tries = 0
        self._wishes: list[Gathering] = []

    def run(self, parts: Sequence[Part]) -> Counts | None:
        """Pods per node and role, or None."""
        nothing = np.zeros((len(self._nodes), len(self._want)), dtype=np.int64)
        everywhere = np.ones(len(self._nodes), dtype=np.bool_)
        ordered = sorted(parts, key=_place_in_order)
        self._wishes = [one for one in ordered if isinstance(one, Gathering)]
        return self._seat(nothing, frozenset(range(len(self._want))), ordered, everywhere)

    def _seat(
        self, counts: Counts, roles: frozenset[int], parts: Sequence[Part], where: BoolArray
    ) -> Counts | None:
        """All pods of these roles on top of the counts, on nodes of `where`; None when not found."""
        if not parts:
            around = [one for one in self._wishes if roles and roles <= frozenset(one.roles)]
            wish = min(around, key=lambda one: len(one.roles), default=None)
            return self._in_few(counts, roles, wish, where) if wish else self._all_of(counts, roles, where)
        part, rest = parts[0], parts[1:]
        inner = [one for one in rest if frozenset(one.roles) <= frozenset(part.roles)]
        others = [one for one in rest if one not in inner]
        for seated in self._ways(counts, part, inner, where):
            whole = self._seat(seated, roles - frozenset(part.roles), others, where)
            if whole is not None:
                return whole
        return None

    def _ways(self, counts: Counts, part: Part, inner: Sequence[Part], where: BoolArray) -> Iterator[Counts]:
        """Ways to place the pods of the part's roles, best first."""
        if isinstance(part, Gathering):
            domains = self._wished(counts, part, where)
        elif not part.size:
            domains = self._allowed(counts, part, where)
        elif not any(isinstance(one, Bond) for one in inner):
            domains = iter([where])
        else:
            return
        for within in domains:
            if self._tries >= SUBGROUP_TRIES_MAX:
                return
            self._tries += 1
            if isinstance(part, Bond) and part.size:
                seated = self._in_segments(counts, part, within)
            else:
                seated = self._seat(counts, frozenset(part.roles), inner, within)
            if seated is not None:
                yield seated

    def _allowed(self, counts: Counts, bond: Bond, where: BoolArray) -> Iterator[BoolArray]:
        """The nodes of each domain in which the bond's pods may lie and could have room, tightest first."""
        rows = self._table.rows
        domain, allowed = rows.domain[bond.level][self._row], homes(rows, bond)
        for one in self._roomy(counts, bond.roles, bond.level, where & self._lies(bond)):
            if allowed is None or one in allowed:
                yield where & (domain == one)

    def _wished(self, counts: Counts, wish: Gathering, where: BoolArray) -> Iterator[BoolArray]:
        """The nodes of each domain with room for the subgroup, the deepest level first, at last all nodes."""
        rows = self._table.rows
        for level in reversed(range(wish.depth)):
            domain, there = rows.domain[level][self._row], inhabited(rows, wish, level)
            roomy = self._roomy(counts, wish.roles, level, where)
            for one in (*(one for one in roomy if one in there), *(one for one in roomy if one not in there)):
                yield where & (domain == one)
        yield where

    def _roomy(self, counts: Counts, roles: Sequence[int], level: int, where: BoolArray) -> list[int]:
        """The domains that could hold each of the roles alone beside the counts, tightest first."""
        held = self._held(counts, roles, level, where)
        enough = np.flatnonzero((held >= [self._want[role] for role in roles]).all(axis=1))
        return sorted(enough.tolist(), key=lambda one: (int(held[one].sum()), one))

    def _held(self, counts: Counts, roles: Sequence[int], level: int, where: BoolArray) -> IntArray:
        """Per domain of the level and role, pods that fit beside the counts when the role is alone."""
        rows = self._table.rows
        held = np.zeros((len(rows.tree.open[level]), len(roles)), dtype=np.int64)
        fits = fits_beside(self._table, self._nodes[where], counts[where], roles)
        np.add.at(held, rows.domain[level][self._row[where]], fits)
        return held

    def _in_few(
        self, counts: Counts, roles: frozenset[int], wish: Gathering, where: BoolArray
    ) -> Counts | None:
        """All pods of the roles where others of the subgroup lie, and in the fewest largest domains."""
        level, ordered = wish.depth - 1, sorted(roles)
        domain = self._table.rows.domain[level][self._row]
        used = domain[counts[:, list(wish.roles)].any(axis=1)]
        there = np.union1d(used, inhabited(self._table.rows, wish, level)).astype(np.int64)
        want = [self._want[role] for role in ordered]
        held = np.minimum(self._held(counts, ordered, level, where), want)
        others = np.setdiff1d(np.flatnonzero(held.any(axis=1)), there)
        largest = others[np.argsort(-held[others].sum(axis=1), kind="stable")]
        together = np.cumsum(np.vstack([held[there].sum(axis=0), held[largest]]), axis=0)
        count, step = int((together < want).any(axis=1).sum()), 1
        while True:
            chosen = np.isin(domain, np.concatenate([there, largest[:count]]))
            seated = self._all_of(counts, roles, where & chosen)
            if seated is not None or count >= len(largest):
                return seated
            count, step = count + step, step * 2

    def _lies(self, bond: Bond) -> BoolArray:
        """Which nodes are in any domain of the bond's level."""
        rows = self._table.rows
        known = np.array([is_domain(key) for key in rows.tree.keys[bond.level]], dtype=np.bool_)
        lies: BoolArray = known[rows.domain[bond.level][self._row]]
        return lies

    def _in_segments(self, counts: Counts, bond: Bond, where: BoolArray) -> Counts | None:
        """First domains are made up to whole segments, where they can be, then others take what is left."""
        rows = self._table.rows
        domain = rows.domain[bond.level][self._row]
        lies = where & self._lies(bond)
        for number, count in anchored(rows, bond).items():
            whole = self._so_many(counts, bond, lies & (domain == number), -count % bond.size)
            counts = counts if whole is None else whole
        more: Counts | None = counts
        while more is not None and (left := self._left(more, bond)) > 0:
            more = self._one_more(more, bond, domain, lies, left)
        return more

    def _left(self, counts: Counts, bond: Bond) -> int:
        return sum(self._want[role] - int(counts[:, role].sum()) for role in bond.roles)

    def _one_more(
        self, counts: Counts, bond: Bond, domain: IntArray, lies: BoolArray, left: int
    ) -> Counts | None:
        """Whole segments in one more domain: the tightest that takes all that is left, else the largest."""
        options = []
        for number, room in self._rooms(counts, bond, domain, lies, left):
            if room >= bond.size:
                options.append((min(room // bond.size * bond.size, left), room, number))
        for most, _, number in sorted(options, key=lambda one: (-one[0], one[1], one[2])):
            for amount in range(most // bond.size * bond.size, 0, -bond.size):
                more = self._so_many(counts, bond, lies & (domain == number), amount)
                if more is not None:
                    return more
        return None

    def _rooms(
        self, counts: Counts, bond: Bond, domain: IntArray, lies: BoolArray, left: int
    ) -> Iterator[tuple[int, int]]:
        """How many more pods of the bond's roles each domain takes, at most as many as are left."""
        numbers = np.unique(domain[lies]).tolist()
        if len(bond.roles) == 1 and not self._table.rows.book.budgets:
            # What fits alone is all there is to know, for all domains at once.
            held = self._held(counts, bond.roles, bond.level, lies)[:, 0]
            yield from ((number, min(int(held[number]), left)) for number in numbers)
            return
        for number in numbers:
            here = lies & (domain == number)
            filled = fill(self._table, self._nodes, self._wanted(bond), start=counts, only=here)
            yield number, int((filled - counts).sum())

    def _so_many(self, counts: Counts, bond: Bond, where: BoolArray, amount: int) -> Counts | None:
        """So many pods of the bond's roles, in their order, on these nodes."""
        want = counts.sum(axis=0).tolist()
        for role in bond.roles:
            more = min(amount, self._want[role] - want[role])
            want[role] += more
            amount -= more
        filled = fill(self._table, self._nodes, want, start=counts, only=where)
        return filled if not amount and filled.sum(axis=0).tolist() == want else None

    def _wanted(self, bond: Bond) -> list[int]:
        return [want if role in bond.roles else 0 for role, want in enumerate(self._want)]

    def _all_of(self, counts: Counts, roles: frozenset[int], where: BoolArray) -> Counts | None:
        here = counts.sum(axis=0).tolist()
        want = [self._want[role] if role in roles else count for role, count in enumerate(here)]
        filled = fill(self._table, self._nodes, want, start=counts, only=where)
        return filled if filled.sum(axis=0).tolist() == want else None
