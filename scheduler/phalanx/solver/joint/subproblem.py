"""One region: seats the shares that the master gave it, exactly, in the fewest inner domains it finds.

Pods of one kind are interchangeable, so the model counts them per group of alike nodes, and pieces of gangs
only as far as a level inside the region matters to them: domains are nested, so what is claimed of a domain
and of the domains inside it needs no more than that each holds the sum (Hall's theorem for nested sets).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct, structs
from ortools.sat.python import cp_model

from phalanx.solver.counting.constraints import capacity_amounts, capacity_patterns, role_counts
from phalanx.solver.counting.exact import one_worker
from phalanx.solver.counting.model import CountingModel
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.exchange import solution
from phalanx.solver.joint.arrays import Field, Region, region_of
from phalanx.solver.joint.inner_domains import Claim, Claiming
from phalanx.solver.joint.plan import Share
from phalanx.solver.joint.space import Space
from phalanx.solver.nodetable import Found

IMPOSSIBLE: Final = "impossible"
UNKNOWN: Final = "unknown"


class Seats(Struct, frozen=True, eq=False):
    """Pods per node and role (a kind of `kinds`).

    And what each strand of each share claims per inner domain and role.
    """

    region: Region
    kinds: tuple[int, ...]
    found: Found
    claims: tuple[tuple[dict[Claim, int], ...], ...]


class Inquiry(Struct, frozen=True):
    """`seats`, or one of IMPOSSIBLE and UNKNOWN. `rest`: the most units of loose pods, where it was asked."""

    seats: Seats | str
    spent: float
    rest: int = 0


def seat(field: Field, region: Region, shares: Sequence[Share], *, effort: float) -> Inquiry:
    """Seats all of these shares."""
    model = _RegionModel(field, region, shares, loose=(0,) * len(field.problem.kinds))
    if model.opened:
        model.cp.minimize(cp_model.LinearExpr.sum(model.opened))
    solver = one_worker(field.problem.seed, effort)
    status = solver.solve(model.cp)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Inquiry(model.seats(solver), solver.deterministic_time)
    return Inquiry(IMPOSSIBLE if status == cp_model.INFEASIBLE else UNKNOWN, solver.deterministic_time)


def most_beside(
    field: Field,
    region: Region,
    shares: Sequence[Share],
    *,
    loose: Sequence[int],
    weights: Sequence[int],
    effort: float,
) -> Inquiry:
    """How many units of loose pods, at most so many per kind, fit beside these shares."""
    model = _RegionModel(field, region, shares, loose=tuple(loose))
    variables, factors = [], []
    for (role, _), variable in model.counting.pods.items():
        variables.append(variable)
        factors.append(weights[model.kinds[role]])
    fixed = sum(share.counts[kind] * weights[kind] for share in shares for kind in range(len(weights)))
    model.cp.maximize(model.counting.total(variables, factors))
    solver = one_worker(field.problem.seed, effort)
    status = solver.solve(model.cp)
    spent = solver.deterministic_time
    if status == cp_model.OPTIMAL:
        return Inquiry(model.seats(solver), spent, rest=round(solver.objective_value) - fixed)
    return Inquiry(IMPOSSIBLE if status == cp_model.INFEASIBLE else UNKNOWN, spent)


class _RegionModel:
    """The counting model of the kinds in question, and what shares claim of inner domains."""

    def __init__(
        self, field: Field, region: Region, shares: Sequence[Share], *, loose: tuple[int, ...]
    ) -> None:
        self._field, self._shares = field, shares
        totals = np.array([share.counts for share in shares], dtype=np.int64).reshape(len(shares), len(loose))
        fixed = totals.sum(axis=0).tolist()
        self.kinds = tuple(kind for kind, count in enumerate(fixed) if count + loose[kind])
        self.region = _narrowed(region, self.kinds, fixed, loose)
        table = self.region.table
        self.counting = CountingModel(table, groups_of(table, table.everything))
        self.cp = self.counting.cp
        for add in (role_counts, capacity_patterns, capacity_amounts):
            add(self.counting)
        self._space = Space(self.region)
        claiming = Claiming(self.cp, field, self._space, self.kinds)
        self._claims = [claiming.of(share) for share in shares]
        self.opened = claiming.opened
        self._domains_hold_claims()

    def seats(self, solver: cp_model.CpSolver) -> Seats:
        """What the solver found."""
        claims = tuple(
            tuple({key: solver.value(one) for key, one in each.items()} for each in strands)
            for strands in self._claims
        )
        return Seats(self.region, self.kinds, solution(self.counting, solver), claims)

    def _domains_hold_claims(self) -> None:
        """In each domain that matters, as many pods lie as are claimed of it and of the domains inside."""
        depths = [self._field.inner_depth(share.piece) for share in self._shares]
        for depth in sorted(set(depths) - {0}):
            claimed: dict[Claim, list[cp_model.LinearExprT]] = {}
            for inner, strands in zip(depths, self._claims, strict=True):
                for claims in strands if inner >= depth else ():
                    for (domain, role), amount in claims.items():
                        outer = self._space.outer(domain, inner, depth)
                        claimed.setdefault((outer, role), []).append(amount)
            members: dict[int, list[int]] = {}
            for index, group in enumerate(self.counting.groups):
                members.setdefault(group.domains[depth - 1], []).append(index)
            for (domain, role), amounts in claimed.items():
                pods = self.counting.pods_of(role, members.get(domain, []))
                self.cp.add(cp_model.LinearExpr.sum(pods) >= cp_model.LinearExpr.sum(amounts))


def _narrowed(region: Region, kinds: Sequence[int], fixed: Sequence[int], loose: Sequence[int]) -> Region:
    """The region as these kinds see it; so many pods of each must be placed, and so many more may be."""
    problem = region.problem
    roles = tuple(
        structs.replace(problem.roles[kind], minimum=fixed[kind], maximum=fixed[kind] + loose[kind])
        for kind in kinds
    )
    classes = tuple(
        structs.replace(
            group, eligible=tuple([group.eligible[kind] for kind in kinds]), cost=(0,) * len(kinds)
        )
        for group in problem.classes
    )
    return region_of(structs.replace(problem, roles=roles, classes=classes), is_domain=region.is_domain)
