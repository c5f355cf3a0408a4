"""The master: which gangs are admitted and in which region they lie, on what regions hold in total.

It is a relaxation, so its bound on value holds; whether its plan does, the regions say.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.limits import MODEL_SUM_MAX
from phalanx.solver.cp import CpModel
from phalanx.solver.joint.ceiling import ceiling
from phalanx.solver.joint.cuts import Cut, Hold, cuts_of, hold_of
from phalanx.solver.joint.field import Field
from phalanx.solver.joint.plan import Lesson
from phalanx.solver.rows import IntArray, TooLarge

Term = tuple[int, cp_model.IntVar]


class Ground(Struct, frozen=True, eq=False):
    """What never changes between two questions: cuts, what regions hold, and where confined gangs may lie.

    `weights` are those of each gang per cut. `room` is, per region and kind, how many pods fit alone.
    `ceiling` is a value that no admissible set exceeds.
    """

    field: Field
    cuts: tuple[Cut, ...]
    holds: tuple[Hold, ...]
    weights: IntArray
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
    homes = tuple(
        tuple(_homes(field, holds, weights, room, gang)) if field.confined(gang) else ()
        for gang in range(len(field.wanted))
    )
    units = sum((hold.total for hold in holds), np.zeros(len(cuts), dtype=np.int64))
    most = ceiling(field.problem.gangs, weights, units.tolist())
    return Ground(field, cuts, holds, weights, room, homes, most)


def _room(field: Field, region: int) -> list[int]:
    rows = field.regions[region].table.rows
    most = [role.maximum for role in rows.problem.roles]
    room: list[int] = (np.minimum(rows.fits, most) * rows.count[:, None]).sum(axis=0).tolist()
    return room


def _homes(
    field: Field, holds: Sequence[Hold], weights: IntArray, room: IntArray, gang: int
) -> Iterable[int]:
    """The regions that could hold the gang if it were alone."""
    depth = field.required[gang]
    for index, (region, hold) in enumerate(zip(field.regions, holds, strict=True)):
        if not region.is_domain or (room[index] < field.wanted[gang]).any():
            continue
        held = hold.inside(region, depth) if depth > field.depth else hold.total[None, :]
        if (held >= weights[gang]).all(axis=1).any():
            yield index


class Master:
    """The model of one question. Gangs that are not confined are one stream of pods, or a stream each.

    Variables: `admitted[gang]`, `inside[gang, region]`, `pods[stream, kind, region]`.
    """

    def __init__(
        self, ground: Ground, lessons: Sequence[Lesson], chosen: Sequence[int] | None = None
    ) -> None:
        self.ground = ground
        self.field = ground.field
        self.cp = CpModel()
        gangs = range(len(self.field.wanted))
        self.admitted = [self._admission(gang, chosen) for gang in gangs]
        loose = [gang for gang in gangs if not self.field.confined(gang)]
        self.streams = [[gang] for gang in loose if gang in chosen] if chosen is not None else [loose]
        self.inside = {
            (gang, region): self.cp.new_bool_var("")
            for gang in gangs
            for region in ground.homes[gang]
            if chosen is None or gang in chosen
        }
        self.pods = self._pods()
        self._confined: list[list[Term]] = [[] for _ in self.field.regions]
        for (gang, region), variable in self.inside.items():
            self._confined[region].append((gang, variable))
        self._loose: list[list[Term]] = [[] for _ in self.field.regions]
        for (_, kind, region), variable in self.pods.items():
            self._loose[region].append((kind, variable))
        self._each_confined_gang_in_one_region()
        self._each_stream_somewhere()
        self._regions_hold_pods()
        self._domains_hold_gangs()
        self._budgets()
        for lesson in lessons:
            self._learn(lesson)

    def _admission(self, gang: int, chosen: Sequence[int] | None) -> cp_model.IntVar:
        """A variable of its own even where it is known: a constant is shared, and would be hinted twice."""
        if chosen is not None:
            known = int(gang in chosen)
            return self.cp.new_int_var(known, known, "")
        return self.cp.new_int_var(int(self.field.problem.gangs[gang].must), 1, "")

    def _pods(self) -> dict[tuple[int, int, int], cp_model.IntVar]:
        pods = {}
        for stream, gangs in enumerate(self.streams):
            wanted = self.field.wanted[gangs].sum(axis=0)
            for region, room in enumerate(self.ground.room):
                for kind, most in enumerate(np.minimum(wanted, room).tolist()):
                    if most:
                        pods[stream, kind, region] = self.cp.new_int_var(0, most, "")
        return pods

    def total(self, terms: Iterable[Term], reach: int) -> cp_model.LinearExpr:
        """The sum of the terms, which stays below `reach` by what is known of it; TooLarge if not safe."""
        listed = [(weight, variable) for weight, variable in terms if weight]
        if reach > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(
            [variable for _, variable in listed], [weight for weight, _ in listed]
        )

    def _each_confined_gang_in_one_region(self) -> None:
        for gang, admitted in enumerate(self.admitted):
            if self.field.confined(gang):
                homes = [
                    self.inside[gang, home] for home in self.ground.homes[gang] if (gang, home) in self.inside
                ]
                self.cp.add(cp_model.LinearExpr.sum(homes) == admitted)

    def _each_stream_somewhere(self) -> None:
        for stream, gangs in enumerate(self.streams):
            for kind in range(len(self.field.problem.kinds)):
                wanted = [(int(self.field.wanted[gang, kind]), self.admitted[gang]) for gang in gangs]
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
                        (int(self.ground.weights[gang, index]), one) for gang, one in self._confined[region]
                    ]
                    self.cp.add(self.total([*here, *self._loose_load(region, cut.weights)], cut.most) <= most)

    def _loose_load(self, region: int, weights: Sequence[int]) -> list[Term]:
        return [(weights[kind], variable) for kind, variable in self._loose[region]]

    def _domains_hold_gangs(self) -> None:
        """For gangs that need a domain inside a region: so many of this size fit into its domains."""
        field = self.field
        for depth in sorted({each for each in field.required if each > field.depth}):
            deep = [gang for gang, required in enumerate(field.required) if required >= depth]
            for index in range(len(self.ground.cuts)):
                sizes = {gang: int(self.ground.weights[gang, index]) for gang in deep}
                for region, hold in enumerate(self.ground.holds):
                    here = {gang: size for gang, size in sizes.items() if (gang, region) in self.inside}
                    self._whole_gangs(region, here, hold.inside(field.regions[region], depth)[:, index])

    def _whole_gangs(self, region: int, sizes: dict[int, int], held: IntArray) -> None:
        for size in sorted(set(sizes.values()) - {0}):
            counts = {gang: each // size for gang, each in sizes.items() if each >= size}
            most, reach = int((held // size).sum()), sum(counts.values())
            if most < reach:
                terms = [(count, self.inside[gang, region]) for gang, count in counts.items()]
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
        """Some group has fewer gangs in the region, or no more than the rest lies beside them."""
        short = [self._shortage(lesson.region, gangs, count) for gangs, count in lesson.groups]
        if lesson.rest is None:
            self.cp.add_bool_or(short)
            return
        load = self._loose_load(lesson.region, lesson.weights)
        wanted = self.field.wanted.sum(axis=0).tolist()
        reach = sum(weight * most for weight, most in zip(lesson.weights, wanted, strict=True))
        self.cp.add(self.total(load, reach) <= lesson.rest + max(0, reach - lesson.rest) * sum(short))

    def _shortage(self, region: int, gangs: Sequence[int], count: int) -> cp_model.IntVar:
        """Where it is 1, fewer than `count` of these gangs lie in the region."""
        short = self.cp.new_bool_var("")
        here = [self.inside[gang, region] for gang in gangs if (gang, region) in self.inside]
        self.cp.add(cp_model.LinearExpr.sum(here) < count).only_enforce_if(short)
        return short
