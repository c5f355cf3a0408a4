"""A joint problem as arrays, cut into regions: the domains of one level, and the nodes that are in none.

The level is the widest that some piece of a gang requires, or one above it: every piece then either lies in
one region as a whole, or may use several.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, structs

from phalanx.limits import JOINT_PAIRS_MAX
from phalanx.model.names import NodeName
from phalanx.model.rules import (
    Budget,
    FewestDomains,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupSegments,
)
from phalanx.solver.arrays import BoolArray, IntArray, rows_of
from phalanx.solver.joint.components import Piece, Unsupported, pieces_of
from phalanx.solver.joint.plan import Share
from phalanx.solver.joint.problem import GangDemand, JointProblem
from phalanx.solver.nodetable import NodeTable, nodes_of
from phalanx.solver.problem import NodeClass, PlacementProblem, RoleDemand

Usable = dict[tuple[int, ...], list[NodeName]]
"""Per set of kinds, the nodes that some of them may use."""


class Limit(Struct, frozen=True):
    """A budget, and the gangs all of whose pods it counts."""

    budget: Budget
    gangs: tuple[int, ...]


class Region(Struct, frozen=True, eq=False):
    """Nodes that some gang could use. `labels` is, per row, how many of the levels' labels its nodes have.

    `is_domain` is False for the nodes that lie in no domain of the regions' level.
    """

    problem: PlacementProblem
    table: NodeTable
    labels: IntArray
    is_domain: bool


class Field(Struct, frozen=True, eq=False):
    """`wanted` has a line per piece and a column per kind; `pieces_of` are the pieces of each gang (indices).

    A depth is a number of levels from the widest; 0 is none. `depth` is that of the regions.
    """

    problem: JointProblem
    depth: int
    regions: tuple[Region, ...]
    pieces: tuple[Piece, ...]
    pieces_of: tuple[tuple[int, ...], ...]
    wanted: IntArray
    limits: tuple[Limit, ...]

    def confined(self, piece: int) -> bool:
        """Whether the piece must lie in one region."""
        return self.pieces[piece].required > 0

    def inner_depth(self, piece: int) -> int:
        """The deepest level inside a region that matters to the piece; 0 without one."""
        deepest = max(self.pieces[piece].depth, self.pieces[piece].preferred)
        return deepest if deepest > self.depth else 0

    def counts_in(self, share: Share, strand: int) -> tuple[int, ...]:
        """Pods of this strand in a share, per kind; a piece of several strands is shared out whole."""
        if len(self.pieces[share.piece].strands) == 1:
            return share.counts
        return self.counts(share.piece, [strand])

    def counts(self, piece: int, strands: Iterable[int]) -> tuple[int, ...]:
        """Pods of these strands of a piece, per kind."""
        counts = [0] * len(self.problem.kinds)
        parts = self.problem.gangs[self.pieces[piece].gang].parts
        for strand in strands:
            for part in self.pieces[piece].strands[strand]:
                counts[parts[part].kind] += parts[part].count
        return tuple(counts)


def field_of(problem: JointProblem) -> Field:
    """Raises Unsupported, or TooLarge where amounts could not be kept exact."""
    limits = _limits(problem)
    for gang in problem.gangs:
        _accept(problem, gang)
    pieces = [piece for gang in range(len(problem.gangs)) for piece in pieces_of(problem, gang)]
    members: list[list[int]] = [[] for _ in problem.gangs]
    wanted = np.zeros((len(pieces), len(problem.kinds)), dtype=np.int64)
    for index, piece in enumerate(pieces):
        members[piece.gang].append(index)
        for strand in piece.strands:
            for part in strand:
                wanted[index, problem.gangs[piece.gang].parts[part].kind] += (
                    problem.gangs[piece.gang].parts[part].count
                )
    depth = _region_depth(problem, pieces)
    deepest = max((max(piece.depth, piece.preferred) for piece in pieces), default=0)
    return Field(
        problem=problem,
        depth=depth,
        regions=tuple(_regions(problem, wanted, depth, deepest)),
        pieces=tuple(pieces),
        pieces_of=tuple(map(tuple, members)),
        wanted=wanted,
        limits=limits,
    )


def unsupported_gangs(problem: JointProblem) -> tuple[int, ...]:
    """The gangs (indices) with something that this engine does not know; without them it answers."""
    usable: Usable = {}
    unknown = []
    for index, gang in enumerate(problem.gangs):
        try:
            _accept(problem, gang)
            pieces_of(problem, index)
            list(_counted(problem, gang, usable))
        except Unsupported:
            unknown.append(index)
    return tuple(unknown)


def labelled(region: Region, depth: int) -> BoolArray:
    """Per row, whether its nodes are in a domain of this depth."""
    return region.labels >= depth


def _accept(problem: JointProblem, gang: GangDemand) -> None:
    for rule in gang.rules:
        match rule:
            case SameDomain() | FewestDomains() | SubgroupDomain() | SubgroupSegments() | SubgroupFewest():
                if rule.level not in problem.levels:
                    raise Unsupported(f"{gang.name}: there is no level {rule.level}")
            case Budget():
                pass
            case _:
                raise Unsupported(f"{gang.name}: a rule of an unknown kind: {type(rule).__name__}")


def _region_depth(problem: JointProblem, pieces: Sequence[Piece]) -> int:
    """The deepest level, down to the widest that is required, with few enough pairs of piece and domain."""
    widest = min((piece.required or piece.depth for piece in pieces if piece.depth), default=0)
    for depth in range(widest, 1, -1):
        domains = {group.path[:depth] for group in problem.classes}
        if len(domains) * len(pieces) <= JOINT_PAIRS_MAX:
            return depth
    return min(widest, 1)


def _regions(problem: JointProblem, wanted: IntArray, depth: int, deepest: int) -> Iterable[Region]:
    members: dict[tuple[str, ...] | None, list[NodeClass]] = {}
    for group in problem.classes:
        home = group.path[:depth] if len(group.path) >= depth else None
        members.setdefault(home, []).append(group)
    totals = wanted.sum(axis=0).tolist()
    roles = tuple(
        RoleDemand(kind.name, kind.request, 0, total)
        for kind, total in zip(problem.kinds, totals, strict=True)
    )
    wish = (FewestDomains("levels", problem.levels[deepest - 1]),) if deepest else ()
    free_of_charge = (0,) * len(problem.kinds)
    for home, classes in members.items():
        plain = tuple(
            group if not any(group.cost) else structs.replace(group, cost=free_of_charge) for group in classes
        )
        posed = PlacementProblem(problem.resources, problem.levels, roles, plain, wish, seed=problem.seed)
        yield region_of(posed, is_domain=home is not None)


def region_of(problem: PlacementProblem, *, is_domain: bool) -> Region:
    """A region from the problem of placing some of each kind in it."""
    table = nodes_of(rows_of(problem))
    known = {node: len(group.path) for group in problem.classes for node in group.nodes}
    lengths = [known[names[0]] for names in table.rows.nodes]
    return Region(problem, table, np.array(lengths, dtype=np.int64), is_domain)


def _limits(problem: JointProblem) -> tuple[Limit, ...]:
    """Budgets by name, with the gangs that they count. Unsupported where a gang is counted in part."""
    budgets: dict[str, Budget] = {}
    gangs: dict[str, list[int]] = {}
    usable: Usable = {}
    for index, gang in enumerate(problem.gangs):
        for rule in _counted(problem, gang, usable):
            if budgets.setdefault(rule.name, rule) != rule:
                raise Unsupported(f"{gang.name}: two budgets are named {rule.name}")
            gangs.setdefault(rule.name, []).append(index)
    return tuple(Limit(budgets[name], tuple(counted)) for name, counted in gangs.items())


def _counted(problem: JointProblem, gang: GangDemand, usable: Usable) -> Iterable[Budget]:
    """The budgets that count all pods of the gang."""
    for rule in gang.rules:
        if isinstance(rule, Budget):
            kinds = tuple(sorted({part.kind for part in gang.parts}))
            if kinds not in usable and rule.nodes is not None:
                usable[kinds] = _usable(problem, kinds)
            if _counts(rule, usable.get(kinds, []), gang):
                yield rule


def _usable(problem: JointProblem, kinds: Sequence[int]) -> list[NodeName]:
    return [
        node
        for group in problem.classes
        if any(group.eligible[kind] for kind in kinds)
        for node in group.nodes
    ]


def _counts(budget: Budget, usable: Sequence[NodeName], gang: GangDemand) -> bool:
    if budget.nodes is None:
        return True
    inside = sum(node in budget.nodes for node in usable)
    if 0 < inside < len(usable):
        raise Unsupported(f"{gang.name}: {budget.name} counts only some of the nodes it could use")
    return inside > 0
