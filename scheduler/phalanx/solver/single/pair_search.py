"""Greedy search and local search where it matters which pods are near each other.

That is so with traffic between roles, and with preferences between pods of a gang. Pods are placed one by one
where they exchange most with those that are placed or run there, or are worth most beside them. Then single
pods are moved, and pairs of pods are exchanged, as long as the objective improves. Traffic on a wider level
counts more, and all traffic more than costs; the objective of each result is compared exactly.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.rules.primitives import UNIQUE_PER_NODE, PairPreference
from phalanx.rules.problem import Assignment
from phalanx.rules.traffic_matrix import NO_TRAFFIC, TrafficMatrix
from phalanx.solver.arrays import Counts, IntArray, NodeTable, Placement, assignments_of, requests_of
from phalanx.solver.checker import violated_rules
from phalanx.solver.domains import domain_key
from phalanx.solver.objective import Scorer
from phalanx.solver.single.scopes import Scope

LEVEL_FACTOR: Final = 64.0
"""How much more traffic counts on the next wider level. The exact comparison is left to the objective."""

COST_FACTOR: Final = 2.0**-20
"""How much a cost counts beside traffic between nodes."""

GREEDY_WORK_MAX: Final = 4_000_000
"""Pods times nodes up to which pods are placed one by one: about a tenth of a second."""

EXCHANGE_ENTRIES_MAX: Final = 256
"""Pairs of a node and a role up to which all exchanges of two pods are compared."""

STEPS_MAX: Final = 256
"""Moves and exchanges of one local search."""

STEPS_WORK_MAX: Final = 4_000_000
"""Pairs of a pod and a node that all steps of one local search may compare: about a tenth of a second."""

TRIALS_MAX: Final = 8
"""Moves or exchanges whose objective is compared in one step, the most promising first."""

_LEAST_GAIN: Final = 1e-6

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def with_better_pairs(
    table: NodeTable, scope: Scope, found: Placement, scorer: Scorer
) -> Iterator[Placement]:
    """Yield placements of as many pods per role in the scope, each better than the one before."""
    if not any(found.placed):
        return
    best = scorer.score(assignments_of(table, found))
    first = _on_all_nodes(scope, found)
    usable = _usable(table, scope, first)
    for counts in _starts(table, scope, usable, first):
        search = _Search(table, scope, usable, counts)
        for better in _improved(search, scorer):
            score = scorer.score(assignments_of(table, better))
            if score < best:
                best = score
                yield better


def _starts(table: NodeTable, scope: Scope, usable: BoolArray, first: Counts) -> Iterator[Counts]:
    """Placements with which a local search begins, the most promising ones first."""
    wanted = first.sum(axis=0).tolist()
    if _is_free_to_choose(table, scope) and sum(wanted) * len(scope.nodes) <= GREEDY_WORK_MAX:
        for tight in (True, False):
            counts = _grown(table, scope, usable, wanted, tight=tight)
            if counts is not None:
                yield counts
    yield first


def _on_all_nodes(scope: Scope, found: Placement) -> Counts:
    counts = np.zeros((len(scope.nodes), found.counts.shape[1]), dtype=np.int64)
    counts[np.searchsorted(scope.nodes, found.nodes)] = found.counts
    return counts


def _usable(table: NodeTable, scope: Scope, counts: Counts) -> BoolArray:
    """The nodes of the domains that are used, where few domains are preferred; else all nodes."""
    depth = table.rows.rules.preferred_depth
    if not depth:
        return np.ones(len(scope.nodes), dtype=np.bool_)
    domain = table.rows.domain[depth - 1][table.row[scope.nodes]]
    used: BoolArray = np.isin(domain, domain[counts.any(axis=1)])
    return used


def _is_free_to_choose(table: NodeTable, scope: Scope) -> bool:
    """Whether any nodes with capacity may take any number of pods."""
    rules = table.rows.rules
    if rules.subgroup_constraints or rules.compares_values:
        return False
    return len({table.rows.budgets[row] for row in np.unique(table.row[scope.nodes]).tolist()}) == 1


class _Layer(Struct, frozen=True, eq=False):
    """Domains, and what two pods in one of them are worth."""

    domain: IntArray
    """By node; -1 for a node in no domain."""
    worth: FloatArray
    """By [role, role]."""

    def same(self, node: int) -> BoolArray:
        """The nodes in one domain with this one."""
        if self.domain[node] < 0:
            return np.zeros(len(self.domain), dtype=np.bool_)
        found: BoolArray = self.domain == self.domain[node]
        return found


class _State:
    """Pods on the nodes of a scope, and what a further pod of each role would be worth on each node."""

    def __init__(self, table: NodeTable, scope: Scope, usable: BoolArray, counts: Counts) -> None:
        rows = table.rows
        self.table, self.nodes = table, scope.nodes
        row = table.row[scope.nodes]
        matrix = rows.rules.traffic
        cost_factor = COST_FACTOR if matrix is not None else 1.0
        self.layers = [] if matrix is None else _traffic_layers(table, scope, matrix)
        self.domains = [layer.domain for layer in self.layers]
        for pairs in rows.rules.pairs:
            self.layers.append(_pair_layer(table, scope, pairs, cost_factor))
        self.requests = requests_of(rows.problem)
        self.may = (rows.fits[row] > 0) & usable[:, None]
        self.budgets = [rows.budgets[number] for number in row.tolist()]
        self.free = rows.free[row]
        self.counts = counts.copy()
        self.left = self.free - self.counts @ self.requests
        self.worth = -cost_factor * rows.cost[row].T.astype(np.float64)
        if matrix is not None:
            self._anchor(matrix)
        for node, role in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
            self._add(node, role, int(counts[node, role]))

    def _anchor(self, matrix: TrafficMatrix) -> None:
        """Running members draw others to their domains and nodes."""
        names = [self.table.names[position] for position in self.nodes.tolist()]
        pulls = _pulls(matrix)
        for anchor, index in matrix.anchors:
            drawn = np.array([0.0 if own == NO_TRAFFIC else pulls[own, index] for own in matrix.members])
            drawn *= anchor.count
            *levels, nodes = self.domains
            for level, domain in enumerate(levels):
                keys = self.table.rows.tree.keys[level]
                key = domain_key(anchor.path, level, anchor.node)
                if key in keys:
                    factor = LEVEL_FACTOR ** (len(levels) - level)
                    self.worth[:, domain == keys.index(key)] += factor * drawn[:, None]
            if anchor.node in names:
                self.worth[:, nodes == names.index(anchor.node)] += drawn[:, None]

    def _add(self, node: int, role: int, count: int) -> None:
        for layer in self.layers:
            self.worth[:, layer.same(node)] += count * layer.worth[:, role][:, None]

    def change(self, node: int, role: int, count: int) -> None:
        """Place further pods on a node, or take some away."""
        self.counts[node, role] += count
        self.left[node] -= count * self.requests[role]
        self._add(node, role, count)

    def beside(self, role: int, node: int) -> FloatArray:
        """What a pod of the role on this node is worth to another one of the role on each node."""
        found = np.zeros(len(self.nodes))
        for layer in self.layers:
            found += layer.worth[role, role] * layer.same(node)
        return found

    def fits(self, role: int) -> BoolArray:
        """The nodes on which a further pod of the role fits."""
        asked = self.requests[role] > 0
        enough: BoolArray = (self.left[:, asked] >= self.requests[role][asked]).all(axis=1)
        return enough & self.may[:, role]


def _pulls(matrix: TrafficMatrix) -> FloatArray:
    """What a further member of a role would exchange with one member of a role, by [role, role]."""
    array = np.array(matrix.weights, dtype=np.int64).reshape(matrix.size, matrix.size)
    return (array + array.T).astype(np.float64)


def _traffic_layers(table: NodeTable, scope: Scope, matrix: TrafficMatrix) -> list[_Layer]:
    """The levels from the widest one, and the nodes."""
    row = table.row[scope.nodes]
    levels = [table.rows.domain[level][row] for level in range(table.rows.rules.traffic_depth)]
    domains = [*levels, np.arange(len(scope.nodes), dtype=np.int64)]
    pulls = _pulls(matrix)
    members = np.array(matrix.members, dtype=np.int64)
    there = members != NO_TRAFFIC
    worth = np.where(there[:, None] & there[None, :], pulls[np.ix_(members, members)], 0.0)
    return [
        _Layer(domain, worth * LEVEL_FACTOR**power)
        for domain, power in zip(domains, range(len(levels), -1, -1), strict=True)
    ]


def _pair_layer(table: NodeTable, scope: Scope, pairs: PairPreference, factor: float) -> _Layer:
    worth = _pulls(pairs.matrix) * factor
    if pairs.key == UNIQUE_PER_NODE:
        return _Layer(np.arange(len(scope.nodes), dtype=np.int64), worth)
    numbers: dict[str, int] = {"": -1}
    values = [values[pairs.key] for values in table.rows.label_values]
    per_row = [numbers.setdefault(value, len(numbers) - 1) for value in values]
    return _Layer(np.array(per_row, dtype=np.int64)[table.row[scope.nodes]], worth)


def _grown(
    table: NodeTable, scope: Scope, usable: BoolArray, wanted: Sequence[int], *, tight: bool
) -> Counts | None:
    """Place pods one by one where they are worth most; None where some do not fit.

    The first ones go to the `tight` domain that could hold all, or to the one with most capacity.
    """
    empty = np.zeros((len(scope.nodes), len(wanted)), dtype=np.int64)
    state = _State(table, scope, usable, empty)
    free = _free_first(state, wanted, tight=tight)
    missing = list(wanted)
    while any(missing):
        best: tuple[float, int, int] | None = None
        for role, count in enumerate(missing):
            fits = state.fits(role) if count else np.zeros(0, dtype=np.bool_)
            if not fits.any():
                continue
            gain = np.where(fits, state.worth[role] + free, -np.inf)
            node = int(gain.argmax())
            entry = (float(gain[node]), -role, node)
            if best is None or entry > best:
                best = entry
        if best is None:
            return None
        role, node = -best[1], best[2]
        state.change(node, role, 1)
        missing[role] -= 1
    return state.counts


def _free_first(state: _State, wanted: Sequence[int], *, tight: bool) -> FloatArray:
    """Numbers below 1 by which nodes are preferred that are worth the same."""
    weight = np.array(wanted, dtype=np.float64)
    fits = np.minimum(state.table.rows.fits[state.table.row[state.nodes]], wanted).astype(np.float64)
    found, scale = np.zeros(len(state.nodes)), 0.25
    for layer in state.layers:
        domain = layer.domain + 1
        held = np.zeros((int(domain.max(initial=0)) + 1, len(wanted)))
        np.add.at(held, domain, fits)
        held[0] = 0
        most = 2 * len(weight) * weight
        size = np.minimum(held, most).sum(axis=1) / max(1.0, float(most.sum()))
        if tight:
            size = np.where((held >= weight).all(axis=1), 2.0 - size, size)
        found += scale * size[domain] / 2
        scale /= 8
    return found


class _Step(Struct, frozen=True):
    """Pods that change their nodes: changes of a count by node and role."""

    changes: tuple[tuple[int, int, int], ...]


class _Search(_State):
    """Local search by moves of one pod and exchanges of two."""

    def steps(self) -> list[_Step]:
        """The most promising steps."""
        entries = [(int(node), int(role)) for node, role in zip(*np.nonzero(self.counts), strict=True)]
        found = [*self._moves(entries), *self._exchanges(entries)]
        found.sort(key=lambda each: -each[0])
        return [step for _, step in found[:TRIALS_MAX]]

    def _moves(self, entries: Sequence[tuple[int, int]]) -> Iterator[tuple[float, _Step]]:
        for node, role in entries:
            gain = self.worth[role] - self.beside(role, node)
            gain -= gain[node]
            gain = np.where(self.fits(role), gain, -np.inf)
            gain[node] = -np.inf
            target = int(gain.argmax())
            if gain[target] > _LEAST_GAIN and self.budgets[target] == self.budgets[node]:
                yield float(gain[target]), _Step(((node, role, -1), (target, role, 1)))

    def _exchanges(self, entries: Sequence[tuple[int, int]]) -> Iterator[tuple[float, _Step]]:
        if not 1 < len(entries) <= EXCHANGE_ENTRIES_MAX:
            return
        gain = self._gains(entries)
        order = np.argsort(-np.triu(gain, 1), axis=None, kind="stable")[: 4 * TRIALS_MAX]
        for position in order.tolist():
            left, right = divmod(position, len(entries))
            if gain[left, right] <= _LEAST_GAIN or left >= right:
                return
            (one, role), (two, other) = entries[left], entries[right]
            if self._may_exchange(one, role, two, other):
                changes = ((one, role, -1), (two, role, 1), (two, other, -1), (one, other, 1))
                yield float(gain[left, right]), _Step(changes)

    def _gains(self, entries: Sequence[tuple[int, int]]) -> FloatArray:
        """What is gained if a pod of one entry and a pod of another one exchange their nodes."""
        nodes, roles = (np.array(each, dtype=np.int64) for each in zip(*entries, strict=True))
        alone = self.worth[np.ix_(roles, nodes)]
        own = np.diag(alone)
        gain: FloatArray = alone + alone.T - own[:, None] - own[None, :]
        for layer in self.layers:
            domain, worth = layer.domain[nodes], layer.worth[np.ix_(roles, roles)]
            has = (domain >= 0).astype(np.float64)
            same = (domain[:, None] == domain[None, :]) * has[:, None]
            itself = np.diag(worth)
            gain += itself[:, None] * (has[:, None] - same) + itself[None, :] * (has[None, :] - same)
            gain += worth * (2 * same - has[:, None] - has[None, :])
        return gain

    def _may_exchange(self, one: int, role: int, two: int, other: int) -> bool:
        difference = self.requests[role] - self.requests[other]
        fits = (self.left[one] + difference >= 0).all() and (self.left[two] - difference >= 0).all()
        allowed = bool(self.may[two, role] and self.may[one, other])
        return bool(fits) and allowed and role != other and self.budgets[one] == self.budgets[two]

    def apply(self, step: _Step, *, back: bool = False) -> None:
        """Take a step, or take it back."""
        for node, role, count in step.changes:
            self.change(node, role, -count if back else count)


def _improved(search: _Search, scorer: Scorer) -> Iterator[Placement]:
    """The placement that a search starts with, and those that follow from it, each better."""
    table, rules = search.table, search.table.rows.rules
    has_rules = bool(rules.subgroup_constraints or rules.compares_values)
    best = scorer.score(_assignments(search))
    yield Placement(nodes=search.nodes, counts=search.counts.copy())
    work = int(np.count_nonzero(search.counts)) * len(search.nodes)
    for _ in range(min(STEPS_MAX, STEPS_WORK_MAX // max(1, work))):
        for step in search.steps():
            search.apply(step)
            assignments = _assignments(search)
            score = scorer.score(assignments)
            if score < best and not (has_rules and violated_rules(table.rows.problem, assignments)):
                best = score
                yield Placement(nodes=search.nodes, counts=search.counts.copy())
                break
            search.apply(step, back=True)
        else:
            return


def _assignments(search: _Search) -> list[Assignment]:
    return assignments_of(search.table, Placement(nodes=search.nodes, counts=search.counts))
