"""The master: which gangs are admitted and in which region their pieces lie, on what regions hold in total.

It is a relaxation, so its bound on value holds; whether its plan does, the regions say.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.limits import MODEL_SUM_MAX
from phalanx.solver.arrays import IntArray, TooLarge
from phalanx.solver.cp_sat import CpModel
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.ceiling import ceiling
from phalanx.solver.joint.clusters import Cluster, clusters_of, outermost
from phalanx.solver.joint.plan import Lesson
from phalanx.solver.joint.valid_inequalities import Cut, Hold, cuts_of, hold_of

Term = tuple[int, cp_model.IntVar]


class Ground(Struct, frozen=True, eq=False):
    """What never changes between two questions: cuts, what regions hold, and where confined pieces may lie.

    `factors` has a line per cut, with what each kind weighs; `weights` are those of each piece per cut.
    `room` is, per region and kind, how many pods fit alone. `ceiling` is a value that no admissible set
    exceeds.
    """

    field: Field
    cuts: tuple[Cut, ...]
    holds: tuple[Hold, ...]
    factors: IntArray
    weights: IntArray
    clusters: tuple[Cluster, ...]
    room: IntArray
    homes: tuple[tuple[int, ...], ...]
    ceiling: int


def ground_of(field: Field) -> Ground:
    """Prepares a field for the master."""
    cuts = cuts_of(field)
    holds = tuple(hold_of(region, cuts) for region in field.regions)
    factors = np.array([cut.weights for cut in cuts], dtype=np.int64).reshape(
        len(cuts), len(field.problem.kinds)
    )
    weights = field.wanted @ factors.T
    room = np.array([_room(field, region) for region in range(len(field.regions))], dtype=np.int64)
    clusters = clusters_of(field)
    homes = tuple(
        tuple(_homes(field, holds, factors, room, [each for each in clusters if each.piece == piece]))
        if field.confined(piece)
        else ()
        for piece in range(len(field.pieces))
    )
    units = sum((hold.total for hold in holds), np.zeros(len(cuts), dtype=np.int64))
    per_gang = np.array([weights[list(pieces)].sum(axis=0) for pieces in field.pieces_of], dtype=np.int64)
    most = ceiling(field.problem.gangs, per_gang, units.tolist())
    return Ground(field, cuts, holds, factors, weights, clusters, homes=homes, room=room, ceiling=most)


def _room(field: Field, region: int) -> list[int]:
    rows = field.regions[region].table.rows
    most = [role.maximum for role in rows.problem.roles]
    room: list[int] = (np.minimum(rows.fits, most) * rows.count[:, None]).sum(axis=0).tolist()
    return room


def _homes(
    field: Field, holds: Sequence[Hold], factors: IntArray, room: IntArray, clusters: Sequence[Cluster]
) -> Iterable[int]:
    """The regions that could hold the piece with these clusters, the first of them all of it, alone."""
    piece = clusters[0].piece
    if any(
        sum(field.counts(piece, bond.strands)) % bond.size for bond in field.pieces[piece].bonds if bond.size
    ):
        return
    needs = [(max(each.depth, field.depth), factors @ np.array(each.counts)) for each in clusters]
    for index, (region, hold) in enumerate(zip(field.regions, holds, strict=True)):
        if not region.is_domain or (room[index] < field.wanted[piece]).any():
            continue
        held = {depth: hold.inside(region, depth) for depth in {depth for depth, _ in needs} if depth}
        if all((held[depth] >= weights).all(axis=1).any() for depth, weights in needs):
            yield index


class Master:
    """The model of one question. Pieces that are not confined are one stream of pods, or a stream each.

    Those in segments always have one of their own. Variables: `admitted[gang]`, `inside[piece, region]`,
    `pods[stream, kind, region]`, `segments[piece, region]`.
    """

    def __init__(
        self, ground: Ground, lessons: Sequence[Lesson], chosen: Sequence[int] | None = None
    ) -> None:
        self.ground = ground
        self.field = ground.field
        self.cp = CpModel()
        self.admitted = [self._admission(gang, chosen) for gang in range(len(self.field.problem.gangs))]
        pieces = [
            index for index, piece in enumerate(self.field.pieces) if chosen is None or piece.gang in chosen
        ]
        self.streams = list(self._streams(pieces, merged=chosen is None))
        self.inside = {
            (piece, region): self.cp.new_bool_var("") for piece in pieces for region in ground.homes[piece]
        }
        self.pods = self._pods()
        self.segments = self._segments()
        self._confined: list[list[Term]] = [[] for _ in self.field.regions]
        for (piece, region), variable in self.inside.items():
            self._confined[region].append((piece, variable))
        self._loose: list[list[Term]] = [[] for _ in self.field.regions]
        for (_, kind, region), variable in self.pods.items():
            self._loose[region].append((kind, variable))
        self._each_confined_piece_in_one_region()
        self._each_stream_somewhere()
        self._regions_hold_pods()
        self._domains_hold_clusters()
        self._budgets()
        for lesson in lessons:
            self._learn(lesson)

    def _admission(self, gang: int, chosen: Sequence[int] | None) -> cp_model.IntVar:
        """A variable of its own even where it is known: a constant is shared, and would be hinted twice."""
        if chosen is not None:
            known = int(gang in chosen)
            return self.cp.new_int_var(known, known, "")
        return self.cp.new_int_var(int(self.field.problem.gangs[gang].must_admit), 1, "")

    def admission(self, piece: int) -> cp_model.IntVar:
        """Whether the piece's gang is admitted."""
        return self.admitted[self.field.pieces[piece].gang]

    def _streams(self, pieces: Sequence[int], *, merged: bool) -> Iterable[list[int]]:
        loose = [piece for piece in pieces if not self.field.confined(piece)]
        plain = [piece for piece in loose if not self.field.pieces[piece].segment]
        yield from [plain] if merged and plain else ([piece] for piece in plain)
        yield from ([piece] for piece in loose if self.field.pieces[piece].segment)

    def _pods(self) -> dict[tuple[int, int, int], cp_model.IntVar]:
        pods = {}
        for stream, pieces in enumerate(self.streams):
            wanted = self.field.wanted[pieces].sum(axis=0)
            in_segments = self.field.pieces[pieces[0]].segment > 0
            for region, room in enumerate(self.ground.room):
                if in_segments and not self.field.regions[region].is_domain:
                    continue
                for kind, most in enumerate(np.minimum(wanted, room).tolist()):
                    if most:
                        pods[stream, kind, region] = self.cp.new_int_var(0, most, "")
        return pods

    def _segments(self) -> dict[tuple[int, int], cp_model.IntVar]:
        """Segments of pieces that may use several regions: each region gets whole ones."""
        segments = {}
        for stream, pieces in enumerate(self.streams):
            size = self.field.pieces[pieces[0]].segment
            for region in range(len(self.field.regions)) if size else ():
                keys = [(stream, kind, region) for kind in range(len(self.field.problem.kinds))]
                pods = [self.pods[key] for key in keys if key in self.pods]
                if pods:
                    most = int(self.field.wanted[pieces[0]].sum()) // size
                    segments[pieces[0], region] = number = self.cp.new_int_var(0, most, "")
                    self.cp.add(cp_model.LinearExpr.sum(pods) == size * number)
        return segments

    def total(self, terms: Iterable[Term], reach: int) -> cp_model.LinearExpr:
        """The sum of the terms, which stays below `reach` by what is known of it; TooLarge if not safe."""
        listed = [(weight, variable) for weight, variable in terms if weight]
        if reach > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(
            [variable for _, variable in listed], [weight for weight, _ in listed]
        )

    def _each_confined_piece_in_one_region(self) -> None:
        for piece, homes in enumerate(self.ground.homes):
            if self.field.confined(piece):
                inside = [self.inside[piece, home] for home in homes if (piece, home) in self.inside]
                self.cp.add(cp_model.LinearExpr.sum(inside) == self.admission(piece))

    def _each_stream_somewhere(self) -> None:
        for stream, pieces in enumerate(self.streams):
            for kind in range(len(self.field.problem.kinds)):
                wanted = [(int(self.field.wanted[piece, kind]), self.admission(piece)) for piece in pieces]
                most = sum(weight for weight, _ in wanted)
                if most:
                    here = [(1, self.pods[key]) for key in self._keys(stream=stream, kind=kind)]
                    self.cp.add(self.total(here, most) == self.total(wanted, most))

    def _keys(self, *, stream: int, kind: int) -> list[tuple[int, int, int]]:
        regions = range(len(self.field.regions))
        return [(stream, kind, region) for region in regions if (stream, kind, region) in self.pods]

    def _regions_hold_pods(self) -> None:
        for index, cut in enumerate(self.ground.cuts):
            for region, hold in enumerate(self.ground.holds):
                most = int(hold.total[index])
                if most < cut.most:
                    here = [
                        (int(self.ground.weights[piece, index]), one) for piece, one in self._confined[region]
                    ]
                    self.cp.add(self.total([*here, *self._loose_load(region, cut.weights)], cut.most) <= most)

    def _loose_load(self, region: int, weights: Sequence[int]) -> list[Term]:
        return [(weights[kind], variable) for kind, variable in self._loose[region]]

    def _domains_hold_clusters(self) -> None:
        """For what needs a domain inside a region: so many of this size fit into its domains."""
        field = self.field
        for depth in sorted({each.depth for each in self.ground.clusters if each.depth > field.depth}):
            deep = outermost(self.ground.clusters, depth)
            weights = np.array([each.counts for each in deep], dtype=np.int64) @ self.ground.factors.T
            for region, hold in enumerate(self.ground.holds):
                held = hold.inside(field.regions[region], depth)
                here = [
                    (line, found) for line, each in enumerate(deep) if (found := self._here(each, region))
                ]
                for index in range(len(self.ground.cuts)):
                    sizes = [(int(weights[line, index]), *found) for line, found in here]
                    self._whole_clusters(sizes, held[:, index])

    def _here(self, cluster: Cluster, region: int) -> tuple[Term, int] | None:
        """How many such clusters are in the region, as a term, and at most; None where none can be."""
        where = self.segments if cluster.per_segment else self.inside
        if (cluster.piece, region) not in where:
            return None
        times = 1 if cluster.per_segment else cluster.times
        return (times, where[cluster.piece, region]), cluster.times

    def _whole_clusters(self, sizes: Sequence[tuple[int, Term, int]], held: IntArray) -> None:
        for size in sorted({each for each, _, _ in sizes} - {0}):
            large = [(each // size, term, most) for each, term, most in sizes if each >= size]
            most, reach = int((held // size).sum()), sum(count * most for count, _, most in large)
            if most < reach:
                terms = [(count * times, variable) for count, (times, variable), _ in large]
                self.cp.add(self.total(terms, reach) <= most)

    def _budgets(self) -> None:
        problem = self.field.problem
        for limit in self.field.limits:
            for resource, name in enumerate(problem.resources):
                if name not in limit.budget.remaining:
                    continue
                needs = {gang: self._need(gang, resource) for gang in limit.gangs}
                unit = math.gcd(*needs.values())
                most = max(0, limit.budget.remaining[name])
                if unit and sum(needs.values()) > most:
                    terms = [(need // unit, self.admitted[gang]) for gang, need in needs.items()]
                    self.cp.add(self.total(terms, sum(needs.values()) // unit) <= most // unit)

    def _need(self, gang: int, resource: int) -> int:
        kinds = self.field.problem.kinds
        return sum(
            part.count * kinds[part.kind].request[resource] for part in self.field.problem.gangs[gang].parts
        )

    def _learn(self, lesson: Lesson) -> None:
        """Some group has fewer pieces in the region, or no more than the rest lies beside them."""
        short = [self._shortage(lesson.region, pieces, count) for pieces, count in lesson.groups]
        if lesson.rest is None:
            self.cp.add_bool_or(short)
            return
        load = self._loose_load(lesson.region, lesson.weights)
        wanted = self.field.wanted.sum(axis=0).tolist()
        reach = sum(weight * most for weight, most in zip(lesson.weights, wanted, strict=True))
        self.cp.add(self.total(load, reach) <= lesson.rest + max(0, reach - lesson.rest) * sum(short))

    def _shortage(self, region: int, pieces: Sequence[int], count: int) -> cp_model.IntVar:
        """Where it is 1, fewer than `count` of these pieces lie in the region."""
        short = self.cp.new_bool_var("")
        here = [self.inside[piece, region] for piece in pieces if (piece, region) in self.inside]
        self.cp.add(cp_model.LinearExpr.sum(here) < count).only_enforce_if(short)
        return short
