"""Best fit: puts pods on selected nodes, the largest role first, on the cheapest and then the fullest nodes.

O(roles * nodes log nodes), in arrays.
"""

from collections.abc import Sequence

import numpy as np

from phalanx.solver.arrays import FITS_MAX, BoolArray, ClassRows, Counts, IntArray, NodeTable, requests_of


class BudgetUse:
    """What the budgets still allow while pods are placed."""

    def __init__(self, rows: ClassRows) -> None:
        names = rows.problem.resources
        self._requests = [role.request for role in rows.problem.roles]
        self._left = [
            {names.index(name): max(0, amount) for name, amount in budget.remaining.items() if name in names}
            for budget in rows.rules.budgets
        ]

    def allowed(self, scope: Sequence[int], role: int, want: int) -> int:
        """How many of `want` pods of a role may still go to nodes that these budgets count."""
        request = self._requests[role]
        counts = [
            left // request[resource]
            for budget in scope
            for resource, left in self._left[budget].items()
            if request[resource] > 0
        ]
        return min([want, *counts])

    def spend(self, scope: Sequence[int], role: int, count: int) -> None:
        """Take the pods' requests off these budgets."""
        for budget in scope:
            for resource in self._left[budget]:
                self._left[budget][resource] -= self._requests[role][resource] * count


def fill(
    table: NodeTable,
    nodes: IntArray,
    want: Sequence[int],
    *,
    start: Counts | None = None,
    only: BoolArray | None = None,
) -> Counts:
    """Place up to `want` pods per role on the selected nodes, on top of `start`; fewer where no more fit.

    `only` selects the nodes that may take more than at the start.
    """
    rows = table.rows
    row = table.row[nodes]
    requests = requests_of(rows.problem)
    counts = np.zeros((len(nodes), len(want)), dtype=np.int64) if start is None else start.copy()
    left = rows.free[row] - counts @ requests
    budget_use = _budget_use(rows, row, counts)
    for role in rows.role_order:
        missing = want[role] - int(counts[:, role].sum())
        if missing <= 0:
            continue
        fits = _fits(left, requests[role], rows.fits[row, role], missing)
        if only is not None:
            fits = np.where(only, fits, 0)
        taken = _take(rows, row, role, fits, missing, budget_use)
        counts[:, role] += taken
        left -= taken[:, None] * requests[role]
    return counts


def fits_beside(table: NodeTable, nodes: IntArray, counts: Counts, roles: Sequence[int]) -> IntArray:
    """Pods of each role that fit alone beside these counts, by [selected node, role]."""
    rows = table.rows
    row = table.row[nodes]
    requests = requests_of(rows.problem)
    left = rows.free[row] - counts @ requests
    fits = [_fits(left, requests[role], rows.fits[row, role], FITS_MAX) for role in roles]
    return np.stack(fits, axis=1)


def _budget_use(rows: ClassRows, row: IntArray, counts: Counts) -> BudgetUse:
    budget_use = BudgetUse(rows)
    for line, role in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
        budget_use.spend(rows.budgets[row[line]], role, int(counts[line, role]))
    return budget_use


def _fits(left: IntArray, request: IntArray, alone: IntArray, missing: int) -> IntArray:
    asked = request > 0
    fits: IntArray = (left[:, asked] // request[asked]).min(axis=1, initial=missing)
    return np.where(alone > 0, fits, 0)


def _take(
    rows: ClassRows, row: IntArray, role: int, fits: IntArray, missing: int, budget_use: BudgetUse
) -> IntArray:
    """Pods that each node takes, at most `missing` in total and within the budgets."""
    taken = np.zeros_like(fits)
    order = np.lexsort((fits, rows.cost[row, role]))
    order = order[fits[order] > 0]
    for scope, members in _by_scope(rows, row, order):
        most = budget_use.allowed(scope, role, missing)
        before = np.cumsum(fits[members]) - fits[members]
        taken[members] = np.clip(most - before, 0, fits[members])
        count = int(taken[members].sum())
        budget_use.spend(scope, role, count)
        missing -= count
    return taken


def _by_scope(rows: ClassRows, row: IntArray, order: IntArray) -> list[tuple[tuple[int, ...], IntArray]]:
    """The ordered nodes, split by the budgets that count them."""
    if not rows.rules.budgets:
        return [((), order)]
    scopes: dict[tuple[int, ...], list[int]] = {}
    for line in order.tolist():
        scopes.setdefault(rows.budgets[row[line]], []).append(line)
    return [(scope, np.array(lines, dtype=np.int64)) for scope, lines in scopes.items()]
