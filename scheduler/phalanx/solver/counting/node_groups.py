"""Groups of interchangeable nodes, and the way from counts per group back to nodes.

A pattern is a number of pods per role that one node holds together. Nodes with the same domains, cost,
budgets and maximal patterns are interchangeable even if their free amounts differ. Patterns make counts per
group exact: ten nodes of 8 GPUs hold ten pods of 5 GPUs, not sixteen. (The patterns of the cutting stock
problem; Gilmore and Gomory, 1961.) Where it matters which pods share a node, a node uses exactly the pods of
its pattern, so all patterns are listed and not only the maximal ones.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.solver.arrays import BoolArray, IntArray, NodeTable, Placement, requests_of
from phalanx.solver.single.best_fit import fill

PATTERN_CELLS_MAX: Final = 4_000_000
"""Entries of the largest array during the enumeration of patterns of pods on one node: 32 MB."""

PATTERNS_MAX: Final = 256
"""Patterns of pods on one node. With more, counting patterns is slower than examining each node."""

Pattern = tuple[int, ...]


class NodeGroup(Struct, frozen=True, eq=False):
    """Interchangeable nodes, as positions in the node table."""

    domains: tuple[int, ...]
    """Per level that matters."""
    cost: tuple[int, ...]
    budgets: tuple[int, ...]
    fits: tuple[int, ...]
    """Pods of each role that one node holds alone, at most the role's maximum."""
    free: tuple[int, ...]
    """Free amounts of the first node."""
    patterns: tuple[Pattern, ...]
    """Maximal patterns, or all but the empty one where pods are counted by node. Empty: the group is a single
    node, limited by `free`."""
    nodes: tuple[int, ...] = ()
    label_values: tuple[str, ...] = ()
    """Values of the problem's label keys."""
    anchored: tuple[int, ...] = ()
    """With traffic: running members on the node by the index of their role; empty for none."""


def groups_of(table: NodeTable, nodes: IntArray) -> list[NodeGroup]:
    """Return the groups of these nodes, in order of their first node."""
    rows = table.rows
    row, line = np.unique(table.row[nodes], return_inverse=True)
    most = [role.maximum for role in rows.problem.roles]
    fits = np.minimum(rows.fits[row], most)
    patterns = _patterns_of(table, row, fits.max(axis=0, initial=0).tolist())
    anchored = _anchored(table)
    members: dict[tuple[object, ...], list[int]] = {}
    groups: dict[tuple[object, ...], NodeGroup] = {}
    for position, index in zip(nodes.tolist(), line.ravel().tolist(), strict=True):
        number = int(row[index])
        group = NodeGroup(
            domains=tuple(int(domain[number]) for domain in rows.domain),
            cost=tuple(rows.cost[number].tolist()),
            budgets=rows.budgets[number],
            fits=tuple(fits[index].tolist()),
            free=tuple(rows.free[number].tolist()),
            patterns=patterns[index] if patterns else (),
            label_values=rows.label_values[number],
            anchored=anchored.get(table.names[position], ()) if anchored else (),
        )
        same = (group.domains, group.cost, group.budgets, group.label_values, group.anchored)
        key = (*same, group.patterns or position)
        groups.setdefault(key, group)
        members.setdefault(key, []).append(position)
    return [structs.replace(group, nodes=tuple(members[key])) for key, group in groups.items()]


def _anchored(table: NodeTable) -> dict[NodeName, tuple[int, ...]]:
    """Running members with traffic on each node."""
    matrix, found = table.rows.rules.traffic, dict[NodeName, list[int]]()
    if matrix is not None:
        for anchor, index in matrix.anchors:
            found.setdefault(anchor.node, [0] * matrix.size)[index] += anchor.count
    return {node: tuple(counts) for node, counts in found.items()}


