"""The usable part of a problem as arrays, for backends that look at many nodes at once.

One row is a node class; where a class lacks the label of a level that matters, each of its nodes is a row,
since it is a domain by itself. Nodes that no role may use, or that required levels exclude, have no row.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.limits import ARRAY_AMOUNT_MAX
from phalanx.model.names import NodeName
from phalanx.solver.objective import DomainKey, anchored_domains, domain_key
from phalanx.solver.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.problem_rules import ProblemRules, SubgroupConstraint, SubgroupPreference, read_rules

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FITS_MAX: Final = 1 << 30
"""No node holds more pods than this; sums over 2^30 nodes stay below 2^63."""


class TooLarge(Exception):
    """Amounts, or sums of them, cannot be proven to stay exact in the machine's integers."""


class Tree(Struct, frozen=True, eq=False):
    """The domains of each level that matters, by number. `parent[i][d]` is d's domain of level i - 1.

    `open[i][d]` tells whether the gang already runs in d, `keys[i][d]` is what the domain is known by.
    """

    parent: tuple[IntArray, ...]
    open: tuple[BoolArray, ...]
    keys: tuple[tuple[DomainKey, ...], ...]


class ClassRows(Struct, frozen=True, eq=False):
    """Arrays over rows, and the class behind each; two-dimensional ones have a column per resource or role.

    `fits` is how many pods of a role one node holds by itself. `domain[i]` is the number of each row's domain
    of level i. `count` is a row's number of nodes, `budgets` are the budgets that count them, `spots` the
    values of the problem's keys on them. `capacity` is that of each domain of the gang's deepest level, None
    where tightness does not matter. `role_weights`: the dominant share of one pod in the roomiest node, in
    thousandths, 1 to 1000; `role_order`: by that, largest first, of equals those with fewer nodes first.
    """

    problem: PlacementProblem
    rules: ProblemRules
    classes: tuple[NodeClass, ...]
    nodes: tuple[tuple[NodeName, ...], ...]
    count: IntArray
    free: IntArray
    fits: IntArray
    cost: IntArray
    budgets: tuple[tuple[int, ...], ...]
    domain: tuple[IntArray, ...]
    tree: Tree
    label_values: tuple[tuple[str, ...], ...]
    domain_capacity: IntArray | None
    role_weights: tuple[int, ...]
    role_order: tuple[int, ...]


def class_rows(problem: PlacementProblem) -> ClassRows:
    """The usable rows of a problem, in its order. An anchor that breaks a required level leaves none.

    TooLarge when a node has more than ARRAY_AMOUNT_MAX of something free and the pods could use that much.
    """
    rules = read_rules(problem)
    free = _free(problem)
    fits = _fits(problem, free)
    groups, nodes = _usable(problem, rules, fits)
    used = [problem.classes[group] for group in groups]
    domain, tree = _domains(problem, rules.depth, used, nodes)
    index = np.array(groups, dtype=np.int64)
    free, fits = free[index], fits[index]
    count = np.fromiter(map(len, nodes), dtype=np.int64, count=len(nodes))
    weights = _role_weights(problem, free)
    return ClassRows(
        problem=problem,
        rules=rules,
        classes=tuple(used),
        nodes=tuple(nodes),
        count=count,
        free=free,
        fits=fits,
        cost=_prices(problem, used),
        budgets=tuple(rules.budgets_of(group) for group in used) if rules.budgets else ((),) * len(used),
        domain=domain,
        tree=tree,
        label_values=tuple([group.label_values for group in used]) if problem.keys else ((),) * len(used),
        domain_capacity=_domain_capacity(rules, used, count, domain)
        if rules.gang_depth and problem.prefers_tightness
        else None,
        role_weights=weights,
        role_order=_role_order(weights, fits, count),
    )


def requests_of(problem: PlacementProblem) -> IntArray:
    """Requests as an array, a row per role and a column per resource; cut where they fit on no node."""
    return _table([role.request for role in problem.roles], len(problem.resources))


def _prices(problem: PlacementProblem, groups: Sequence[NodeClass]) -> IntArray:
    if not problem.has_costs:
        return np.zeros((len(groups), len(problem.roles)), dtype=np.int64)
    return _table([group.cost for group in groups], len(problem.roles))


