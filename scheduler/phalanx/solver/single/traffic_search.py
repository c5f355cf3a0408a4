"""Greedy search and local search for little traffic between domains and between nodes.

Pods are placed one by one where they exchange most with those that are placed or run there. Then single pods
are moved, and pairs of pods are exchanged, as long as the objective improves. Levels are weighted so that a
wider one counts more; the objective of each result is compared exactly.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.solver.arrays import Counts, NodeTable, Placement, assignments_of, requests_of
from phalanx.solver.checker import violated_rules
from phalanx.solver.domains import domain_key
from phalanx.solver.objective import Scorer
from phalanx.solver.problem import Assignment
from phalanx.solver.single.scopes import Scope
from phalanx.solver.traffic_matrix import NO_TRAFFIC, TrafficMatrix

LEVEL_FACTOR: Final = 64.0
"""How much more traffic counts on the next wider level. The exact comparison is left to the objective."""

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


def with_less_traffic(
    table: NodeTable, scope: Scope, found: Placement, scorer: Scorer
) -> Iterator[Placement]:
    """Yield placements of as many pods per role in the scope, each better than the one before."""
    matrix = table.rows.rules.traffic
    if matrix is None or not any(found.placed):
        return
    best = scorer.score(assignments_of(table, found))
    starts = [_on_all_nodes(scope, found)]
    if _is_free_to_choose(table, scope) and sum(found.placed) * len(scope.nodes) <= GREEDY_WORK_MAX:
        tried = (_grown(table, matrix, scope, found.placed, tight=tight) for tight in (True, False))
        starts += [counts for counts in tried if counts is not None]
    for counts in starts:
        search = _Search(table, matrix, scope, counts)
        for better in _improved(search, scorer):
            score = scorer.score(assignments_of(table, better))
            if score < best:
                best = score
                yield better


def _on_all_nodes(scope: Scope, found: Placement) -> Counts:
    counts = np.zeros((len(scope.nodes), found.counts.shape[1]), dtype=np.int64)
    counts[np.searchsorted(scope.nodes, found.nodes)] = found.counts
    return counts


def _is_free_to_choose(table: NodeTable, scope: Scope) -> bool:
    """Whether any nodes with capacity may take any number of pods."""
    rules = table.rows.rules
    if rules.subgroup_constraints or rules.affinity_constraints:
        return False
    return len({table.rows.budgets[row] for row in np.unique(table.row[scope.nodes]).tolist()}) == 1


class _State:
    """Pods on the nodes of a scope, and how much each role would exchange with those near each node."""

    def __init__(self, table: NodeTable, matrix: TrafficMatrix, scope: Scope, counts: Counts) -> None:
        rows = table.rows
        self.table, self.matrix, self.nodes = table, matrix, scope.nodes
        row = table.row[scope.nodes]
        levels = [rows.domain[level][row] for level in range(rows.rules.traffic_depth)]
        self.domains = [*levels, np.arange(len(scope.nodes), dtype=np.int64)]
        self.factors = [LEVEL_FACTOR**power for power in range(len(levels), -1, -1)]
        self.pulls = matrix.pulls().astype(np.float64)
        self.requests = requests_of(rows.problem)
        self.may = rows.fits[row] > 0
        self.budgets = [rows.budgets[number] for number in row.tolist()]
        self.free = rows.free[row]
        self.counts = counts.copy()
        self.left = self.free - self.counts @ self.requests
        self.exchanged = np.zeros((matrix.size, len(scope.nodes)))
        self._anchor()
        for node, role in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
            self._pull(node, role, int(counts[node, role]))

    def _anchor(self) -> None:
        """Running members pull to their domains and nodes."""
        names = [self.table.names[position] for position in self.nodes.tolist()]
        for anchor, index in self.matrix.anchors:
            for level, domain in enumerate(self.domains[:-1]):
                keys = self.table.rows.tree.keys[level]
                key = domain_key(anchor.path, level, anchor.node)
                if key in keys:
                    self._add(domain == keys.index(key), level, index, anchor.count)
            if anchor.node in names:
                here = np.zeros(len(names), dtype=np.bool_)
                here[names.index(anchor.node)] = True
                self._add(here, len(self.domains) - 1, index, anchor.count)

    def _add(self, where: NDArray[np.bool_], level: int, index: int, count: int) -> None:
        self.exchanged[:, where] += (self.factors[level] * count) * self.pulls[:, index][:, None]

    def _pull(self, node: int, role: int, count: int) -> None:
        index = self.matrix.members[role]
        if index != NO_TRAFFIC:
            for level, domain in enumerate(self.domains):
                self._add(domain == domain[node], level, index, count)

    def change(self, node: int, role: int, count: int) -> None:
        """Place further pods on a node, or take some away."""
        self.counts[node, role] += count
        self.left[node] -= count * self.requests[role]
        self._pull(node, role, count)

    def exchange(self, role: int) -> FloatArray:
        """What a further pod of the role would exchange on each node."""
        index = self.matrix.members[role]
        return self.exchanged[index] if index != NO_TRAFFIC else np.zeros(len(self.nodes))

    def pull(self, role: int, other: int) -> float:
        """What a pod of a role and one of another role exchange on one level."""
        one, two = self.matrix.members[role], self.matrix.members[other]
        return 0.0 if NO_TRAFFIC in (one, two) else float(self.pulls[one, two])

    def shared(self, node: int) -> FloatArray:
        """The factors of the levels on which each node is in one domain with this one."""
        found = np.zeros(len(self.nodes))
        for factor, domain in zip(self.factors, self.domains, strict=True):
            found += factor * (domain == domain[node])
        return found

    def fits(self, role: int) -> NDArray[np.bool_]:
        """The nodes on which a further pod of the role fits."""
        asked = self.requests[role] > 0
        enough: NDArray[np.bool_] = (self.left[:, asked] >= self.requests[role][asked]).all(axis=1)
        return enough & self.may[:, role]


def _grown(
    table: NodeTable, matrix: TrafficMatrix, scope: Scope, wanted: Sequence[int], *, tight: bool
) -> Counts | None:
    """Place pods one by one where they exchange most; None where some do not fit.

    The first ones go to the `tight` domain that could hold all, or to the one with most capacity.
    """
    empty = np.zeros((len(scope.nodes), len(wanted)), dtype=np.int64)
    state = _State(table, matrix, scope, empty)
    free = _free_first(state, wanted, tight=tight)
    missing = list(wanted)
    while any(missing):
        best: tuple[float, int, int] | None = None
        for role, count in enumerate(missing):
            fits = state.fits(role) if count else np.zeros(0, dtype=np.bool_)
            if not fits.any():
                continue
            gain = np.where(fits, state.exchange(role) + free, -1.0)
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
    """Numbers below 1 by which nodes are preferred before any pod pulls."""
    weight = np.array(wanted, dtype=np.float64)
    fits = np.minimum(state.table.rows.fits[state.table.row[state.nodes]], wanted).astype(np.float64)
    found, scale = np.zeros(len(state.nodes)), 0.25
    for domain in state.domains:
        held = np.zeros((int(domain.max(initial=-1)) + 1, len(wanted)))
        np.add.at(held, domain, fits)
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
            itself = self.pull(role, role)
            gain = self.exchange(role) - itself * self.shared(node)
            gain = np.where(self.fits(role), gain, -np.inf)
            gain -= float(self.exchange(role)[node]) - itself * sum(self.factors)
            gain[node] = -np.inf
            target = int(gain.argmax())
            if gain[target] > _LEAST_GAIN and self.budgets[target] == self.budgets[node]:
                yield float(gain[target]), _Step(((node, role, -1), (target, role, 1)))

    def _exchanges(self, entries: Sequence[tuple[int, int]]) -> Iterator[tuple[float, _Step]]:
        if not 1 < len(entries) <= EXCHANGE_ENTRIES_MAX:
            return
        nodes = np.array([node for node, _ in entries])
        shared = np.stack([self.shared(node)[nodes] for node, _ in entries])
        alone = np.stack([self.exchange(role)[nodes] for _, role in entries])
        pulls = np.array([[self.pull(role, other) for _, other in entries] for _, role in entries])
        apart = sum(self.factors) - shared
        own = np.diag(alone)
        gain = alone + alone.T - own[:, None] - own[None, :]
        gain += (np.diag(pulls)[:, None] + np.diag(pulls)[None, :] - 2 * pulls) * apart
        order = np.argsort(-np.triu(gain, 1), axis=None, kind="stable")[: 4 * TRIALS_MAX]
        for position in order.tolist():
            left, right = divmod(position, len(entries))
            if gain[left, right] <= _LEAST_GAIN or left >= right:
                return
            (one, role), (two, other) = entries[left], entries[right]
            if self._may_exchange(one, role, two, other):
                changes = ((one, role, -1), (two, role, 1), (two, other, -1), (one, other, 1))
                yield float(gain[left, right]), _Step(changes)

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
    has_rules = bool(rules.subgroup_constraints or rules.affinity_constraints)
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
