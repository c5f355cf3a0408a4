"""Pods that must share a domain: whole pieces, bonded parts of them, single segments. For bounds only."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from phalanx.solver.joint.arrays import Field


class Cluster(Struct, frozen=True):
    """So many pods per kind lie in one domain of this depth. A piece has `times` such sets.

    `per_segment`: as many as segments of the piece are in a region, where it may lie anywhere.
    """

    piece: int
    depth: int
    counts: tuple[int, ...]
    strands: frozenset[int]
    times: int = 1
    per_segment: bool = False


def clusters_of(field: Field) -> tuple[Cluster, ...]:
    """All clusters, those around others first."""
    return tuple(cluster for piece in range(len(field.pieces)) for cluster in _of_piece(field, piece))


def outermost(clusters: Sequence[Cluster], depth: int) -> list[Cluster]:
    """Those of this depth or a deeper one whose pods no other of them holds: none is counted twice."""
    chosen: list[Cluster] = []
    for cluster in clusters:
        around = [other for other in chosen if other.piece == cluster.piece]
        if cluster.depth >= depth and not any(cluster.strands <= other.strands for other in around):
            chosen.append(cluster)
    return chosen


def _of_piece(field: Field, piece: int) -> Iterator[Cluster]:
    """Of segments only those of one kind: what others weigh depends on which pods are in them."""
    own = field.pieces[piece]
    every = frozenset(range(len(own.strands)))
    if own.required:
        yield Cluster(piece, own.required, field.counts(piece, every), every)
    for bond in own.bonds:
        counts, strands = field.counts(piece, bond.strands), frozenset(bond.strands)
        if not bond.size:
            yield Cluster(piece, bond.depth, counts, strands)
        elif sum(count > 0 for count in counts) == 1:
            segment = tuple(min(count, bond.size) for count in counts)
            times = sum(counts) // bond.size
            yield Cluster(piece, bond.depth, segment, strands, times, per_segment=not own.required)
