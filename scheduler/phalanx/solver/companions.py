"""Greedy search where pods of a gang must be near others or apart: domains are tried, roles filled in turn.

Those that ask to be near go, with those that they ask for, into one domain of their label at a time, the
roomiest first. What is not found is left to CP-SAT.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.limits import DOMAINS_TRIED_MAX
from phalanx.model.rules import PodAffinityRule, PodAntiAffinityRule
from phalanx.solver.arrays import BoolArray, IntArray
from phalanx.solver.checker import broken_rules
from phalanx.solver.nodetable import Counts, Found, NodeTable, assignments_of
from phalanx.solver.problem_rules import Meeting
from phalanx.solver.single.best_fit import fill
from phalanx.solver.single.scopes import Scope

_Chosen = Sequence[tuple[Meeting, str]]
"""Rules about being near, each with the domain in which that is to be."""


def in_company(table: NodeTable, scope: Scope, found: Found | None) -> Found | None:
    """What was found, where it keeps all rules, or another placement in the scope that does."""
    if found is not None and _keeps_rules(table, found):
        return found
    roles = table.rows.problem.roles
    minimums, maximums = [role.minimum for role in roles], [role.maximum for role in roles]
    for chosen in itertools.islice(_choices(table, scope.nodes), DOMAINS_TRIED_MAX):
        masks = [_mask(table, scope.nodes, role, chosen) for role in range(len(roles))]
        counts = np.zeros((len(scope.nodes), len(roles)), dtype=np.int64)
        for want in (minimums, maximums):
            counts = _filled(table, scope.nodes, want, masks, counts)
        other = Found(nodes=scope.nodes, counts=counts)
        enough = all(have >= least for have, least in zip(other.placed, minimums, strict=True))
        if enough and _keeps_rules(table, other):
            return other
    return None


def _keeps_rules(table: NodeTable, found: Found) -> bool:
    return not broken_rules(table.rows.problem, assignments_of(table, found))


def _choices(table: NodeTable, nodes: IntArray) -> Iterator[_Chosen]:
    near = [one for one in table.rows.book.meetings if isinstance(one.rule, PodAffinityRule)]
    domains = [_roomiest_first(table, nodes, one) for one in near]
    for label_values in itertools.product(*domains):
        yield list(zip(near, label_values, strict=True))


def _roomiest_first(table: NodeTable, nodes: IntArray, meeting: Meeting) -> list[str]:
    room: dict[str, int] = {}
    for row in table.row[nodes].tolist():
        spot = table.rows.label_values[row][meeting.key]
        fits = int(table.rows.fits[row, list(meeting.owners)].sum())
        if spot and fits:
            room[spot] = room.get(spot, 0) + fits
    return sorted(room, key=lambda spot: (-room[spot], spot))


def _mask(table: NodeTable, nodes: IntArray, role: int, chosen: _Chosen) -> BoolArray:
    """The nodes on which the role is near what it asks for."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for meeting, spot in chosen:
        rule = meeting.rule
        homes = rule.homes if isinstance(rule, PodAffinityRule) and role in meeting.owners else ()
        if role in (*meeting.owners, *meeting.others):
            mask &= _lies_in(table, nodes, meeting.key, {spot, *homes})
    return mask


def _lies_in(table: NodeTable, nodes: IntArray, key: int, label_values: set[str]) -> BoolArray:
    per_row = np.array([row[key] in label_values for row in table.rows.label_values], dtype=np.bool_)
    lies: BoolArray = per_row[table.row[nodes]]
    return lies


def _filled(
    table: NodeTable, nodes: IntArray, want: Sequence[int], masks: Sequence[BoolArray], counts: Counts
) -> Counts:
    """The roles one after the other, each where no pod keeps it away."""
    for role in table.rows.role_order:
        one_each = _is_alone(table, role)
        before = -1
        while before < int(counts[:, role].sum()) < want[role]:
            before = int(counts[:, role].sum())
            wanted = counts.sum(axis=0).tolist()
            wanted[role] = before + 1 if one_each else want[role]
            only = masks[role] & ~_kept_away(table, nodes, role, counts)
            counts = fill(table, nodes, wanted, start=counts, only=only)
    return counts


def _is_alone(table: NodeTable, role: int) -> bool:
    """Whether pods of the role must be apart from each other."""
    return any(
        isinstance(one.rule, PodAntiAffinityRule) and role in one.owners and role in one.others
        for one in table.rows.book.meetings
    )


def _kept_away(table: NodeTable, nodes: IntArray, role: int, counts: Counts) -> BoolArray:
    """The nodes near which a pod is that the role must be apart from."""
    away = np.zeros(len(nodes), dtype=np.bool_)
    for one in table.rows.book.meetings:
        foes: list[int] = []
        if isinstance(one.rule, PodAntiAffinityRule):
            foes = [*(one.others if role in one.owners else ()), *(one.owners if role in one.others else ())]
        lines = np.flatnonzero(counts[:, foes].any(axis=1)).tolist()
        label_values = {table.rows.label_values[table.row[nodes[line]]][one.key] for line in lines} - {""}
        if label_values:
            away |= _lies_in(table, nodes, one.key, label_values)
    return away
