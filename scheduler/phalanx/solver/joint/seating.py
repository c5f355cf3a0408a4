"""From what a region found to pods on nodes, gang by gang."""

from collections.abc import Iterator, Mapping, Sequence

from phalanx.model.names import NodeName
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.plan import Share
from phalanx.solver.joint.problem import JointAssignment
from phalanx.solver.joint.subproblem import Seats
from phalanx.solver.problem import Assignment

Slots = list[list[int]]
"""Pods left to give away, per node and role."""

Taken = dict[tuple[int, int], int]
"""Pods per node (a line) and role."""


def arranged(field: Field, seated: Sequence[tuple[Sequence[Share], Seats]]) -> JointAssignment:
    """Where the pods of each gang go, from all regions."""
    left = {
        (index, part): demand.count
        for index, gang in enumerate(field.problem.gangs)
        for part, demand in enumerate(gang.parts)
    }
    given: dict[int, dict[tuple[int, NodeName], int]] = {}
    for shares, seats in seated:
        names = [seats.region.table.names[node] for node in seats.found.nodes.tolist()]
        for piece, strand, taken in _given(field, shares, seats):
            own = field.pieces[piece]
            for (line, role), count in taken.items():
                places = given.setdefault(own.gang, {})
                for part, some in _parts(field, piece, strand, seats.kinds[role], count, left):
                    places[part, names[line]] = places.get((part, names[line]), 0) + some
    return {
        gang: tuple(
            Assignment(role=part, node=node, count=count)
            for (part, node), count in sorted(given[gang].items())
        )
        for gang in sorted(given)
    }


def _parts(
    field: Field, piece: int, strand: int, kind: int, count: int, left: dict[tuple[int, int], int]
) -> Iterator[tuple[int, int]]:
    """Of so many pods of a kind, those of each part of the strand; they are taken off what is left."""
    own = field.pieces[piece]
    for part in own.strands[strand]:
        if field.problem.gangs[own.gang].parts[part].kind == kind:
            some = min(count, left[own.gang, part])
            left[own.gang, part] -= some
            count -= some
            if some:
                yield part, some


def _given(field: Field, shares: Sequence[Share], seats: Seats) -> Iterator[tuple[int, int, Taken]]:
    """What each strand of a piece gets.

    The innermost claims come first, since others may take what those leave anywhere.
    """
    slots: Slots = seats.found.counts.tolist()
    rows = seats.region.table.rows
    row = seats.region.table.row[seats.found.nodes]
    depths = [field.inner_depth(share.piece) for share in shares]
    for index in sorted(range(len(shares)), key=lambda index: -depths[index]):
        share, depth = shares[index], depths[index]
        home = rows.domain[depth - 1][row].tolist() if depth else [0] * len(slots)
        for strand, claims in enumerate(seats.claims[index]):
            taken: Taken = {}
            wished = claims if depth else _anywhere(field.counts_in(share, strand), seats)
            for domain, wanted in _by_domain(wished).items():
                _take([line for line, here in enumerate(home) if here == domain], wanted, slots, taken)
            yield share.piece, strand, taken


def _anywhere(counts: Sequence[int], seats: Seats) -> dict[tuple[int, int], int]:
    return {(0, role): counts[kind] for role, kind in enumerate(seats.kinds)}


def _by_domain(claims: Mapping[tuple[int, int], int]) -> dict[int, dict[int, int]]:
    domains: dict[int, dict[int, int]] = {}
    for (domain, role), count in claims.items():
        if count:
            domains.setdefault(domain, {})[role] = count
    return domains


def _take(lines: Sequence[int], wanted: dict[int, int], slots: Slots, taken: Taken) -> None:
    """Take slots of these nodes, whole nodes first."""
    for line in sorted(lines, key=lambda line: -sum(slots[line][role] for role in wanted)):
        for role, missing in wanted.items():
            count = min(missing, slots[line][role])
            if count:
                slots[line][role] -= count
                wanted[role] -= count
                taken[line, role] = taken.get((line, role), 0) + count
