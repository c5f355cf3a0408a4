"""Topology spread in greedy search: one pod at a time, as kube-scheduler places them."""

import numpy as np

from phalanx.model.rules import TopologySpreadRule
from phalanx.solver.arrays import BoolArray, Counts, IntArray, NodeTable
from phalanx.solver.problem_rules import AffinityConstraint, domains_of


def within_skew(table: NodeTable, nodes: IntArray, role: int, counts: Counts) -> BoolArray:
    """The nodes that may get one more pod of the role, with the counts so far."""
    allowed = np.ones(len(nodes), dtype=np.bool_)
    for spread in table.rows.rules.affinity_constraints:
        rule = spread.rule
        if isinstance(rule, TopologySpreadRule) and role in (*spread.owners, *spread.others, *spread.perhaps):
            allowed &= _within(table, nodes, role, counts, spread, rule)
    return allowed


def _within(
    table: NodeTable,
    nodes: IntArray,
    role: int,
    counts: Counts,
    spread: AffinityConstraint,
    rule: TopologySpreadRule,
) -> BoolArray:
    there = domains_of(table.rows.problem, spread, rule)
    values = [each[spread.key] for each in table.rows.label_values]
    names = sorted({*values, *there})
    number = {name: index for index, name in enumerate(names)}
    domain = np.array([number[value] for value in values], dtype=np.int64)[table.row[nodes]]
    counted = np.array([there.get(name, 0) for name in names], dtype=np.int64)
    np.add.at(counted, domain, counts[:, list(spread.others)].sum(axis=1))
    near = counted.copy()
    np.add.at(near, domain, counts[:, list(spread.perhaps)].sum(axis=1))
    is_domain = np.array([name in there for name in names], dtype=np.bool_)
    least = int(counted[is_domain].min()) if is_domain.sum() >= max(1, rule.min_domains) else 0
    one = 1 if role in (*spread.others, *spread.perhaps) else 0
    fits = near + one - least <= rule.max_skew
    if role in spread.owners:
        fits &= is_domain
    else:
        owned = np.zeros(len(names), dtype=np.bool_)
        owned[domain[counts[:, list(spread.owners)].any(axis=1)]] = True
        fits |= ~owned
    selected: BoolArray = fits[domain]
    return selected
