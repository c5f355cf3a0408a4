"""Lower bounds on the objective from relaxations that need no search.

Each role alone, and each resource in total, is a single divisible item on the tree of domains. The fewest
domains that hold it are known exactly (`fewest_domains`), and a placement of all roles together uses no
fewer. `subgroup_bounds` has the terms about subgroups.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import ClassRows, IntArray, NodeTable
from phalanx.solver.objective import DOMAINS, NODE_TRAFFIC, TRAFFIC, UNPLACED, Scorer
from phalanx.solver.single.cost_bounds import CostBounds
from phalanx.solver.single.fewest_domains import fewest
from phalanx.solver.single.scopes import Scope, scaled_usable
from phalanx.solver.single.subgroup_bounds import SubgroupDomainBounds, SubgroupTightnessBounds
from phalanx.solver.single.tightness_bounds import Need, TightnessBounds
from phalanx.solver.single.traffic_bounds import TrafficBounds
from phalanx.solver.single.tree_knapsack import Forest, forest_of

BY = "relaxation"


class _Demand(Struct, frozen=True, eq=False):
    """One item on the tree and the amounts of it that minimums and maximums take."""

    forest: Forest
    minimum: int
    maximum: int


class RelaxationBounds:
    """Lower bounds for the scopes of one problem."""

    def __init__(self, table: NodeTable, scorer: Scorer) -> None:
        self._table = table
        self._scorer = scorer
        self._demands = [*_per_role(table.rows), *_per_resource(table.rows)]
        self._subgroups = SubgroupDomainBounds(table.rows)
        self._tightness = TightnessBounds(table.rows)
        self._subgroup_tightness = SubgroupTightnessBounds(table.rows)
        self._traffic = TrafficBounds(table.rows)
        self._costs = CostBounds(table)

    def bound(self, scope: Scope) -> tuple[int, ...]:
        """Return a lexicographic lower bound on placements inside the scope."""
        placed = sum(scope.fits)
        wanted = sum(role.maximum for role in self._table.rows.problem.roles)
        opened = self._opened(scope, [(demand.forest, demand.maximum) for demand in self._demands])
        whole = placed == wanted and opened is not None
        if opened is None or not whole:
            placed = min(placed, wanted - 1)
            opened = self._opened(scope, [(demand.forest, demand.minimum) for demand in self._demands])
        if opened is None:
            raise AssertionError("a scope holds the minimums in total")
        return self._scorer.values(
            placed=placed,
            opened=opened,
            of_subgroups=self._subgroups.opened(scope, whole=whole),
            elsewhere=self._scorer.least_elsewhere,
            traffic=self._traffic.least(scope, whole=whole),
            cost=self._costs.least(scope, placed),
            tightness=self._tightness.least(scope, self._needs(whole), opened[-1] if opened else 0),
            tightness_of_subgroups=self._subgroup_tightness.least(scope, whole=whole),
        )

    def anywhere(self, pods: int) -> tuple[int, ...]:
        """Return a simple bound on placements of at most so many pods in any scope."""
        rows = self._table.rows
        outer = [0 if rows.problem.anchors or not pods else 1] * rows.rules.required_depth
        everywhere = Scope(nodes=self._table.everything, depth=0, domain=0, fits=())
        return self._scorer.values(
            placed=pods,
            opened=[*outer, *[0] * rows.rules.preferred_depth],
            cost=self._costs.least(everywhere, pods),
        )

    def in_one(self, scope: Scope, simple: tuple[int, ...]) -> tuple[int, ...]:
        """Strengthen a simple bound by the capacity of the scope where that is a deepest-level domain.

        Nothing is known of later terms where that raises the bound.
        """
        if not self._scorer.has_tightness or not any(scope.fits):
            return simple
        index, least = self._scorer.primary, self._tightness.of(scope)
        later = (0,) * (len(simple) - index - 1)
        return max(simple, (*simple[:index], least, *later))

    def spread(self, scope: Scope, bound: tuple[int, ...]) -> tuple[int, ...]:
        """Return a bound on placements that use more than one domain of the next level.

        `bound` holds for all placements in the scope; no domain of the next level has running members.
        Traffic that cannot be split crosses that level and all narrower ones.
        """
        terms, levels = self._scorer.terms, self._table.rows.problem.levels
        level = levels[scope.depth]
        index = terms.index((DOMAINS if DOMAINS + level in terms else TRAFFIC) + level)
        unplaced = bound[0] if terms[0] == UNPLACED else 0
        crossing = self._least_split() if not unplaced else 0
        crossed = (*(TRAFFIC + name for name in levels[scope.depth :]), NODE_TRAFFIC)
        deeper = tuple(
            2 if term.startswith(DOMAINS) else max(least, crossing) if term in crossed else least
            for term, least in zip(terms[index:], self.floor(scope, unplaced)[index:], strict=True)
        )
        return max(bound, bound[:index] + deeper)

    def _least_split(self) -> int:
        """The least traffic that crosses if the pods are in several domains."""
        matrix = self._table.rows.rules.traffic
        return matrix.least if matrix is not None and is_one_piece(self._table.rows) else 0

    def floor(self, scope: Scope, unplaced: int) -> tuple[int, ...]:
        """Return lower bounds per term, each by itself, when all but `unplaced` pods are placed."""
        rows = self._table.rows
        placed = sum(role.maximum for role in rows.problem.roles) - unplaced
        cost = self._costs.least(scope, placed)
        of_subgroups = self._subgroups.opened(scope, whole=unplaced == 0)
        opened = [0] * rows.rules.preferred_depth
        tightness = self._tightness.least(scope, self._needs(unplaced == 0))
        return self._scorer.values(
            placed=placed,
            opened=opened,
            of_subgroups=of_subgroups,
            elsewhere=self._scorer.least_elsewhere,
            traffic=self._traffic.least(scope, whole=unplaced == 0),
            cost=cost,
            tightness=tightness,
            tightness_of_subgroups=self._subgroup_tightness.least(scope, whole=unplaced == 0),
        )

    def _needs(self, whole: bool) -> list[Need]:
        if not self._scorer.has_tightness:
            return []
        return [
            Need(demand.forest.held[-1], demand.maximum if whole else demand.minimum)
            for demand in self._demands
        ]

    def _opened(self, scope: Scope, demands: Sequence[tuple[Forest, int]]) -> list[int] | None:
        """The fewest domains opened per level; None when the scope does not hold one of the items."""
        rows, level = self._table.rows, scope.depth
        positive = [(forest, amount) for forest, amount in demands if amount > 0]
        if not positive:
            return [0] * rows.rules.preferred_depth
        outer = [0 if rows.problem.anchors else 1] * level
        if rows.rules.preferred_depth <= level:
            return outer
        inner = []
        for forest, amount in positive:
            choice = fewest(forest, _domains(forest, scope), amount, level=level)
            if choice is None:
                return None
            inner.append(choice.bound[:-1])
        return [*outer, *max(inner)]


def is_one_piece(rows: ClassRows) -> bool:
    """Whether all pods together cannot be split into two parts without traffic between them."""
    matrix = rows.rules.traffic
    return matrix is not None and matrix.is_connected([role.maximum for role in rows.problem.roles])


def _domains(forest: Forest, scope: Scope) -> IntArray:
    """The domains of the next level inside the scope."""
    if scope.depth == 0:
        return np.arange(len(forest.held[0]), dtype=np.int64)
    return forest.inner[scope.depth - 1][scope.domain]


def _per_role(rows: ClassRows) -> list[_Demand]:
    return [
        _Demand(forest_of(rows, rows.fits[:, index] * rows.count), role.minimum, role.maximum)
        for index, role in enumerate(rows.problem.roles)
    ]


def _per_resource(rows: ClassRows) -> list[_Demand]:
    demands = []
    for resource in range(len(rows.problem.resources)):
        usable, shift = scaled_usable(rows, resource)
        least = sum(role.minimum * role.request[resource] for role in rows.problem.roles)
        most = sum(role.maximum * role.request[resource] for role in rows.problem.roles)
        demands.append(_Demand(forest_of(rows, usable * rows.count), least >> shift, most >> shift))
    return demands