def _role_weights(problem: PlacementProblem, free: IntArray) -> tuple[int, ...]:
    most = free.max(axis=0, initial=1)
    shares = (requests_of(problem) * 1000) // np.maximum(most, 1)
    return tuple([min(max(1, share), 1000) for share in shares.max(axis=1, initial=0).tolist()])


def _role_order(weights: Sequence[int], fits: IntArray, count: IntArray) -> tuple[int, ...]:
    nodes = (count[:, None] * (fits > 0)).sum(axis=0).tolist()
    return tuple(sorted(range(len(weights)), key=lambda role: (-weights[role], nodes[role], role)))


def _free(problem: PlacementProblem) -> IntArray:
    """What nodes have free, a row per class; amounts that are too large are cut to what all pods can use."""
    free = _table([group.free for group in problem.classes], len(problem.resources))
    if int(free.max(initial=0)) <= ARRAY_AMOUNT_MAX:
        return free
    usable = [
        sum(role.maximum * role.request[index] for role in problem.roles)
        for index in range(len(problem.resources))
    ]
    cut = [tuple(map(min, group.free, usable)) for group in problem.classes]
    if max(map(max, cut)) > ARRAY_AMOUNT_MAX:
        raise TooLarge
    return _table(cut, len(problem.resources))


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> IntArray:
    try:
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    except OverflowError:
        cut = (min(amount, ARRAY_AMOUNT_MAX + 1) for amount in chain.from_iterable(rows))
        flat = np.fromiter(cut, dtype=np.int64)
    return np.minimum(flat.reshape(len(rows), columns), ARRAY_AMOUNT_MAX + 1)


