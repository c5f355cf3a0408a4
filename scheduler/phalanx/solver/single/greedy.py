"""Greedy search: largest role first, best fit, in the tightest domains that pass. Always the first answer.

It proves nothing, but it is the hint and the fallback of everything that searches longer.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.limits import DOMAINS_TRIED_MAX
from phalanx.solver.arrays import BoolArray, IntArray
from phalanx.solver.companions import in_company
from phalanx.solver.nodetable import Found, NodeTable
from phalanx.solver.single.best_fit import fill
from phalanx.solver.single.greedy_subgroups import closer_subgroups, search_bonded
from phalanx.solver.single.scopes import Scope


def search(table: NodeTable, scope: Scope) -> Found | None:
    """A placement in the scope, as many pods as fit; None when the minimums were not reached."""
    found = _search(table, scope)
    return in_company(table, scope, found) if table.rows.book.meetings else found


def _search(table: NodeTable, scope: Scope) -> Found | None:
    if table.rows.book.bonds:
        return search_bonded(table, scope)
    found = _fill_minimums_then_surplus(table, scope.nodes)
    if found is None:
        return None
    for level in range(scope.depth, table.rows.book.preferred_depth):
        found = _narrow(table, found, level)
    return closer_subgroups(table, found) if table.rows.book.gatherings else found


def _fill_minimums_then_surplus(table: NodeTable, nodes: IntArray) -> Found | None:
    roles = table.rows.problem.roles
    minimums, maximums = [role.minimum for role in roles], [role.maximum for role in roles]
    counts = fill(table, nodes, minimums)
    if counts.sum(axis=0).tolist() != minimums:
        return None
    return Found(nodes=nodes, counts=fill(table, nodes, maximums, start=counts))


def _narrow(table: NodeTable, found: Found, level: int) -> Found:
    """The same number of pods in fewer domains of this level, where that is found."""
    domain = table.rows.domain[level][table.row[found.nodes]]
    for chosen in _choices(table, found, level, domain):
        counts = fill(table, found.nodes[chosen], found.placed)
        if counts.sum(axis=0).tolist() == found.placed:
            used = np.unique(domain[chosen][counts.any(axis=1)])
            kept = np.isin(domain[chosen], used) | table.rows.tree.open[level][domain[chosen]]
            return Found(nodes=found.nodes[chosen][kept], counts=counts[kept])
    return found


def _choices(table: NodeTable, found: Found, level: int, domain: IntArray) -> Iterator[BoolArray]:
    """Selections of nodes by domain, best first: open domains, plus one, plus ever more of the largest."""
    held = _held(table, found, level, domain)
    size = held @ np.array(table.rows.role_weights, dtype=np.int64)
    opened = table.rows.tree.open[level]
    inside = opened[domain]
    if inside.any():
        yield inside
    enough = (held + held[opened].sum(axis=0) >= found.placed).all(axis=1) & ~opened
    tightest = np.argsort(size, kind="stable")
    for one in tightest[enough[tightest]][:DOMAINS_TRIED_MAX].tolist():
        yield inside | (domain == one)
    largest = np.argsort(-size, kind="stable")
    yield from _growing(inside, domain, largest[~opened[largest]], held, found.placed)


def _held(table: NodeTable, found: Found, level: int, domain: IntArray) -> IntArray:
    """Per domain and role, how many pods fit when that role has the nodes alone, at most what is placed."""
    held = np.zeros((len(table.rows.tree.open[level]), len(found.placed)), dtype=np.int64)
    np.add.at(held, domain, table.rows.fits[table.row[found.nodes]])
    return np.minimum(held, found.placed)


def _growing(
    inside: BoolArray, domain: IntArray, largest: IntArray, held: IntArray, placed: Sequence[int]
) -> Iterator[BoolArray]:
    """The fewest largest domains that could hold all, then ever more of them in steps that double."""
    together = np.cumsum(held[largest], axis=0)
    enough = np.flatnonzero((together >= placed).all(axis=1))
    count, step = int(enough[0]) + 1 if len(enough) else len(largest), 1
    while count < len(largest):
        yield inside | np.isin(domain, largest[:count])
        count, step = count + step, step * 2
