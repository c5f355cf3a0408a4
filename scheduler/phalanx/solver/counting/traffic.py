"""Terms of traffic for the counting model: all traffic without what is inside each domain. Preferences
between pods of a gang are what is inside each domain.

The traffic inside a node with a pattern is a constant. Inside other domains it is a sum of products of two
counts. One of the counts is written in unary: the product is the sum, over its units, of the other count.
Terms are minimised, so a product with a positive weight needs upper limits only.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.rules.primitives import UNIQUE_PER_NODE
from phalanx.rules.traffic_matrix import NO_TRAFFIC, TrafficMatrix
from phalanx.solver.arrays import ClassRows, TooLarge
from phalanx.solver.counting.node_groups import NodeGroup
from phalanx.solver.domains import domain_key

VARIABLES_MAX: Final = 5_000
"""Patterns of all nodes, and variables for products, of one model. CP-SAT simplifies a model before it counts
its effort, which takes minutes for a model of 10,000 nodes."""

Placed = Mapping[tuple[int, int], int]
"""Pods by role and group."""

Keys = tuple[tuple[int, int], ...]


class Model(Protocol):
    """What the terms need of the counting model."""

    groups: Sequence[NodeGroup]
    rows: ClassRows
    pods: dict[tuple[int, int], cp_model.IntVar]
    used: dict[tuple[int, int], cp_model.IntVar]

    @property
    def cp(self) -> cp_model.CpModel:
        """The model."""

    def count(self, most: int) -> cp_model.IntVar:
        """A new variable from 0 to `most`."""

    def total(
        self, variables: Sequence[cp_model.IntVar], factors: Sequence[int] | None = None
    ) -> cp_model.LinearExpr:
        """The weighted sum of variables."""

    def most(self, variables: Sequence[cp_model.IntVar]) -> int:
        """The largest sum that the variables' own bounds allow."""


class _Part(Struct, frozen=True):
    """The groups of one domain and the members that run there; or a group of which each node is a domain."""

    groups: tuple[int, ...]
    there: tuple[int, ...]
    """By index of the role; in each node of the group if `each_node`."""
    each_node: bool = False


class _Members(Struct, frozen=True, eq=False):
    """The pods of a role of the traffic in one domain."""

    keys: Keys
    variables: list[cp_model.IntVar]
    most: int


class _Unary(Struct, frozen=True, eq=False):
    """A count in unary: `units[k]` is whether there are more than k."""

    keys: Keys
    units: list[cp_model.IntVar]


class _Product(Struct, frozen=True, eq=False):
    """`parts[k]` is the other count if unit k is set, else 0."""

    of: _Unary
    other: Keys
    parts: list[cp_model.IntVar]


class _Square(Struct, frozen=True, eq=False):
    """The product of two totals."""

    variable: cp_model.IntVar
    totals: tuple[tuple[cp_model.IntVar, Keys], tuple[cp_model.IntVar, Keys]]


class _Sum:
    """Variables with factors, and a constant."""

    def __init__(self) -> None:
        self.variables: list[cp_model.IntVar] = []
        self.factors: list[int] = []
        self.constant = 0

    def add(self, variables: Sequence[cp_model.IntVar], factor: int) -> None:
        if factor:
            self.variables += variables
            self.factors += [factor] * len(variables)


