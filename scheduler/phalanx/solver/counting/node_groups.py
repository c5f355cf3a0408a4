"""Nodes that are the same to a counting model: same domains, price, budgets, same patterns of pods.

A pattern is how many pods of each role one node can hold together. Two nodes with the same maximal patterns
are interchangeable, whatever their odd bytes. Counting patterns, not resources, makes counts per group exact:
ten nodes of 8 GPUs hold ten pods of 5 GPUs, not sixteen.
"""

import itertools
import math

import numpy as np
from msgspec import Struct, structs

from phalanx.limits import PATTERN_CELLS_MAX, PATTERNS_MAX
from phalanx.solver.arrays import BoolArray, IntArray, requests_of
from phalanx.solver.nodetable import NodeTable

Pattern = tuple[int, ...]


class Group(Struct, frozen=True, eq=False):
    """Interchangeable nodes (positions in the table). `domains` are theirs per level that matters, `spots`
    the values of the problem's keys.

    `room` is how many pods of each role one node holds alone, at most the role's maximum. Without patterns
    the group is a single node, and `free` is what counts; with patterns it is that of the first node.
    """

    domains: tuple[int, ...]
    cost: tuple[int, ...]
    budgets: tuple[int, ...]
    room: tuple[int, ...]
    free: tuple[int, ...]
    patterns: tuple[Pattern, ...]
    nodes: tuple[int, ...] = ()
    label_values: tuple[str, ...] = ()


def groups_of(table: NodeTable, nodes: IntArray) -> list[Group]:
    """The groups of these nodes, in order of their first node."""
    rows = table.rows
    row, line = np.unique(table.row[nodes], return_inverse=True)
    most = [role.maximum for role in rows.problem.roles]
    room = np.minimum(rows.fits[row], most)
    patterns = _patterns_of(table, row, room.max(axis=0, initial=0).tolist())
    members: dict[tuple[object, ...], list[int]] = {}
    groups: dict[tuple[object, ...], Group] = {}
    for position, index in zip(nodes.tolist(), line.ravel().tolist(), strict=True):
        number = int(row[index])
        group = Group(
            domains=tuple(int(domain[number]) for domain in rows.domain),
            cost=tuple(rows.cost[number].tolist()),
            budgets=rows.budgets[number],
            room=tuple(room[index].tolist()),
            free=tuple(rows.free[number].tolist()),
            patterns=patterns[index] if patterns else (),
            label_values=rows.label_values[number],
        )
        key = (group.domains, group.cost, group.budgets, group.label_values, group.patterns or position)
        groups.setdefault(key, group)
        members.setdefault(key, []).append(position)
    return [structs.replace(group, nodes=tuple(members[key])) for key, group in groups.items()]


def _patterns_of(table: NodeTable, row: IntArray, most: list[int]) -> list[tuple[Pattern, ...]] | None:
    """Per row, its maximal patterns, where no node holds more than `most` of a role; None when too many."""
    requests = requests_of(table.rows.problem)
    last = most.index(max(most))
    others = [range(count + 1) if role != last else range(1) for role, count in enumerate(most)]
    useful = np.minimum(table.rows.free[row], np.array(most) @ requests)
    kinds, kind = np.unique(np.hstack([useful, table.rows.fits[row] > 0]), axis=0, return_inverse=True)
    if math.prod(map(len, others)) * kinds.size > PATTERN_CELLS_MAX:
        return None
    combos = np.array(list(itertools.product(*others)), dtype=np.int64)
    split = len(table.rows.problem.resources)
    stairs = _stairs(kinds[:, :split], kinds[:, split:] > 0, combos, requests, last, most[last])
    maximal = _maximal(stairs, combos, others)
    if int(maximal.sum(axis=1).max(initial=0)) > PATTERNS_MAX:
        return None
    listed = [_listed(combos[keep], stair[keep], last) for keep, stair in zip(maximal, stairs, strict=True)]
    return [listed[index] for index in kind.ravel().tolist()]


def _stairs(
    free: IntArray, may: BoolArray, combos: IntArray, requests: IntArray, last: int, most: int
) -> IntArray:
    """Per kind of node and combination of the other roles, how many pods of the last one fit; else -1."""
    left = free[:, None, :] - combos @ requests
    asked = requests[last] > 0
    room = (left[:, :, asked] // requests[last][asked]).min(axis=2, initial=most)
    room = np.where(may[:, None, last], np.maximum(room, 0), 0)
    allowed = (left >= 0).all(axis=2) & ~(combos[None, :, :] * ~may[:, None, :]).any(axis=2)
    return np.where(allowed, room, -1)


def _maximal(stairs: IntArray, combos: IntArray, others: list[range]) -> BoolArray:
    """Which patterns no other one contains: one more pod of any other role leaves fewer of the last one."""
    strides = [math.prod(map(len, others[role + 1 :])) for role in range(len(others))]
    keep = stairs >= 0
    for role, stride in enumerate(strides):
        inside = np.flatnonzero(combos[:, role] + 1 < len(others[role]))
        keep[:, inside] &= stairs[:, inside + stride] < stairs[:, inside]
    return keep


def _listed(combos: IntArray, stair: IntArray, last: int) -> tuple[Pattern, ...]:
    full = combos.copy()
    full[:, last] = stair
    return tuple(tuple(pattern) for pattern in full.tolist())
