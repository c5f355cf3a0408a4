"""The usable nodes of a problem as arrays: by class (`ClassRows`) and by node (`NodeTable`).

A row is a node class. Where a class lacks the label of a level that matters, each of its nodes is a row,
since it counts as a domain. Nodes that no role may use, or that a required level excludes, have no row.
Building the rows is O(classes * (roles + resources + levels)).
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.model.names import NodeName
from phalanx.rules.primitives import SubgroupConstraint, SubgroupPreference
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.domains import DomainKey, domain_key, open_domains
from phalanx.solver.limits import ARRAY_AMOUNT_MAX
from phalanx.solver.problem_rules import ProblemRules, SubgroupTightness, read_rules

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FITS_MAX: Final = 1 << 30
"""A node holds at most so many pods; sums over 2^30 nodes stay below 2^63."""


class TooLarge(Exception):
    """Amounts, or sums of them, could be inexact in machine integers; the backend declines."""


class Tree(Struct, frozen=True, eq=False):
    """The domains of each level that matters, by number."""

    parent: tuple[IntArray, ...]
    """`parent[i][d]` is the domain of level i - 1 that contains d."""
    open: tuple[BoolArray, ...]
    """`open[i][d]`: whether the gang already runs in d."""
    keys: tuple[tuple[DomainKey, ...], ...]
    """`keys[i][d]` is the key of d."""


class ClassRows(Struct, frozen=True, eq=False):
    """Arrays over rows. Two-dimensional ones have a column per resource or role."""

    problem: PlacementProblem
    rules: ProblemRules
    classes: tuple[NodeClass, ...]
    """The class of each row."""
    nodes: tuple[tuple[NodeName, ...], ...]
    """The nodes of each row."""
    count: IntArray
    """Number of nodes."""
    free: IntArray
    fits: IntArray
    """Pods of a role that one node holds alone."""
    cost: IntArray
    budgets: tuple[tuple[int, ...], ...]
    """The budgets that count the nodes."""
    domain: tuple[IntArray, ...]
    """`domain[i]` is the number of each row's domain of level i."""
    tree: Tree
    label_values: tuple[tuple[str, ...], ...]
    """Values of the problem's label keys."""
    domain_capacity: IntArray | None
    """Capacity of each domain of the gang's deepest level; None without a tightness term."""
    role_weights: tuple[int, ...]
    """Dominant share of one pod on the largest node, in thousandths, 1 to 1000."""
    role_order: tuple[int, ...]
    """Roles by weight, largest first; of equal ones those with fewer nodes first."""


def class_rows(problem: PlacementProblem) -> ClassRows:
    """Build the rows in the order of the classes.

    None remain where an anchor contradicts a required level. Raises TooLarge where a node has more than
    ARRAY_AMOUNT_MAX of a resource free and the pods could use that much.
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
        domain_capacity=_domain_capacity(used, domain[rules.gang_depth - 1])
        if rules.gang_depth and problem.prefers_tightness
        else None,
        role_weights=weights,
        role_order=_role_order(weights, fits, count),
    )


def requests_of(problem: PlacementProblem) -> IntArray:
    """Requests by [role, resource]; amounts that fit on no node are cut."""
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
    """Free amounts by [class, resource]; too large ones are cut to what all pods can use."""
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
    """Pods that one node holds alone, by [class, role]."""
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
    anchor_domains = {anchor.path[:required] for anchor in problem.anchors}
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


def _domain_capacity(groups: Sequence[NodeClass], domain: IntArray) -> IntArray:
    """Capacity per domain; all rows of a domain state the same."""
    capacity = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    capacity[domain] = [group.domain_capacity for group in groups]
    return capacity


def subgroup_capacities(rows: ClassRows, level: int) -> IntArray:
    """The pod capacity of each domain of a level that subgroups ask for."""
    capacity = np.zeros(len(rows.tree.keys[level]), dtype=np.int64)
    capacity[rows.domain[level]] = [dict(each.subgroup_capacities).get(level, 0) for each in rows.classes]
    return capacity


def sum_per_domain(domain: IntArray, amounts: IntArray) -> IntArray:
    """Sum the amounts of rows by domain number."""
    total = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(total, domain, amounts)
    return total


def _leaves(
    depth: int, groups: Sequence[NodeClass], nodes: Sequence[tuple[NodeName, ...]]
) -> tuple[list[int], list[tuple[tuple[str, ...], NodeName]]]:
    """The number of each row's deepest domain, and a path and node in each of them."""
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
    """The rows' domains per level and the tree of all domains."""
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
        open_keys = open_domains(problem.anchors, level)
        opened.append(np.array([key in open_keys for key in numbers], dtype=np.bool_))
        known.append(tuple(numbers))
    return tuple(domain), Tree(parent=tuple(parent), open=tuple(opened), keys=tuple(known))


Counts = NDArray[np.int64]
"""Pods by [position in a selection of nodes, role]."""


class NodeTable(Struct, frozen=True, eq=False):
    """Single nodes: names, and the row of each. A selection is an array of positions in this table."""

    rows: ClassRows
    names: tuple[NodeName, ...]
    row: IntArray

    @property
    def everything(self) -> IntArray:
        """The selection of all nodes."""
        return np.arange(len(self.names), dtype=np.int64)


def node_table(rows: ClassRows) -> NodeTable:
    """List the nodes of the rows in their order."""
    return NodeTable(
        rows=rows,
        names=tuple(name for names in rows.nodes for name in names),
        row=np.repeat(np.arange(len(rows.nodes), dtype=np.int64), rows.count),
    )


class Placement(Struct, frozen=True, eq=False):
    """Pods on selected nodes, before they are checked and certified."""

    nodes: IntArray
    counts: Counts

    @property
    def placed(self) -> list[int]:
        """Pods placed per role."""
        placed: list[int] = self.counts.sum(axis=0).tolist()
        return placed


def assignments_of(table: NodeTable, found: Placement) -> list[Assignment]:
    """Convert a placement to assignments."""
    used, roles = np.nonzero(found.counts)
    nodes, counts = found.nodes[used].tolist(), found.counts[used, roles].tolist()
    return [
        Assignment(role=role, node=table.names[node], count=count)
        for role, node, count in zip(roles.tolist(), nodes, counts, strict=True)
    ]


def anchored_counts(rows: ClassRows, constraint: SubgroupConstraint) -> dict[int, int]:
    """Running members per domain of the constraint's level that has usable nodes."""
    numbers = {key: number for number, key in enumerate(rows.tree.keys[constraint.level])}
    return {numbers[path]: count for path, count in sorted(constraint.anchors.items()) if path in numbers}


def allowed_domains(rows: ClassRows, constraint: SubgroupConstraint) -> tuple[int, ...] | None:
    """The domains that running members leave to a subgroup that must share one; None for any."""
    if not constraint.anchors:
        return None
    return tuple(anchored_counts(rows, constraint)) if len(constraint.anchors) == 1 else ()


def anchored_numbers(
    rows: ClassRows, preference: SubgroupPreference | SubgroupTightness, level: int
) -> tuple[int, ...]:
    """The domains of a level with usable nodes in which members run; using them costs nothing."""
    there = open_domains(preference.anchors, level)
    return tuple(number for number, key in enumerate(rows.tree.keys[level]) if key in there) if there else ()
