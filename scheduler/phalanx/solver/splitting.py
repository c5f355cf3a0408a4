"""From counts per group of nodes to pods on nodes."""

from collections.abc import Sequence

import numpy as np

from phalanx.solver.counting.node_groups import Group, Pattern
from phalanx.solver.nodetable import Found, NodeTable
from phalanx.solver.single.best_fit import fill


def split(groups: Sequence[Group], pods: Sequence[Sequence[int]], used: Sequence[Sequence[int]]) -> Found:
    """Pods per node from `pods[group][role]` and `used[group][pattern]`, the nodes that use each pattern."""
    nodes: list[int] = []
    counts: list[list[int]] = []
    for group, wanted, times in zip(groups, pods, used, strict=True):
        missing = list(wanted)
        for node, pattern in zip(group.nodes, _patterns(group, missing, times), strict=False):
            taken = [min(want, most) for want, most in zip(missing, pattern, strict=True)]
            missing = [want - take for want, take in zip(missing, taken, strict=True)]
            nodes.append(node)
            counts.append(taken)
    order = np.argsort(nodes, kind="stable")
    table = np.array(counts, dtype=np.int64).reshape(len(nodes), len(pods[0]))
    return Found(nodes=np.array(nodes, dtype=np.int64)[order], counts=table[order])


def _patterns(group: Group, wanted: Sequence[int], times: Sequence[int]) -> list[Pattern]:
    """The pattern of each node of the group in turn."""
    if not group.patterns:
        return [tuple(wanted)]
    if len(group.patterns) == 1:
        return list(group.patterns) * len(group.nodes)
    return [pattern for pattern, count in zip(group.patterns, times, strict=True) for _ in range(count)]


def tightened(table: NodeTable, found: Found) -> Found:
    """The same number of pods per domain, price and budget, on the fullest nodes that hold them."""
    rows = table.rows
    kinds: dict[tuple[object, ...], list[int]] = {}
    for line, row in enumerate(table.row[found.nodes].tolist()):
        domains = tuple(int(domain[row]) for domain in rows.domain)
        kind = (domains, tuple(rows.cost[row].tolist()), rows.budgets[row], rows.label_values[row])
        kinds.setdefault(kind, []).append(line)
    counts = found.counts.copy()
    for lines in kinds.values():
        wanted = found.counts[lines].sum(axis=0).tolist()
        packed = fill(table, found.nodes[lines], wanted)
        if packed.sum(axis=0).tolist() == wanted:
            counts[lines] = packed
    return Found(nodes=found.nodes, counts=counts)