def _fits(problem: PlacementProblem, free: IntArray) -> IntArray:
    """Per class and role, how many pods one node holds by itself."""
    shape = (len(problem.classes), len(problem.roles))
    flat = chain.from_iterable([group.eligible for group in problem.classes])
    eligible = np.fromiter(flat, dtype=np.bool_, count=math.prod(shape)).reshape(shape)
    fits = np.zeros(shape, dtype=np.int64)
    for index, request in enumerate(requests_of(problem)):
        asked = request > 0
        counts = (free[:, asked] // request[asked]).min(axis=1, initial=FITS_MAX)
        fits[:, index] = np.where(eligible[:, index], counts, 0)
    return fits


def _usable(
    problem: PlacementProblem, rules: ProblemRules, fits: IntArray
) -> tuple[list[int], list[tuple[NodeName, ...]]]:
    """The class and the nodes of each row."""
    depth, required = rules.depth, rules.required_depth
    anchor_domains = {path[:required] for path in problem.anchors}
    groups: list[int] = []
    nodes: list[tuple[NodeName, ...]] = []
    for index in np.flatnonzero(fits.any(axis=1)).tolist():
        group = problem.classes[index]
        path, names = group.path, group.nodes
        if required and (len(path) < required or not anchor_domains <= {path[:required]}):
            continue
        if len(path) < depth:
            groups += [index] * len(names)
            nodes += [(node,) for node in names]
        elif names:
            groups.append(index)
            nodes.append(names)
    return groups, nodes


def _domain_capacity(
    rules: ProblemRules, groups: Sequence[NodeClass], count: IntArray, domain: Sequence[IntArray]
) -> IntArray:
    """Per domain its room; that of nodes that are left out is with the first row of their class."""
    capacity = np.fromiter([group.capacity for group in groups], dtype=np.int64, count=len(groups)) * count
    depth = rules.gang_depth
    incomplete = [row for row, group in enumerate(groups) if group.left_out and len(group.path) >= depth]
    for row in incomplete:
        if row == 0 or groups[row - 1] is not groups[row]:
            capacity[row] += groups[row].capacity * groups[row].left_out
    return sum_per_domain(domain[depth - 1], capacity)


def sum_per_domain(domain: IntArray, amounts: IntArray) -> IntArray:
    """The sums of what rows have, by the number of their domain."""
    total = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(total, domain, amounts)
    return total


def _leaves(
    depth: int, groups: Sequence[NodeClass], nodes: Sequence[tuple[NodeName, ...]]
) -> tuple[list[int], list[tuple[tuple[str, ...], NodeName]]]:
    """The number of each row's deepest domain; and, by this number, a path and a node that lie in it."""
    numbers: dict[DomainKey, int] = {}
    leaf: list[int] = []
    examples: list[tuple[tuple[str, ...], NodeName]] = []
    for group, names in zip(groups, nodes, strict=True):
        path = group.path
        key = path[:depth] if len(path) >= depth else domain_key(path, depth - 1, names[0])
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(numbers)
            examples.append((path, names[0]))
        leaf.append(number)
    return leaf, examples


def _domains(
    problem: PlacementProblem, depth: int, groups: Sequence[NodeClass], nodes: Sequence[tuple[NodeName, ...]]
) -> tuple[tuple[IntArray, ...], Tree]:
    """The rows' domains of each level and the tree of all domains, from each row's class and nodes."""
    leaf, examples = _leaves(depth, groups, nodes)
    domain: list[IntArray] = []
    parent: list[IntArray] = []
    opened: list[BoolArray] = []
    known: list[tuple[DomainKey, ...]] = []
    for level in range(depth):
        numbers: dict[DomainKey, int] = {}
        keys = (domain_key(path, level, node) for path, node in examples)
        of_leaf = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        domain.append(of_leaf[leaf] if leaf else of_leaf)
        around = np.zeros(len(numbers), dtype=np.int64)
        if level:
            around[domain[level]] = domain[level - 1]
        parent.append(around)
        anchored_counts = anchored_domains(problem, level)
        opened.append(np.array([key in anchored_counts for key in numbers], dtype=np.bool_))
        known.append(tuple(numbers))
    return tuple(domain), Tree(parent=tuple(parent), open=tuple(opened), keys=tuple(known))


Counts = NDArray[np.int64]
"""Pods placed: one line per node of a selection, one column per role."""


class NodeTable(Struct, frozen=True, eq=False):
    """Names of the nodes and the row of each. A selection of nodes is an array of positions in this table."""

    rows: ClassRows
    names: tuple[NodeName, ...]
    row: IntArray

    @property
    def everything(self) -> IntArray:
        """The selection of all nodes."""
        return np.arange(len(self.names), dtype=np.int64)


def node_table(rows: ClassRows) -> NodeTable:
    """The table of a problem's usable nodes, in the problem's order."""
    return NodeTable(
        rows=rows,
        names=tuple(name for names in rows.nodes for name in names),
        row=np.repeat(np.arange(len(rows.nodes), dtype=np.int64), rows.count),
    )


class Placement(Struct, frozen=True, eq=False):
    """A placement on selected nodes, before it is checked and certified."""

    nodes: IntArray
    counts: Counts

    @property
    def placed(self) -> list[int]:
        """Pods placed per role."""
        placed: list[int] = self.counts.sum(axis=0).tolist()
        return placed


def assignments_of(table: NodeTable, found: Placement) -> list[Assignment]:
    """The placement in the form of an answer."""
    used, roles = np.nonzero(found.counts)
    nodes, counts = found.nodes[used].tolist(), found.counts[used, roles].tolist()
    return [
        Assignment(role=role, node=table.names[node], count=count)
        for role, node, count in zip(roles.tolist(), nodes, counts, strict=True)
    ]


def anchored_counts(rows: ClassRows, constraint: SubgroupConstraint) -> dict[int, int]:
    """How many members run in each domain of the bond's level that has usable nodes."""
    numbers = {key: number for number, key in enumerate(rows.tree.keys[constraint.level])}
    return {numbers[path]: count for path, count in sorted(constraint.anchors.items()) if path in numbers}


def allowed_domains(rows: ClassRows, constraint: SubgroupConstraint) -> tuple[int, ...] | None:
    """The domains in which a subgroup that must share one may lie, as its members run; None for any."""
    if not constraint.anchors:
        return None
    return tuple(anchored_counts(rows, constraint)) if len(constraint.anchors) == 1 else ()


def anchored_numbers(rows: ClassRows, preference: SubgroupPreference, level: int) -> tuple[int, ...]:
    """The domains of a level that have usable nodes and in which members run: lying there costs nothing."""
    there = preference.anchored_domains(level)
    return tuple(number for number, key in enumerate(rows.tree.keys[level]) if key in there) if there else ()
