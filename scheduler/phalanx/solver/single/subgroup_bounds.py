"""Lower bounds on the terms about domains of subgroups, level by level.

The largest domains of a level are the fewest that hold the demand of a subgroup. For tightness, a subgroup
that must share a domain opens one that holds it; others open domains that hold the demand together.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from phalanx.rules.primitives import SubgroupPreference
from phalanx.solver.arrays import BoolArray, ClassRows, IntArray, anchored_numbers, subgroup_capacities
from phalanx.solver.problem_rules import SubgroupTightness
from phalanx.solver.single.scopes import Scope, scaled_usable
from phalanx.solver.single.tightness_bounds import Need, lagrangian_bound


class _SubgroupDemand(Struct, frozen=True, eq=False):
    """One item: the amount that each row holds, and what minimums and maximums take."""

    held: IntArray
    minimum: int
    maximum: int


class SubgroupDomainBounds:
    """Lower bounds on the domains that subgroups open, for the scopes of one problem."""

    def __init__(self, rows: ClassRows) -> None:
        self._rows = rows
        self._demands_of = [
            list(_demands_of(rows, preference)) for preference in rows.rules.subgroup_preferences
        ]
        self._known: dict[tuple[int, int, bool], list[int]] = {}

    def opened(self, scope: Scope, *, whole: bool) -> Sequence[int]:
        """Domains opened per level, added up, with all pods placed (`whole`) or with the minimums."""
        key = (scope.depth, scope.domain, whole)
        if key not in self._known:
            self._known[key] = self._opened(scope, whole=whole)
        return self._known[key]

    def _opened(self, scope: Scope, *, whole: bool) -> list[int]:
        inside = _inside(self._rows, scope)
        opened = [0] * self._rows.rules.subgroup_preferred_depth
        for preference, demands in zip(self._rows.rules.subgroup_preferences, self._demands_of, strict=True):
            for level in range(preference.depth):
                anchored = np.zeros(len(self._rows.tree.open[level]), dtype=np.bool_)
                anchored[list(anchored_numbers(self._rows, preference, level))] = True
                opened[level] += max(
                    self._fewest_needed(demand, level, inside, anchored, whole=whole) for demand in demands
                )
        return opened

    def _fewest_needed(
        self, demand: _SubgroupDemand, level: int, inside: BoolArray, anchored: BoolArray, *, whole: bool
    ) -> int:
        """The fewest domains of the level, without anchored ones, that hold the demand."""
        held = np.zeros(len(anchored), dtype=np.int64)
        np.add.at(held, self._rows.domain[level][inside], demand.held[inside])
        missing = (demand.maximum if whole else demand.minimum) - int(held[anchored].sum())
        if missing <= 0:
            return 0
        return int(np.searchsorted(np.cumsum(-np.sort(-held[~anchored])), missing)) + 1


class SubgroupTightnessBounds:
    """Lower bounds on the capacity of the domains that subgroups open, for the scopes of one problem."""

    def __init__(self, rows: ClassRows) -> None:
        self._rows = rows
        self._subgroups = [(each, list(_demands_of(rows, each))) for each in rows.rules.subgroup_tightness]
        self._known: dict[tuple[int, int, bool], Mapping[int, int]] = {}

    def least(self, scope: Scope, *, whole: bool) -> Mapping[int, int]:
        """The capacity by level, with all pods placed (`whole`) or with the minimums."""
        if not self._subgroups:
            return {}
        key = (scope.depth, scope.domain, whole)
        if key not in self._known:
            found: dict[int, int] = {}
            inside = _inside(self._rows, scope)
            for each, demands in self._subgroups:
                least = self._of_subgroup(each, demands, inside, whole=whole)
                found[each.level] = found.get(each.level, 0) + least
            self._known[key] = found
        return self._known[key]

    def _of_subgroup(
        self,
        subgroup: SubgroupTightness,
        demands: Sequence[_SubgroupDemand],
        inside: BoolArray,
        *,
        whole: bool,
    ) -> int:
        capacity = subgroup_capacities(self._rows, subgroup.level)
        closed = np.ones(len(capacity), dtype=np.bool_)
        closed[list(anchored_numbers(self._rows, subgroup, subgroup.level))] = False
        needs = []
        for demand in demands:
            held = np.zeros(len(capacity), dtype=np.int64)
            np.add.at(held, self._rows.domain[subgroup.level][inside], demand.held[inside])
            missing = (demand.maximum if whole else demand.minimum) - int(held[~closed].sum())
            needs.append(Need(held[closed], missing))
        needs = [need for need in needs if need.amount > 0]
        if not subgroup.is_one:
            return max((lagrangian_bound(capacity[closed], need, None) for need in needs), default=0)
        enough = np.ones(int(closed.sum()), dtype=np.bool_)
        for need in needs:
            enough &= need.held >= need.amount
        return int(capacity[closed][enough].min()) if needs and enough.any() else 0


def _inside(rows: ClassRows, scope: Scope) -> BoolArray:
    if not scope.depth:
        return np.ones(len(rows.count), dtype=np.bool_)
    inside: BoolArray = rows.domain[scope.depth - 1] == scope.domain
    return inside


def _demands_of(
    rows: ClassRows, preference: SubgroupPreference | SubgroupTightness
) -> Iterator[_SubgroupDemand]:
    roles = [rows.problem.roles[index] for index in preference.roles]
    for index, role in zip(preference.roles, roles, strict=True):
        yield _SubgroupDemand(rows.fits[:, index] * rows.count, role.minimum, role.maximum)
    for resource in range(len(rows.problem.resources)):
        usable, shift = scaled_usable(rows, resource, preference.roles)
        least = sum(role.minimum * role.request[resource] for role in roles)
        most = sum(role.maximum * role.request[resource] for role in roles)
        yield _SubgroupDemand(usable * rows.count, least >> shift, most >> shift)