class TrafficTerms:
    """Builds the terms of one model, each partition of its nodes once."""

    def __init__(self, model: Model, matrix: TrafficMatrix, *, exactly: bool = True) -> None:
        """`exactly`: whether a node uses exactly the pods of its pattern."""
        if sum([len(group.patterns) or 1 for group in model.groups]) > VARIABLES_MAX:
            raise TooLarge
        self._model, self._matrix, self._exactly = model, matrix, exactly
        self._roles = range(matrix.size)
        self._products: list[_Product] = []
        self._squares: list[_Square] = []
        self._none = (0,) * matrix.size
        self._built: dict[Hashable, cp_model.LinearExpr] = {}
        self._size = 0
        self._everything: _Sum | None = None

    def between_domains(self, level: int) -> cp_model.LinearExpr:
        """The traffic between members in different domains of the level."""
        keys = self._model.rows.tree.keys[level]
        inside: dict[int, list[int]] = {}
        for index, group in enumerate(self._model.groups):
            inside.setdefault(group.domains[level], []).append(index)
        anchored = self._anchored(level)
        parts = [
            _Part(tuple(groups), anchored.pop(keys[domain], self._none)) for domain, groups in inside.items()
        ]
        return self._crossing(parts, list(anchored.values()))

    def between_nodes(self) -> cp_model.LinearExpr:
        """The traffic between members on different nodes."""
        elsewhere = list(self._anchored(None).values())
        parts = []
        for index, group in enumerate(self._model.groups):
            parts.append(_Part((index,), group.anchored or self._none, each_node=len(group.nodes) > 1))
            for _ in group.nodes if group.anchored else ():
                elsewhere.remove(group.anchored)
        return self._crossing(parts, elsewhere)

    def near(self, key: int) -> cp_model.LinearExpr:
        """What is inside the domains of the label with this index, or inside the nodes."""
        inside: dict[Hashable, list[int]] = {}
        for index, group in enumerate(self._model.groups):
            value = index if key == UNIQUE_PER_NODE else group.label_values[key]
            if value != "":
                inside.setdefault(value, []).append(index)
        sums = _Sum()
        for groups in inside.values():
            each_node = key == UNIQUE_PER_NODE and len(self._model.groups[groups[0]].nodes) > 1
            self._subtract_inside(sums, _Part(tuple(groups), self._none, each_node=each_node))
        return -(self._model.total(sums.variables, sums.factors) + sums.constant)

    def _anchored(self, level: int | None) -> dict[object, tuple[int, ...]]:
        """Running members by domain of the level; None for the nodes."""
        found: dict[object, list[int]] = {}
        for anchor, role in self._matrix.anchors:
            key = anchor.node if level is None else domain_key(anchor.path, level, anchor.node)
            found.setdefault(key, [0] * self._matrix.size)[role] += anchor.count
        return {key: tuple(counts) for key, counts in found.items()}

    def hint(self, placed: Placed) -> None:
        """Hint the values of all variables of the terms."""
        hint = self._model.cp.add_hint
        hinted: set[int] = set()
        for product in self._products:
            count, other = _number(placed, product.of.keys), _number(placed, product.other)
            for position, unit in enumerate(product.of.units):
                if unit.index not in hinted:
                    hinted.add(unit.index)
                    hint(unit, count > position)
            for position, part in enumerate(product.parts):
                hint(part, other if count > position else 0)
        for square in self._squares:
            value = 1
            for total, keys in square.totals:
                if total.index not in hinted:
                    hinted.add(total.index)
                    hint(total, _number(placed, keys))
                value *= _number(placed, keys)
            hint(square.variable, value)

    def _crossing(self, parts: Sequence[_Part], elsewhere: Sequence[tuple[int, ...]]) -> cp_model.LinearExpr:
        """All traffic without that inside the parts, and without that of members elsewhere."""
        if len(parts) == 1 and not parts[0].each_node and not elsewhere:
            return self._model.cp.new_constant(0) + 0
        key = (tuple(parts), tuple(sorted(elsewhere)))
        if key not in self._built:
            sums, everything = _Sum(), self._all()
            sums.constant = everything.constant - sum(map(self._matrix.inside, elsewhere))
            sums.variables, sums.factors = list(everything.variables), list(everything.factors)
            for part in parts:
                self._subtract_inside(sums, part)
            self._built[key] = self._model.total(sums.variables, sums.factors) + sums.constant
        return self._built[key]

    def _members(self, role: int, groups: Sequence[int]) -> _Members:
        """The pods of a role of the traffic in these groups."""
        keys = tuple(
            (own, index)
            for own, number in enumerate(self._matrix.members)
            if number == role
            for index in groups
            if (own, index) in self._model.pods
        )
        variables = [self._model.pods[key] for key in keys]
        most = min(self._model.most(variables), self._most(role))
        return _Members(keys, variables, most)

    def _most(self, role: int) -> int:
        demands = self._model.rows.problem.roles
        owned = zip(demands, self._matrix.members, strict=True)
        return sum(demand.maximum for demand, number in owned if number == role)

    def _subtract_inside(self, sums: _Sum, part: _Part) -> None:
        """Subtract what is inside one domain, or inside each node of a group."""
        first = self._model.groups[part.groups[0]]
        is_one_node = len(part.groups) == 1 and len(first.nodes) == 1 and first.patterns and self._exactly
        if part.each_node or is_one_node:
            self._subtract_patterns(sums, part.groups[0], first, part.there)
        else:
            sums.constant -= self._matrix.inside(part.there)
            self._subtract_products(sums, part.groups, part.there)

    def _subtract_patterns(self, sums: _Sum, index: int, group: NodeGroup, there: tuple[int, ...]) -> None:
        """Subtract what is inside the nodes of a group, by the patterns that they use."""
        base = self._matrix.inside(there)
        sums.constant -= len(group.nodes) * base
        for number, pattern in enumerate(group.patterns):
            counts = list(there)
            for own, count in enumerate(pattern):
                if self._matrix.members[own] != NO_TRAFFIC:
                    counts[self._matrix.members[own]] += count
            more = self._matrix.inside(counts) - base
            if (index, number) in self._model.used:
                sums.add([self._model.used[index, number]], -more)
            else:
                own = next(own for own, count in enumerate(pattern) if count)
                sums.add([self._model.pods[own, index]], -more)

    def _subtract_products(self, sums: _Sum, groups: tuple[int, ...], there: tuple[int, ...]) -> None:
        """Subtract what is inside a domain, as products of the counts of its roles."""
        matrix, members = self._matrix, [self._members(role, groups) for role in self._roles]
        unary: dict[int, _Unary] = {}
        for role in self._roles:
            own = matrix.weights[role][role]
            if own and members[role].most:
                sums.add(members[role].variables, -2 * own * there[role])
                units = self._unary(unary, role, members[role]).units
                for position, unit in enumerate(units):
                    sums.add([unit], -2 * own * position)
            for other in self._roles[role + 1 :]:
                amount = matrix.both_ways(role, other)
                if not amount:
                    continue
                sums.add(members[role].variables, -amount * there[other])
                sums.add(members[other].variables, -amount * there[role])
                if members[role].most and members[other].most:
                    few, many = sorted(
                        (role, other), key=lambda each: (each not in unary, members[each].most)
                    )
                    product = self._product(
                        self._unary(unary, few, members[few]), members[many], at_least=amount < 0
                    )
                    sums.add(product.parts, -amount)

    def _unary(self, known: dict[int, _Unary], role: int, members: _Members) -> _Unary:
        if role not in known:
            units = [self._new(1) for _ in range(members.most)]
            self._model.cp.add(self._model.total(units) == self._model.total(members.variables))
            for before, after in pairwise(units):
                self._model.cp.add_implication(after, before)
            known[role] = _Unary(members.keys, units)
            self._products.append(_Product(known[role], (), []))
        return known[role]

    def _product(self, unary: _Unary, other: _Members, *, at_least: bool) -> _Product:
        """`at_least`: the product is never less than that, instead of never more."""
        parts = []
        for unit in unary.units:
            part = self._new(other.most)
            total = self._model.total(other.variables)
            if at_least:
                self._model.cp.add(part >= total - self._model.most(other.variables) * (1 - unit))
            else:
                self._model.cp.add(part <= total)
                self._model.cp.add(part <= other.most * unit)
            parts.append(part)
        found = _Product(unary, other.keys, parts)
        self._products.append(found)
        return found

    def _new(self, most: int) -> cp_model.IntVar:
        self._size += 1
        if self._size > VARIABLES_MAX:
            raise TooLarge
        return self._model.count(most)

    # --- all traffic ----------------------------------------------------------------------------------------

    def _all(self) -> _Sum:
        """The traffic between all members: a constant if all pods are placed."""
        if self._everything is not None:
            return self._everything
        sums, matrix, demands = _Sum(), self._matrix, self._model.rows.problem.roles
        there = [0] * matrix.size
        for anchor, role in matrix.anchors:
            there[role] += anchor.count
        elastic = set()
        for own, role in enumerate(matrix.members):
            if role != NO_TRAFFIC and demands[own].minimum < demands[own].maximum:
                elastic.add(role)
        fixed = [count + (0 if role in elastic else self._most(role)) for role, count in enumerate(there)]
        sums.constant = matrix.inside(fixed)
        everywhere = range(len(self._model.groups))
        totals = {role: self._total(self._members(role, everywhere)) for role in elastic}
        for role in sorted(elastic):
            (total, _), own = totals[role], matrix.weights[role][role]
            sums.add([total], 2 * own * fixed[role] - own)
            if own:
                sums.add([self._square(totals[role], totals[role])], own)
            for other in self._roles:
                amount = matrix.both_ways(role, other) if other != role else 0
                sums.add([total], amount * fixed[other])
                if amount and other in elastic and other > role:
                    sums.add([self._square(totals[role], totals[other])], amount)
        self._everything = sums
        return sums

    def _total(self, members: _Members) -> tuple[cp_model.IntVar, Keys]:
        total = self._new(members.most)
        self._model.cp.add(self._model.total(members.variables) == total)
        return total, members.keys

    def _square(
        self, one: tuple[cp_model.IntVar, Keys], other: tuple[cp_model.IntVar, Keys]
    ) -> cp_model.IntVar:
        most = self._model.most([one[0]]) * self._model.most([other[0]])
        product = self._new(most)
        self._model.cp.add_multiplication_equality(product, [one[0], other[0]])
        self._squares.append(_Square(product, (one, other)))
        return product


def _number(placed: Placed, keys: Keys) -> int:
    return sum([placed.get(key, 0) for key in keys])