def _patterns_of(table: NodeTable, row: IntArray, most: list[int]) -> list[tuple[Pattern, ...]] | None:
    """Per row, its maximal patterns with at most `most` pods of a role, or all of them.

    None when there are too many.
    """
    requests = requests_of(table.rows.problem)
    last = most.index(max(most))
    others = [range(count + 1) if role != last else range(1) for role, count in enumerate(most)]
    usable = np.minimum(table.rows.free[row], np.array(most) @ requests)
    kinds, kind = np.unique(np.hstack([usable, table.rows.fits[row] > 0]), axis=0, return_inverse=True)
    if math.prod(map(len, others)) * kinds.size > PATTERN_CELLS_MAX:
        return None
    combinations = np.array(list(itertools.product(*others)), dtype=np.int64)
    split = len(table.rows.problem.resources)
    staircases = _staircases(kinds[:, :split], kinds[:, split:] > 0, combinations, requests, last, most[last])
    if table.rows.rules.counts_nodes:
        if int(np.maximum(staircases + 1, 0).sum(axis=1).max(initial=0)) > PATTERNS_MAX:
            return None
        every = [_every(combinations, staircase, last) for staircase in staircases]
        return [every[index] for index in kind.ravel().tolist()]
    maximal = _maximal(staircases, combinations, others)
    if int(maximal.sum(axis=1).max(initial=0)) > PATTERNS_MAX:
        return None
    listed = [
        _listed(combinations[keep], staircase[keep], last)
        for keep, staircase in zip(maximal, staircases, strict=True)
    ]
    return [listed[index] for index in kind.ravel().tolist()]


def _staircases(
    free: IntArray, may: BoolArray, combinations: IntArray, requests: IntArray, last: int, most: int
) -> IntArray:
    """Pods of the last role that fit, by [kind of node, combination of the other roles]; else -1."""
    left = free[:, None, :] - combinations @ requests
    asked = requests[last] > 0
    fits = (left[:, :, asked] // requests[last][asked]).min(axis=2, initial=most)
    fits = np.where(may[:, None, last], np.maximum(fits, 0), 0)
    allowed = (left >= 0).all(axis=2) & ~(combinations[None, :, :] * ~may[:, None, :]).any(axis=2)
    return np.where(allowed, fits, -1)


def _maximal(staircases: IntArray, combinations: IntArray, others: list[range]) -> BoolArray:
    """Which patterns no other one contains: one more pod of another role leaves fewer of the last one."""
    strides = [math.prod(map(len, others[role + 1 :])) for role in range(len(others))]
    keep = staircases >= 0
    for role, stride in enumerate(strides):
        inside = np.flatnonzero(combinations[:, role] + 1 < len(others[role]))
        keep[:, inside] &= staircases[:, inside + stride] < staircases[:, inside]
    return keep


def _listed(combinations: IntArray, staircase: IntArray, last: int) -> tuple[Pattern, ...]:
    full = combinations.copy()
    full[:, last] = staircase
    return tuple(tuple(pattern) for pattern in full.tolist())


def _every(combinations: IntArray, staircase: IntArray, last: int) -> tuple[Pattern, ...]:
    """All patterns but the empty one."""
    found = []
    for others, most in zip(combinations.tolist(), staircase.tolist(), strict=True):
        for count in range(most + 1):
            others[last] = count
            found.append(tuple(others))
    return tuple([pattern for pattern in found if any(pattern)])


def split(
    groups: Sequence[NodeGroup], pods: Sequence[Sequence[int]], used: Sequence[Sequence[int]]
) -> Placement:
    """Distribute `pods[group][role]` to nodes; `used[group][pattern]` nodes use each pattern."""
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
    table = np.array(counts, dtype=np.int64).reshape(len(nodes), len(pods[0]) if pods else 0)
    return Placement(nodes=np.array(nodes, dtype=np.int64)[order], counts=table[order])


def _patterns(group: NodeGroup, wanted: Sequence[int], times: Sequence[int]) -> list[Pattern]:
    """The pattern of each node of the group in turn."""
    if not group.patterns:
        return [tuple(wanted)]
    if len(group.patterns) == 1:
        return list(group.patterns) * len(group.nodes)
    return [pattern for pattern, count in zip(group.patterns, times, strict=True) for _ in range(count)]


def tightened(table: NodeTable, found: Placement) -> Placement:
    """Pack as many pods per domain, cost and budget on the fullest nodes that hold them."""
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
    return Placement(nodes=found.nodes, counts=counts)
