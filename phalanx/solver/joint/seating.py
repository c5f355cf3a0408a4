"""From what a region found to pods on nodes, gang by gang."""

from collections.abc import Iterator, Mapping, Sequence

from phalanx.model.names import NodeName
from phalanx.solver.joint.field import Field
from phalanx.solver.joint.plan import Share
from phalanx.solver.joint.problem import Arrangement
from phalanx.solver.joint.region import Seats
from phalanx.solver.problem import Assignment

Slots = list[list[int]]
"""Pods left to give away, per node and role."""

Taken = dict[tuple[int, int], int]
"""Pods per node (a line) and role."""


def arranged(field: Field, seated: Sequence[tuple[Sequence[Share], Seats]]) -> Arrangement:
    """Where the pods of each gang go, from all regions."""
    given: dict[int, dict[tuple[int, NodeName], int]] = {}
    for shares, seats in seated:
        names = [seats.region.table.names[node] for node in seats.found.nodes.tolist()]
        for gang, taken in _given(field, shares, seats):
            for (line, role), count in taken.items():
                given.setdefault(gang, {})[seats.kinds[role], names[line]] = count
    parts = [{part.kind: index for index, part in enumerate(gang.parts)} for gang in field.problem.gangs]
    return {
        gang: tuple(
            Assignment(role=parts[gang][kind], node=node, count=count)
            for (kind, node), count in sorted(
                given[gang].items(), key=lambda entry: (parts[gang][entry[0][0]], entry[0][1])
            )
        )
        for gang in sorted(given)
    }


def _given(field: Field, shares: Sequence[Share], seats: Seats) -> Iterator[tuple[int, Taken]]:
    """What each gang gets: the innermost claims first, since others may take what those leave anywhere."""
    slots: Slots = seats.found.counts.tolist()
    rows = seats.region.table.rows
    row = seats.region.table.row[seats.found.nodes]
    depths = [field.inner_depth(share.gang) for share in shares]
    for index in sorted(range(len(shares)), key=lambda index: -depths[index]):
        taken: Taken = {}
        home = rows.domain[depths[index] - 1][row].tolist() if depths[index] else [0] * len(slots)
        claims = seats.claims[index] if depths[index] else _anywhere(shares[index], seats)
        for domain, wanted in _by_domain(claims).items():
            _take([line for line, here in enumerate(home) if here == domain], wanted, slots, taken)
        yield shares[index].gang, taken


def _anywhere(share: Share, seats: Seats) -> dict[tuple[int, int], int]:
    return {(0, role): share.counts[kind] for role, kind in enumerate(seats.kinds)}


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
