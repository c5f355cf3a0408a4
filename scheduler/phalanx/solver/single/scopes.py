"""Scopes: the node sets that may hold a gang as a whole, one domain each or all nodes.

A required level is thereby handled once for every backend: each of its domains is a scope. Narrower scopes
are the branches of the search.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import BoolArray, ClassRows, IntArray, NodeTable, requests_of
from phalanx.solver.problem_rules import pods_allowed

EVERY_ROLE: Final = slice(None)
"""Selects all roles of a problem."""

_SUM_BITS = 44
"""Amounts keep this many bits before they are summed over nodes: 2^19 nodes stay below 2^63."""


class Scope(Struct, frozen=True, eq=False):
    """A selection of nodes: one domain, or with depth 0 all nodes."""

    nodes: IntArray
    depth: int
    """The domain is one of level `depth` - 1."""
    domain: int
    fits: tuple[int, ...]
    """Pods that fit per role when the role has the nodes alone, at most its maximum."""


def scopes_of(table: NodeTable, depth: int) -> list[Scope]:
    """Return the scopes of this depth that could hold the minimums, tightest first.

    An empty list proves that no placement is in one domain of that level.
    """
    rows = table.rows
    domain = rows.domain[depth - 1] if depth else np.zeros(len(rows.count), dtype=np.int64)
    size = np.zeros((len(rows.tree.open[depth - 1]) if depth else 1, len(rows.problem.roles)), dtype=np.int64)
    np.add.at(size, domain, rows.fits * rows.count[:, None])
    fits = np.minimum(size, _most_pods(rows))
    possible = np.flatnonzero(_could_hold(rows, domain, fits))
    domain_of_node = domain[table.row]
    order = np.argsort(domain_of_node, kind="stable")
    first, after = (np.searchsorted(domain_of_node[order], possible, side=side) for side in ("left", "right"))
    scopes = [
        Scope(nodes=order[start:end], depth=depth, domain=number, fits=tuple(fits[number].tolist()))
        for number, start, end in zip(possible.tolist(), first.tolist(), after.tolist(), strict=True)
    ]
    return sorted(scopes, key=lambda scope: tuple(size[scope.domain].tolist()))


def equivalence_key(table: NodeTable, scope: Scope) -> Hashable | None:
    """Return a key that is equal for scopes which hold the same gangs; None where there is no such key.

    There is none where the gang already runs, or where rules look inside the scope.
    """
    rows = table.rows
    inside = any(constraint.level >= scope.depth for constraint in rows.rules.subgroup_constraints)
    if rows.problem.anchors or rows.rules.compares_values or inside:
        return None
    kinds: Counter[Hashable] = Counter()
    used, counts = np.unique(table.row[scope.nodes], return_counts=True)
    for row, count in zip(used.tolist(), counts.tolist(), strict=True):
        kinds[rows.free[row].tobytes(), rows.fits[row].tobytes(), rows.budgets[row]] += count
    return frozenset(kinds.items())


def scaled_usable(
    rows: ClassRows, resource: int, roles: Sequence[int] | slice = EVERY_ROLE
) -> tuple[IntArray, int]:
    """What roles could use of a resource on one node of each row, shifted right so that sums stay exact.

    Rounded up where bits are lost, so sums are never too small. Returns the amounts and the shift.
    """
    requests = requests_of(rows.problem)[roles, resource]
    usable = np.minimum(rows.free[:, resource], rows.fits[:, roles] @ requests)
    shift = max(0, int(usable.max(initial=0)).bit_length() - _SUM_BITS)
    return (usable >> shift) + (1 if shift else 0), shift


def _most_pods(rows: ClassRows) -> list[int]:
    """Per role, the pods that its maximum and the budgets of all nodes allow."""
    everywhere = [budget for budget in rows.rules.budgets if budget.nodes is None]
    return [
        min([role.maximum, *(pods_allowed(rows.problem, budget, role) for budget in everywhere)])
        for role in rows.problem.roles
    ]


def _could_hold(rows: ClassRows, domain: IntArray, fits: IntArray) -> BoolArray:
    """Per scope, whether each role alone and the minimums' total requests fit."""
    minimums = np.array([role.minimum for role in rows.problem.roles], dtype=np.int64)
    possible: BoolArray = np.all(fits >= minimums, axis=1)
    for resource in range(len(rows.problem.resources)):
        usable, shift = scaled_usable(rows, resource)
        total = np.zeros(len(fits), dtype=np.int64)
        np.add.at(total, domain, usable * rows.count)
        wanted = sum(role.minimum * role.request[resource] for role in rows.problem.roles)
        possible = possible & (total >= min(wanted >> shift, 1 << 62))
    return possible
