"""What the pieces in a region claim of the domains inside it, as variables under the rules of each piece."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.cp_sat import CpModel
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.components import Bond, Piece
from phalanx.solver.joint.plan import Share
from phalanx.solver.joint.space import Space

Claim = tuple[int, int]
"""A domain and a role of the region's model."""

Claims = Mapping[Claim, cp_model.LinearExprT]


class _Strand(Struct, frozen=True):
    """How many pods of each role it wants, and how many it claims of each domain."""

    wanted: dict[int, int]
    pods: dict[Claim, cp_model.IntVar]


class Claiming:
    """Makes the claims of shares in one model; `opened` are the domains used where few are wished for."""

    def __init__(self, cp: CpModel, field: Field, space: Space, kinds: Sequence[int]) -> None:
        self._cp, self._field, self._space, self._kinds = cp, field, space, kinds
        self.opened: list[cp_model.IntVar] = []

    def of(self, share: Share) -> tuple[Claims, ...]:
        """Per strand of the piece, what it claims of the domains of its innermost depth; nothing without one.

        Every pod is claimed once; where domains hold what is claimed of them, the piece keeps its rules.
        """
        piece, depth = self._field.pieces[share.piece], self._field.inner_depth(share.piece)
        if depth == 0:
            return ({},) * len(piece.strands)
        bonds = [bond for bond in piece.bonds if bond.depth > self._field.depth]
        is_inner = piece.required > self._field.depth
        home = self._home(piece.required, self._wanted(share.counts)) if is_inner else None
        if bonds or len(piece.strands) > 1:
            return self._bonded(share, piece, depth, bonds, home)
        wanted = self._wanted(share.counts)
        if home is None or depth > piece.required:
            return (self._spread(depth, wanted, (piece.required, home)),)
        return (
            {(domain, role): count * here for domain, here in home.items() for role, count in wanted.items()},
        )

    def _wanted(self, counts: Sequence[int]) -> dict[int, int]:
        return {role: counts[kind] for role, kind in enumerate(self._kinds) if counts[kind]}

    def _home(self, depth: int, wanted: Mapping[int, int]) -> dict[int, cp_model.IntVar]:
        """The one domain of this depth in which all of it lies."""
        home = {
            domain: self._cp.new_bool_var("")
            for domain, here in enumerate(self._space.room(depth, known=depth))
            if all(here[role] >= count for role, count in wanted.items())
        }
        self._cp.add_exactly_one(home.values())
        return home

    def _spread(
        self, depth: int, wanted: Mapping[int, int], home: tuple[int, dict[int, cp_model.IntVar] | None]
    ) -> Claims:
        """Pods per domain of this depth, inside the home if there is one; domains used are opened."""
        pods = self._pods(depth, wanted, home)
        for domain in dict.fromkeys(domain for domain, _ in pods):
            here = {role: one for (each, role), one in pods.items() if each == domain}
            is_open = self._cp.new_bool_var("")
            self.opened.append(is_open)
            if home[1] is not None:
                self._cp.add_implication(is_open, home[1][self._space.outer(domain, depth, home[0])])
            for role, one in here.items():
                self._cp.add(one <= wanted[role] * is_open)
        return pods

    def _pods(
        self,
        depth: int,
        wanted: Mapping[int, int],
        home: tuple[int, dict[int, cp_model.IntVar] | None],
        *,
        known: int = 0,
    ) -> dict[Claim, cp_model.IntVar]:
        """Pods per domain and role, all that are wanted, on nodes with so many labels that are known."""
        pods: dict[Claim, cp_model.IntVar] = {}
        for domain, room in enumerate(self._space.room(depth, known=known)):
            if home[1] is not None and self._space.outer(domain, depth, home[0]) not in home[1]:
                continue
            for role, count in wanted.items():
                if room[role]:
                    pods[domain, role] = self._cp.new_int_var(0, min(count, room[role]), "")
        for role, count in wanted.items():
            here = [one for (_, each), one in pods.items() if each == role]
            self._cp.add(cp_model.LinearExpr.sum(here) == count)
        return pods

    def _bonded(
        self,
        share: Share,
        piece: Piece,
        depth: int,
        bonds: Sequence[Bond],
        home: dict[int, cp_model.IntVar] | None,
    ) -> tuple[Claims, ...]:
        """Pods per strand, domain and role, under all bonds inside the region."""
        strands = []
        for strand in range(len(piece.strands)):
            wanted = self._wanted(self._field.counts_in(share, strand))
            known = max([bond.depth for bond in bonds if strand in bond.strands], default=0)
            pods = self._pods(depth, wanted, (piece.required, home), known=known)
            strands.append(_Strand(wanted, pods))
        if home is not None:
            self._all_in_one(depth, piece.required, strands, home)
        for bond in bonds:
            members = [strands[strand] for strand in bond.strands]
            if bond.size:
                self._in_segments(depth, bond, members)
            else:
                self._in_one(depth, bond, members)
        if piece.preferred > self._field.depth:
            self._in_few(depth, piece.preferred, strands)
        return tuple(each.pods for each in strands)

    def _in_one(self, depth: int, bond: Bond, members: Sequence[_Strand]) -> None:
        home = {domain: self._cp.new_bool_var("") for domain, _ in self._around(depth, bond.depth, members)}
        self._cp.add_exactly_one(home.values())
        self._all_in_one(depth, bond.depth, members, home)

    def _all_in_one(
        self, depth: int, outer: int, members: Sequence[_Strand], home: Mapping[int, cp_model.IntVar]
    ) -> None:
        """They claim what is inside the home only."""
        for each in members:
            inside: dict[Claim, list[cp_model.IntVar]] = {}
            for (domain, role), one in each.pods.items():
                inside.setdefault((self._space.outer(domain, depth, outer), role), []).append(one)
            for (domain, role), pods in inside.items():
                self._cp.add(cp_model.LinearExpr.sum(pods) <= each.wanted[role] * home[domain])

    def _in_segments(self, depth: int, bond: Bond, members: Sequence[_Strand]) -> None:
        for _, pods in self._around(depth, bond.depth, members):
            number = self._cp.new_int_var(0, _count(members) // bond.size, "")
            self._cp.add(cp_model.LinearExpr.sum(pods) == bond.size * number)

    def _in_few(self, depth: int, outer: int, members: Sequence[_Strand]) -> None:
        for _, pods in self._around(depth, outer, members):
            is_open = self._cp.new_bool_var("")
            self.opened.append(is_open)
            self._cp.add(cp_model.LinearExpr.sum(pods) <= _count(members) * is_open)

    def _around(
        self, depth: int, outer: int, members: Iterable[_Strand]
    ) -> Iterable[tuple[int, list[cp_model.IntVar]]]:
        """Each domain of an outer depth with what is claimed inside it."""
        found: dict[int, list[cp_model.IntVar]] = {}
        for each in members:
            for (domain, _), one in each.pods.items():
                found.setdefault(self._space.outer(domain, depth, outer), []).append(one)
        return found.items()


def _count(members: Iterable[_Strand]) -> int:
    return sum(count for each in members for count in each.wanted.values())
