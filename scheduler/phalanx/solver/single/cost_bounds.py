"""Lower bounds on the cost term: each role has the nodes alone.

Where pods of a role avoid each other, each further one in a domain costs more than the one before, so the
cheapest nodes and the best spread follow from one sorted list. Pods that draw each other are near at most as
many as fit into one domain.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.rules.primitives import UNIQUE_PER_NODE, PairPreference
from phalanx.solver.arrays import FITS_MAX, IntArray, NodeTable
from phalanx.solver.single.scopes import Scope


class _Nodes(Struct, frozen=True, eq=False):
    """The nodes of a scope, by node and role."""

    cost: IntArray
    fits: IntArray


class CostBounds:
    """Lower bounds for the scopes of one problem."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[tuple[int, int, int], int] = {}
        self._roles = table.rows.problem.roles
        self._pairs = table.rows.rules.pairs

    def least(self, scope: Scope, placed: int) -> int:
        """The least cost of so many pods in the scope."""
        key = (scope.depth, scope.domain, placed)
        if key not in self._known:
            self._known[key] = self._least(scope, placed)
        return self._known[key]

    def _least(self, scope: Scope, placed: int) -> int:
        rows = self._table.rows
        row = self._table.row[scope.nodes]
        if not (self._pairs or rows.cost[row].any()):
            return 0
        most = np.array([role.maximum for role in self._roles], dtype=np.int64)
        nodes = _Nodes(cost=rows.cost[row], fits=np.minimum(np.minimum(rows.fits[row], FITS_MAX), most))
        domains = [self._domains(pairs, row) for pairs in self._pairs]
        least = self._cheapest(nodes, placed, None, None)
        apart = [
            self._apart(pairs, nodes, domain) for pairs, domain in zip(self._pairs, domains, strict=True)
        ]
        found = [least + sum(apart)]
        for number, (pairs, domain) in enumerate(zip(self._pairs, domains, strict=True)):
            others = sum(apart) - apart[number]
            found.append(self._cheapest(nodes, placed, pairs, domain) + others)
        missed = [
            self._missed(pairs, nodes, domain) for pairs, domain in zip(self._pairs, domains, strict=True)
        ]
        return max(found) + sum(missed)

    def _domains(self, pairs: PairPreference, row: IntArray) -> IntArray:
        """The number of each node's domain from 0; -1 for none."""
        if pairs.key == UNIQUE_PER_NODE:
            return np.arange(len(row), dtype=np.int64)
        numbers: dict[str, int] = {"": -1}
        values = [values[pairs.key] for values in self._table.rows.label_values]
        per_row = [numbers.setdefault(value, len(numbers) - 1) for value in values]
        found: IntArray = np.array(per_row, dtype=np.int64)[row]
        return found

    def _cheapest(
        self, nodes: _Nodes, placed: int, pairs: PairPreference | None, domain: IntArray | None
    ) -> int:
        """The least cost when each role is alone; with the pairs of equal roles that avoid each other."""
        total, rest = 0, []
        for index, role in enumerate(self._roles):
            price = 0 if pairs is None else max(0, -pairs.matrix.both_ways(index, index))
            costs = _pod_costs(nodes.cost[:, index], nodes.fits[:, index], role.maximum, domain, price)
            total += int(costs[: role.minimum].sum())
            rest.append(costs[role.minimum :])
            placed -= role.minimum
        return total + int(np.sort(np.concatenate(rest))[: max(0, placed)].sum())

    def _apart(self, pairs: PairPreference, nodes: _Nodes, domain: IntArray) -> int:
        """The least cost of the pairs that avoid each other, when the minimums are placed."""
        alone = sum(
            max(0, -pairs.matrix.both_ways(index, index))
            * _fewest_pairs(nodes.fits[:, index], domain, role.minimum)
            for index, role in enumerate(self._roles)
        )
        together = [
            price * _fewest_pairs(nodes.fits[:, group].sum(axis=1), domain, self._minimum(group))
            for group, price in self._groups(pairs)
        ]
        return max([alone, *together])

    def _minimum(self, roles: Sequence[int]) -> int:
        return sum(self._roles[role].minimum for role in roles)

    def _groups(self, pairs: PairPreference) -> Iterator[tuple[list[int], int]]:
        """Roles that all avoid each other, with the least price of a pair."""
        price, found = pairs.matrix.both_ways, list[int]()
        for index, role in enumerate(self._roles):
            avoids_itself = role.maximum == 1 or price(index, index) < 0
            if avoids_itself and all(price(index, other) < 0 for other in found):
                found.append(index)
        prices = [
            -price(one, other)
            for position, one in enumerate(found)
            for other in found[position:]
            if one != other or self._roles[one].maximum > 1
        ]
        if len(found) > 1:
            yield found, min(prices)

    def _missed(self, pairs: PairPreference, nodes: _Nodes, domain: IntArray) -> int:
        """What the pairs that draw each other miss at least."""
        missed, matrix = 0, pairs.matrix
        for one, role in enumerate(self._roles):
            for other in range(one, len(self._roles)):
                worth = matrix.both_ways(one, other)
                if worth <= 0:
                    continue
                if one == other:
                    most = role.maximum * (role.maximum - 1)
                    near = role.maximum * _beside(nodes.fits[:, one], domain, role.maximum, itself=1)
                    missed += worth * max(0, (most - near + 1) // 2)
                else:
                    counts = (role.maximum, self._roles[other].maximum)
                    near = min(
                        counts[0] * _beside(nodes.fits[:, other], domain, counts[1], itself=0),
                        counts[1] * _beside(nodes.fits[:, one], domain, counts[0], itself=0),
                    )
                    missed += worth * max(0, counts[0] * counts[1] - near)
        return missed


def _pod_costs(
    cost: IntArray, fits: IntArray, most: int, domain: IntArray | None, price: int
) -> NDArray[np.int64]:
    """The costs of the `most` cheapest pods of a role, ascending.

    Each pod in a domain costs `price` for each other one there. In a domain they take the cheapest nodes
    first, so each costs at least as much as the one before.
    """
    if domain is None or not price:
        order = np.argsort(cost, kind="stable")
        before = np.cumsum(fits[order]) - fits[order]
        return np.repeat(cost[order], np.clip(most - before, 0, fits[order]))
    order = np.lexsort((cost, domain))
    cost, domain, fits = (np.repeat(each[order], fits[order]) for each in (cost, domain, fits))
    first = np.searchsorted(domain, domain, side="left")
    position = np.arange(len(domain), dtype=np.int64) - first
    return np.sort(cost + np.where(domain >= 0, price * position, 0))[:most]


def _fewest_pairs(fits: IntArray, domain: IntArray, pods: int) -> int:
    """The fewest pairs of pods that share a domain."""
    costs = _pod_costs(np.zeros_like(fits), np.minimum(fits, pods), pods, domain, 1)
    return int(costs.sum())


def _beside(fits: IntArray, domain: IntArray, pods: int, *, itself: int) -> int:
    """The most pods that share a domain with a given one, itself not counted."""
    held = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    inside = domain >= 0
    np.add.at(held, domain[inside], fits[inside])
    return max(0, min(pods, int(held.max(initial=0))) - itself)
