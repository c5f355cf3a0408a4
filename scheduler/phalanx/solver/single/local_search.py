"""Local improvement of what greedy search found: fewer domains, then tighter ones, one change at a time.

A domain is left where its pods find room in the others. Where all nodes cost the same, a domain of the
deepest level is exchanged for one with less room beside it. Rules about subgroups and company are not looked
at: where there are some, all stays as it was.
"""

from collections.abc import Iterator

import numpy as np

from phalanx.solver.arrays import IntArray
from phalanx.solver.limits import DOMAINS_LEFT_MAX, EXCHANGES_MAX
from phalanx.solver.nodetable import Found, NodeTable
from phalanx.solver.single.best_fit import fill
from phalanx.solver.single.scopes import Scope


def improvements(table: NodeTable, scope: Scope, found: Found) -> Iterator[Found]:
    """Placements of as many pods of each role in the scope, each better than the one before."""
    book = table.rows.book
    if book.bonds or book.gatherings or book.meetings:
        return
    best = _on_all_nodes(scope, found)
    for level in range(scope.depth, book.preferred_depth):
        while (fewer := _without_a_domain(table, best, level)) is not None:
            best = fewer
            yield best
    if scope.depth == book.preferred_depth or table.rows.cost.any():
        return
    while (tighter := _with_a_tighter_domain(table, best)) is not None:
        best = tighter
        yield best


def _on_all_nodes(scope: Scope, found: Found) -> Found:
    counts = np.zeros((len(scope.nodes), found.counts.shape[1]), dtype=np.int64)
    counts[np.searchsorted(scope.nodes, found.nodes)] = found.counts
    return Found(nodes=scope.nodes, counts=counts)


def _without_a_domain(table: NodeTable, found: Found, level: int) -> Found | None:
    """The same pods without one of the domains of this level, one with few pods."""
    domain = table.rows.domain[level][table.row[found.nodes]]
    opened = table.rows.tree.open[level]
    pods = np.bincount(domain, weights=found.counts.sum(axis=1), minlength=len(opened)).astype(np.int64)
    used = np.flatnonzero(pods)
    closed = used[~opened[used]]
    for one in closed[np.argsort(pods[closed], kind="stable")][:DOMAINS_LEFT_MAX].tolist():
        found_elsewhere = _moved(table, found, domain, used[used != one])
        if found_elsewhere is not None:
            return found_elsewhere
    return None


def _with_a_tighter_domain(table: NodeTable, found: Found) -> Found | None:
    """The same pods with one of the deepest domains exchanged for one with less room."""
    room = table.rows.room
    if room is None:
        return None
    level = table.rows.book.gang_depth - 1
    domain = table.rows.domain[level][table.row[found.nodes]]
    used = np.unique(domain[found.counts.any(axis=1)])
    exchanges = _exchanges(table, room, np.unique(domain), used, level)
    for one, other in exchanges[:EXCHANGES_MAX]:
        found_elsewhere = _moved(table, found, domain, np.append(used[used != one], other))
        if found_elsewhere is not None:
            return found_elsewhere
    return None


def _exchanges(
    table: NodeTable, room: IntArray, inside: IntArray, used: IntArray, level: int
) -> list[tuple[int, int]]:
    """Pairs of a domain in use and a tighter one beside it, those that gain most first."""
    tree = table.rows.tree
    closed = used[~tree.open[level][used]]
    others = np.setdiff1d(inside, used)
    gain = room[closed][:, None] - room[others][None, :]
    beside = tree.parent[level][closed][:, None] == tree.parent[level][others][None, :]
    ours, theirs = np.nonzero((gain > 0) & beside)
    order = np.argsort(-gain[ours, theirs], kind="stable")
    return list(zip(closed[ours[order]].tolist(), others[theirs[order]].tolist(), strict=True))


def _moved(table: NodeTable, found: Found, domain: IntArray, stay: IntArray) -> Found | None:
    """The same number of pods on the nodes of these domains: as few moved as may be, else all put anew."""
    inside = np.isin(domain, stay)
    nodes, wanted = found.nodes[inside], found.placed
    if (table.rows.fits[table.row[nodes]].sum(axis=0) < wanted).any():
        return None
    for start in (found.counts[inside], None):
        filled = fill(table, nodes, wanted, start=start)
        if filled.sum(axis=0).tolist() == wanted:
            counts = np.zeros_like(found.counts)
            counts[inside] = filled
            return Found(nodes=found.nodes, counts=counts)
    return None
