"""One region: seats the shares that the master gave it, exactly, in the fewest inner domains it finds.

Pods of one kind are interchangeable, so the model counts them per group of alike nodes, and gangs only as
far as a level inside the region matters to them: domains are nested, so what gangs claim of a domain and of
the domains inside it needs no more than that each holds the sum (Hall's theorem for nested sets).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, structs
from ortools.sat.python import cp_model

from phalanx.solver.constraints import capacity_amounts, capacity_patterns, role_counts
from phalanx.solver.counting import CountingModel
from phalanx.solver.cpsat import one_worker
from phalanx.solver.exchange import solution
from phalanx.solver.groups import groups_of
from phalanx.solver.joint.field import Field, Region, labelled, region_of
from phalanx.solver.joint.plan import Share
from phalanx.solver.nodetable import Found
from phalanx.solver.rows import IntArray

IMPOSSIBLE: Final = "impossible"
UNKNOWN: Final = "unknown"

Claim = tuple[int, int]
"""A domain and a role of the region's model."""


class Seats(Struct, frozen=True, eq=False):
    """Pods per node and role (a kind of `kinds`), and what each share claims per inner domain and role."""

    region: Region
    kinds: tuple[int, ...]
    found: Found
    claims: tuple[dict[Claim, int], ...]


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
        self.opened: list[cp_model.IntVar] = []
        self._claims = [self._claim(share) for share in shares]
        self._domains_hold_claims()

    def seats(self, solver: cp_model.CpSolver) -> Seats:
        """What the solver found."""
        claims = tuple({key: solver.value(one) for key, one in each.items()} for each in self._claims)
        return Seats(self.region, self.kinds, solution(self.counting, solver), claims)

    def _claim(self, share: Share) -> dict[Claim, cp_model.LinearExpr]:
        """What the share claims per domain of its innermost level, and role; empty without such a level."""
        depth, required = self._field.inner_depth(share.gang), self._field.required[share.gang]
        wanted = {role: share.counts[kind] for role, kind in enumerate(self.kinds) if share.counts[kind]}
        if depth == 0:
            return {}
        if required <= self._field.depth:
            return self._spread(depth, wanted, None)
        home = self._home(required, wanted)
        if depth > required:
            return self._spread(depth, wanted, (required, home))
        return {
            (domain, role): count * here for domain, here in home.items() for role, count in wanted.items()
        }

    def _home(self, depth: int, wanted: Mapping[int, int]) -> dict[int, cp_model.IntVar]:
        """The one domain of this depth in which the gang lies."""
        room = self._room(np.where(labelled(self.region, depth)[:, None], self._fits, 0), depth)
        home = {
            domain: self.cp.new_bool_var("")
            for domain, here in enumerate(room)
            if all(here[role] >= count for role, count in wanted.items())
        }
        self.cp.add_exactly_one(home.values())
        return home

    def _spread(
        self, depth: int, wanted: Mapping[int, int], home: tuple[int, dict[int, cp_model.IntVar]] | None
    ) -> dict[Claim, cp_model.LinearExpr]:
        """Pods per domain of this depth, inside the home if there is one; domains used are opened."""
        pods: dict[Claim, cp_model.IntVar] = {}
        for domain, room in enumerate(self._room(self._fits, depth)):
            most = {role: min(count, room[role]) for role, count in wanted.items() if room[role]}
            around = home[1].get(self._outer(domain, depth, home[0])) if home else None
            if not most or (home and around is None):
                continue
            is_open = self.cp.new_bool_var("")
            self.opened.append(is_open)
            if around is not None:
                self.cp.add_implication(is_open, around)
            for role, count in most.items():
                pods[domain, role] = self.cp.new_int_var(0, count, "")
                self.cp.add(pods[domain, role] <= count * is_open)
        for role, count in wanted.items():
            here = [one for (_, each), one in pods.items() if each == role]
            self.cp.add(cp_model.LinearExpr.sum(here) == count)
        return {claim: one + 0 for claim, one in pods.items()}

    @property
    def _fits(self) -> IntArray:
        rows = self.region.table.rows
        most = [role.maximum for role in rows.problem.roles]
        return np.minimum(rows.fits, most) * rows.count[:, None]

    def _room(self, fits: IntArray, depth: int) -> list[list[int]]:
        """Per domain of this depth, how many pods of each role fit alone."""
        rows = self.region.table.rows
        room = np.zeros((len(rows.tree.open[depth - 1]), fits.shape[1]), dtype=np.int64)
        np.add.at(room, rows.domain[depth - 1], fits)
        listed: list[list[int]] = room.tolist()
        return listed

    def _outer(self, domain: int, depth: int, outer: int) -> int:
        """The domain of depth `outer` around a domain of a deeper one."""
        for level in range(depth - 1, outer - 1, -1):
            domain = int(self.region.table.rows.tree.parent[level][domain])
        return domain

    def _domains_hold_claims(self) -> None:
        """In each domain that matters, as many pods lie as are claimed of it and of the domains inside."""
        depths = [self._field.inner_depth(share.gang) for share in self._shares]
        for depth in sorted(set(depths) - {0}):
            claimed: dict[Claim, list[cp_model.LinearExpr]] = {}
            for inner, claims in zip(depths, self._claims, strict=True):
                for (domain, role), amount in claims.items() if inner >= depth else ():
                    claimed.setdefault((self._outer(domain, inner, depth), role), []).append(amount)
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
            group, eligible=tuple([group.eligible[kind] for kind in kinds]), price=(0,) * len(kinds)
        )
        for group in problem.classes
    )
    return region_of(structs.replace(problem, roles=roles, classes=classes), is_domain=region.is_domain)
