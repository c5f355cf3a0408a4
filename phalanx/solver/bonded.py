"""Greedy search where subgroups have rules of their own: one subgroup after the other, the widest rule first.

A subgroup that must share a domain tries domains, tightest first, and all that lies inside it is placed
there before anything else is. It goes back on a choice only a bounded number of times; what it does not find
is left to CP-SAT.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.limits import BOND_TRIES_MAX
from phalanx.solver.anchors import anchored, homes
from phalanx.solver.fill import fill
from phalanx.solver.nodetable import Counts, Found, NodeTable
from phalanx.solver.objective import is_domain
from phalanx.solver.rows import BoolArray, IntArray
from phalanx.solver.rulebook import Bond
from phalanx.solver.scopes import Scope


def search_bonded(table: NodeTable, scope: Scope) -> Found | None:
    """All maximums, else all minimums, in the scope and under the rules of subgroups; None when not found."""
    roles = table.rows.problem.roles
    for want in ([role.maximum for role in roles], [role.minimum for role in roles]):
        counts = _Search(table, scope.nodes, want).run()
        if counts is not None:
            return Found(nodes=scope.nodes, counts=counts)
    return None


class _Search:
    """One attempt to place so many pods per role on the selected nodes."""

    def __init__(self, table: NodeTable, nodes: IntArray, want: Sequence[int]) -> None:
        self._table = table
        self._nodes = nodes
        self._row = table.row[nodes]
        self._want = list(want)
        self._tries = 0

    def run(self) -> Counts | None:
        """Pods per node and role, or None."""
        rows = self._table.rows
        bonds = sorted(rows.book.bonds, key=lambda bond: (-len(bond.roles), bond.level, bond.size))
        nothing = np.zeros((len(self._nodes), len(self._want)), dtype=np.int64)
        everywhere = np.ones(len(self._nodes), dtype=np.bool_)
        return self._seat(nothing, frozenset(range(len(self._want))), bonds, everywhere)

    def _seat(
        self, counts: Counts, roles: frozenset[int], bonds: Sequence[Bond], where: BoolArray
    ) -> Counts | None:
        """All pods of these roles on top of the counts, on nodes of `where`; None when not found."""
        if not bonds:
            return self._all_of(counts, roles, where)
        bond, rest = bonds[0], bonds[1:]
        inner = [one for one in rest if frozenset(one.roles) <= frozenset(bond.roles)]
        others = [one for one in rest if one not in inner]
        for seated in self._ways(counts, bond, inner, where):
            whole = self._seat(seated, roles - frozenset(bond.roles), others, where)
            if whole is not None:
                return whole
        return None

    def _ways(self, counts: Counts, bond: Bond, inner: Sequence[Bond], where: BoolArray) -> Iterator[Counts]:
        """Ways to place the pods of the bond's roles, best first."""
        if bond.size:
            segmented = self._in_segments(counts, bond, where) if not inner else None
            if segmented is not None:
                yield segmented
            return
        domain = self._table.rows.domain[bond.level][self._row]
        for one in self._candidates(bond, domain, where):
            if self._tries >= BOND_TRIES_MAX:
                return
            self._tries += 1
            seated = self._seat(counts, frozenset(bond.roles), inner, where & (domain == one))
            if seated is not None:
                yield seated

    def _candidates(self, bond: Bond, domain: IntArray, where: BoolArray) -> list[int]:
        """The domains that could hold each role alone, tightest first; the one where members run, if any."""
        held, usable = self._held(bond, domain, where)
        want = [self._want[role] for role in bond.roles]
        enough = np.flatnonzero(usable & (held >= want).all(axis=1))
        return sorted(enough.tolist(), key=lambda one: (int(held[one].sum()), one))

    def _held(self, bond: Bond, domain: IntArray, where: BoolArray) -> tuple[IntArray, BoolArray]:
        """Per domain and role, pods that fit when the role is alone; and which domains may be used."""
        rows = self._table.rows
        lies = where & self._lies(bond)
        held = np.zeros((len(rows.tree.open[bond.level]), len(bond.roles)), dtype=np.int64)
        np.add.at(held, domain[lies], rows.fits[self._row[lies]][:, list(bond.roles)])
        usable = np.ones(len(held), dtype=np.bool_)
        allowed = homes(rows, bond)
        if allowed is not None:
            usable = np.isin(np.arange(len(held)), allowed)
        return held, usable

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
        for number in np.unique(domain[lies]).tolist():
            here = lies & (domain == number)
            filled = fill(self._table, self._nodes, self._wanted(bond), start=counts, only=here)
            room = int((filled - counts).sum())
            if room >= bond.size:
                options.append((min(room // bond.size * bond.size, left), room, number))
        for most, _, number in sorted(options, key=lambda one: (-one[0], one[1], one[2])):
            for amount in range(most // bond.size * bond.size, 0, -bond.size):
                more = self._so_many(counts, bond, lies & (domain == number), amount)
                if more is not None:
                    return more
        return None

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
