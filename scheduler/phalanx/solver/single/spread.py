"""Topology spread in greedy search: one pod at a time, as kube-scheduler places them."""

import numpy as np
from msgspec import Struct

from phalanx.rules.primitives import Skew
from phalanx.solver.arrays import BoolArray, Counts, IntArray, NodeTable
from phalanx.solver.problem_rules import domains_of


class _Domains(Struct, frozen=True, eq=False):
    """What a constraint counts, without the pods that the search places."""

    spread: Skew
    domain: IntArray
    """The number of the domain of each node."""
    existing: IntArray
    """The pods that are counted in each domain now."""
    is_domain: BoolArray
    """Whether the domain counts for the minimum."""


class SkewLimits:
    """The spread constraints of a problem over these nodes. The domains are computed once."""

    def __init__(self, table: NodeTable, nodes: IntArray) -> None:
        self._nodes = len(nodes)
        self._constraints = [_domains(table, nodes, spread) for spread in table.rows.rules.skews]

    def allowed(self, role: int, counts: Counts) -> BoolArray:
        """The nodes that may get one more pod of the role, with the counts so far."""
        allowed = np.ones(self._nodes, dtype=np.bool_)
        for each in self._constraints:
            spread = each.spread
            if role in (*spread.owners, *spread.others):
                allowed &= _within(each, role, counts)
        return allowed


def _domains(table: NodeTable, nodes: IntArray, spread: Skew) -> _Domains:
    there = domains_of(table.rows.problem, spread)
    values = [each[spread.key] for each in table.rows.label_values]
    names = sorted({*values, *there})
    number = {name: index for index, name in enumerate(names)}
    return _Domains(
        spread=spread,
        domain=np.array([number[value] for value in values], dtype=np.int64)[table.row[nodes]],
        existing=np.array([there.get(name, 0) for name in names], dtype=np.int64),
        is_domain=np.array([name in there for name in names], dtype=np.bool_),
    )


def _within(domains: _Domains, role: int, counts: Counts) -> BoolArray:
    spread, domain, is_domain = domains.spread, domains.domain, domains.is_domain
    counted = domains.existing.copy()
    np.add.at(counted, domain, counts[:, list(spread.others)].sum(axis=1))
    least = int(counted[is_domain].min()) if is_domain.sum() >= max(1, spread.min_domains) else 0
    one = 1 if role in spread.others else 0
    fits = counted + one - least <= spread.max_skew
    if role in spread.owners:
        fits &= is_domain
    else:
        owned = np.zeros(len(is_domain), dtype=np.bool_)
        owned[domain[counts[:, list(spread.owners)].any(axis=1)]] = True
        fits |= ~owned
    selected: BoolArray = fits[domain]
    return selected
