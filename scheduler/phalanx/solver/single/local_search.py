"""Local search on a greedy placement: fewer domains, then tighter ones, one move at a time.

A domain is vacated where its pods fit into the others. Where all placements cost the same, a deepest-level
domain is exchanged for a sibling with less capacity. Placements under subgroup or affinity rules are not
changed.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from phalanx.solver.arrays import IntArray, NodeTable, Placement
from phalanx.solver.single.best_fit import fill
from phalanx.solver.single.scopes import Scope

EXCHANGES_MAX: Final = 8
"""Exchanges of a domain for a tighter one that each step tries."""

DOMAINS_LEFT_MAX: Final = 4
"""Domains of a level that each step tries to vacate."""


def improvements(table: NodeTable, scope: Scope, found: Placement) -> Iterator[Placement]:
    """Yield placements of as many pods per role in the scope, each better than the one before."""
    rules = table.rows.rules
    if rules.subgroup_constraints or rules.subgroup_preferences or rules.compares_values:
        return
    if rules.few_values:
        return
    best = _on_all_nodes(scope, found)
    for level in range(scope.depth, rules.preferred_depth):
        while (fewer := _without_a_domain(table, best, level)) is not None:
            best = fewer
            yield best
    if scope.depth == rules.preferred_depth or table.rows.cost.any() or rules.pairs:
        return
    while (tighter := _with_a_tighter_domain(table, best)) is not None:
        best = tighter
        yield best


def _on_all_nodes(scope: Scope, found: Placement) -> Placement:
    counts = np.zeros((len(scope.nodes), found.counts.shape[1]), dtype=np.int64)
    counts[np.searchsorted(scope.nodes, found.nodes)] = found.counts
    return Placement(nodes=scope.nodes, counts=counts)


def _without_a_domain(table: NodeTable, found: Placement, level: int) -> Placement | None:
    """Vacate one of the domains of this level, those with few pods first."""
    domain = table.rows.domain[level][table.row[found.nodes]]
    opened = table.rows.tree.open[level]
    pods = np.bincount(domain, weights=found.counts.sum(axis=1), minlength=len(opened)).astype(np.int64)
    used = np.flatnonzero(pods)
    closed = used[~opened[used]]
    for vacated in closed[np.argsort(pods[closed], kind="stable")][:DOMAINS_LEFT_MAX].tolist():
        repacked = _repacked(table, found, domain, used[used != vacated])
        if repacked is not None:
            return repacked
    return None


def _with_a_tighter_domain(table: NodeTable, found: Placement) -> Placement | None:
    """Exchange one of the deepest domains for one with less capacity."""
    capacity = table.rows.domain_capacity
    if capacity is None:
        return None
    level = table.rows.rules.gang_depth - 1
    domain = table.rows.domain[level][table.row[found.nodes]]
    used = np.unique(domain[found.counts.any(axis=1)])
    exchanges = _exchanges(table, capacity, np.unique(domain), used, level)
    for vacated, other in exchanges[:EXCHANGES_MAX]:
        repacked = _repacked(table, found, domain, np.append(used[used != vacated], other))
        if repacked is not None:
            return repacked
    return None


def _exchanges(
    table: NodeTable, capacity: IntArray, inside: IntArray, used: IntArray, level: int
) -> list[tuple[int, int]]:
    """Pairs of a used domain and a tighter sibling, the largest gain first."""
    tree = table.rows.tree
    closed = used[~tree.open[level][used]]
    others = np.setdiff1d(inside, used)
    gain = capacity[closed][:, None] - capacity[others][None, :]
    beside = tree.parent[level][closed][:, None] == tree.parent[level][others][None, :]
    ours, theirs = np.nonzero((gain > 0) & beside)
    order = np.argsort(-gain[ours, theirs], kind="stable")
    return list(zip(closed[ours[order]].tolist(), others[theirs[order]].tolist(), strict=True))


def _repacked(table: NodeTable, found: Placement, domain: IntArray, stay: IntArray) -> Placement | None:
    """Place as many pods on the nodes of these domains: move few of them, else place all again."""
    inside = np.isin(domain, stay)
    nodes, wanted = found.nodes[inside], found.placed
    if (table.rows.fits[table.row[nodes]].sum(axis=0) < wanted).any():
        return None
    for start in (found.counts[inside], None):
        filled = fill(table, nodes, wanted, start=start)
        if filled.sum(axis=0).tolist() == wanted:
            counts = np.zeros_like(found.counts)
            counts[inside] = filled
            return Placement(nodes=found.nodes, counts=counts)
    return None
