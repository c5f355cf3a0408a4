"""Gangs as pieces: what of a gang lies in one domain as a whole, and what of it may lie anywhere."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from phalanx.model.rules import FewestDomains, SameDomain, SubgroupDomain, SubgroupFewest, SubgroupSegments
from phalanx.solver.joint.problem import GangDemand, JointProblem


class Unsupported(Exception):
    """The problem has something that this engine does not know."""


class Bond(Struct, frozen=True):
    """A rule about some strands of a piece (indices), and a level by its depth.

    `size` 0: one domain holds all their pods; else each domain holds a multiple of it.
    """

    depth: int
    size: int
    strands: tuple[int, ...]


class Piece(Struct, frozen=True):
    """Pods of a gang that must share a domain of the depth `required`, or with 0 may lie anywhere.

    `strands` are those parts of the gang (indices) that no rule tells apart. A piece that may lie anywhere
    has no bond, or one about all of it, with a `size`. `preferred` is the depth down to which few domains are
    wished for.
    """

    gang: int
    required: int
    preferred: int
    strands: tuple[tuple[int, ...], ...]
    bonds: tuple[Bond, ...] = ()

    @property
    def segment(self) -> int:
        """Of how many of its pods each region holds a multiple, where it may lie anywhere."""
        return self.bonds[0].size if self.bonds and not self.required else 0

    @property
    def depth(self) -> int:
        """The deepest level that must be looked at: all outer ones follow from it."""
        return max([self.required, *(bond.depth for bond in self.bonds)])


class _Tie(Struct, frozen=True):
    """A rule about these parts of a gang; `size` as in Bond."""

    depth: int
    size: int
    parts: frozenset[int]


def pieces_of(problem: JointProblem, gang: int) -> tuple[Piece, ...]:
    """The pieces of this gang. Unsupported where segments are laid around parts that have a rule as well."""
    demand = problem.gangs[gang]
    required = max(
        [_depth(problem, rule.level) for rule in demand.rules if isinstance(rule, SameDomain)], default=0
    )
    ties = sorted(_ties(problem, demand), key=lambda tie: (-len(tie.parts), tie.size > 0, -tie.depth))
    left = frozenset(range(len(demand.parts)))
    if required:
        return (_piece(problem, gang, left, required, ties),)
    pieces = []
    for tie in ties:
        if not tie.parts <= left:
            continue
        inner = [other for other in ties if other is not tie and other.parts <= tie.parts]
        if tie.size and inner:
            raise Unsupported(f"{demand.name}: segments around parts that have a level of their own")
        left -= tie.parts
        own = [tie] if tie.size else inner
        pieces.append(_piece(problem, gang, tie.parts, 0 if tie.size else tie.depth, own))
    if left:
        pieces.append(_piece(problem, gang, left, 0, ()))
    return tuple(pieces)


def _ties(problem: JointProblem, demand: GangDemand) -> Iterator[_Tie]:
    for rule in demand.rules:
        if isinstance(rule, SubgroupDomain | SubgroupSegments):
            parts = _parts_in(demand, rule.subgroup)
            if parts:
                size = rule.size if isinstance(rule, SubgroupSegments) else 0
                yield _Tie(_depth(problem, rule.level), size, parts)


def _piece(
    problem: JointProblem, gang: int, parts: frozenset[int], required: int, ties: Sequence[_Tie]
) -> Piece:
    """A piece of these parts; that all of it shares a domain makes wider levels of parts of it needless."""
    demand = problem.gangs[gang]
    kept = [tie for tie in ties if tie.size or tie.depth > required]
    strands: dict[tuple[bool, ...], list[int]] = {}
    for part in sorted(parts):
        strands.setdefault(tuple(part in tie.parts for tie in kept), []).append(part)
    bonds = tuple(
        Bond(tie.depth, tie.size, tuple(place for place, inside in enumerate(strands) if inside[index]))
        for index, tie in enumerate(kept)
    )
    preferred = [
        _depth(problem, rule.level)
        for rule in demand.rules
        if isinstance(rule, FewestDomains)
        or (isinstance(rule, SubgroupFewest) and parts <= _parts_in(demand, rule.subgroup))
    ]
    return Piece(gang, required, max(preferred, default=0), tuple(map(tuple, strands.values())), bonds)


def _parts_in(demand: GangDemand, subgroup: str) -> frozenset[int]:
    return frozenset(index for index, part in enumerate(demand.parts) if subgroup in part.subgroups)


def _depth(problem: JointProblem, level: str) -> int:
    return problem.levels.index(level) + 1
