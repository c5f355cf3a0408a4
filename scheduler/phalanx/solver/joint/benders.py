"""Master and regions in turn: a plan, what the regions make of it, lessons for the master, the next plan."""

from collections.abc import Iterator, Sequence

from phalanx.limits import (
    JOINT_MASTER_PART,
    JOINT_REGION_PART,
    JOINT_ROUNDS_MAX,
    SOLVE_EFFORT_MIN,
)
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.master import fewest_regions, most_value
from phalanx.solver.joint.master_model import Ground, ground_of
from phalanx.solver.joint.plan import Lesson, Plan, Share
from phalanx.solver.joint.problem import JointAssignment, worth
from phalanx.solver.joint.seating import arranged
from phalanx.solver.joint.sequence import one_by_one
from phalanx.solver.joint.subproblem import IMPOSSIBLE, UNKNOWN, Inquiry, Seats, most_beside, seat
from phalanx.solver.joint.symmetry import groups_like

Shares = tuple[Share, ...]


class Rounds:
    """`best` is the most valuable arrangement so far, `bound` what none exceeds; `lessons` were learned."""

    def __init__(self, field: Field, start: JointAssignment, *, effort: float) -> None:
        self._field = field
        self._ground: Ground = ground_of(field)
        self._effort = self._left = effort
        self.lessons: list[Lesson] = []
        self.best = start
        self.bound = self._ground.ceiling

    def run(self) -> None:
        """Until a plan stands, or the effort or the rounds are used up."""
        for _ in range(JOINT_ROUNDS_MAX):
            plan = self._plan() if self._left > 0 and self._value() < self.bound else None
            if plan is None or plan.value <= self._value():
                return
            seated = self._seated(plan)
            self._keep(seated, plan)
            if all(isinstance(seats, Seats) for _, seats in seated):
                return

    def _value(self) -> int:
        return worth(self._field.problem, self.best)

    def _plan(self) -> Plan | None:
        start = self._shares_of_best()
        effort = min(self._left, self._effort * JOINT_MASTER_PART)
        reply = most_value(self._ground, self.lessons, floor=self._value(), start=start, effort=effort)
        self._spend(reply.spent)
        if all(lesson.proven for lesson in self.lessons):
            self.bound = min(self.bound, reply.bound)
        if reply.plan is None or reply.plan.value <= self._value():
            return None
        effort = self._effort * JOINT_REGION_PART
        plan, spent = fewest_regions(self._ground, self.lessons, reply.plan, effort=effort)
        self._spend(spent)
        return plan

    def _seated(self, plan: Plan) -> list[tuple[Shares, Seats | str]]:
        seated: list[tuple[Shares, Seats | str]] = []
        for number, shares in enumerate(plan.shares):
            if not shares:
                continue
            reply = self._ask(number, shares)
            if not isinstance(reply.seats, Seats):
                self.lessons.append(self._lesson(number, shares, reply.seats == IMPOSSIBLE))
            seated.append((shares, reply.seats))
        return seated

    def _ask(self, number: int, shares: Shares) -> Inquiry:
        """A plan that was begun is seated to its end, within twice the effort."""
        if self._left < -self._effort:
            return Inquiry(UNKNOWN, 0.0)
        region = self._field.regions[number]
        reply = seat(self._field, region, shares, effort=self._effort * JOINT_REGION_PART)
        self._spend(reply.spent)
        return reply

    def _lesson(self, number: int, shares: Shares, proven: bool) -> Lesson:
        """What the master should know of a region that did not seat its shares, as strongly as is true."""
        confined = tuple(share for share in shares if self._field.confined(share.piece))
        deep = tuple(share for share in confined if self._field.pieces[share.piece].depth > self._field.depth)
        for some in dict.fromkeys((deep, confined)):
            if proven and some and some != shares and self._ask(number, some).seats == IMPOSSIBLE:
                return Lesson(number, groups_like(self._field, some))
        if confined == shares or not self._ground.cuts:
            return Lesson(number, groups_like(self._field, confined), proven=proven)
        return self._at_most_beside(number, confined, shares)

    def _at_most_beside(self, number: int, confined: Shares, shares: Shares) -> Lesson:
        """With these confined pieces in the region, only so much of the others lies there."""
        field = self._field
        loose = [share for share in shares if share not in confined]
        index = max(
            range(len(self._ground.cuts)),
            key=lambda index: sum(_weigh(share, self._ground.cuts[index].weights) > 0 for share in loose),
        )
        weights = self._ground.cuts[index].weights
        asked = sum(_weigh(share, weights) for share in loose)
        room = [
            sum(
                int(field.wanted[piece, kind])
                for piece in range(len(field.pieces))
                if not field.confined(piece)
            )
            for kind in range(len(weights))
        ]
        effort = self._effort * JOINT_REGION_PART
        reply = most_beside(
            field, field.regions[number], confined, loose=room, weights=weights, effort=effort
        )
        self._spend(reply.spent)
        proven = isinstance(reply.seats, Seats) and reply.rest < asked
        rest = reply.rest if proven else asked - 1
        return Lesson(number, groups_like(field, confined), weights, rest, proven)

    def _keep(self, seated: Sequence[tuple[Shares, Seats | str]], plan: Plan) -> None:
        """The arrangement of what was seated, and whoever still fits one by one, if it is the best."""
        stands = [(shares, seats) for shares, seats in seated if isinstance(seats, Seats)]
        broken = {
            self._field.pieces[share.piece].gang
            for shares, seats in seated
            if not isinstance(seats, Seats)
            for share in shares
        }
        found = {gang: one for gang, one in arranged(self._field, stands).items() if gang not in broken}
        if broken:
            found = dict(one_by_one(self._field, self._order(broken, found), limits=GREEDY_ONLY, start=found))
        musts = {index for index, gang in enumerate(self._field.problem.gangs) if gang.must_admit}
        if musts <= found.keys() and worth(self._field.problem, found) > self._value():
            self.best = dict(sorted(found.items()))

    def _order(self, broken: set[int], found: JointAssignment) -> Iterator[int]:
        """Who is tried again: whoever must be admitted, whoever was planned, then the others by value."""
        gangs = self._field.problem.gangs
        rest = [gang for gang in range(len(gangs)) if gang not in found]
        yield from sorted(
            rest, key=lambda gang: (not gangs[gang].must_admit, gang not in broken, -gangs[gang].value, gang)
        )

    def _shares_of_best(self) -> list[list[Share]]:
        home = {
            node: number for number, region in enumerate(self._field.regions) for node in region.table.names
        }
        counts: list[dict[int, list[int]]] = [{} for _ in self._field.regions]
        piece_of = {
            (own.gang, part): piece
            for piece, own in enumerate(self._field.pieces)
            for strand in own.strands
            for part in strand
        }
        for gang, assignments in self.best.items():
            for one in assignments:
                kind = self._field.problem.gangs[gang].parts[one.role].kind
                piece = piece_of[gang, one.role]
                here = counts[home[one.node]].setdefault(piece, [0] * len(self._field.problem.kinds))
                here[kind] += one.count
        return [[Share(piece, tuple(each)) for piece, each in region.items()] for region in counts]

    def _spend(self, spent: float) -> None:
        self._left -= max(spent, SOLVE_EFFORT_MIN)


def _weigh(share: Share, weights: Sequence[int]) -> int:
    return sum(weight * count for weight, count in zip(weights, share.counts, strict=True))
