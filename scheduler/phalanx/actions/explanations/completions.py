"""Whose end would let a demand start: one gang, else a pair, else a set that is enough.

Each answer was tried: the demand is solved with the room and the share of limits given back, under all of its
rules. Counting rules out most gangs before; those that are left are tried in the order of what they hold.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import combinations, islice
from typing import Final

from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.completion_bounds import CompletionBounds
from phalanx.actions.limits import (
    ENDING_DOMAINS_MAX,
    ENDING_PAIRED_MAX,
    ENDING_PAIRS_COUNTED_MAX,
    ENDING_PAIRS_TRIED_MAX,
    ENDING_SOLVES_MAX,
    ENDINGS_NEEDED_MAX,
    ENDINGS_TRIED_MAX,
)
from phalanx.actions.problems.capacity_holders import CapacityHolder, Cost, find_capacity_holders
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import Resources
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.relaxations import NodeCapacity, Relaxation
from phalanx.solver.problem import SolveLimits

Completions = tuple[CapacityHolder, ...]
"""Those that must end, whoever holds least first. A set of more than two may be larger than it need be."""

Amounts = dict[tuple[NodeName, str], int]
"""By node and resource."""

_SHARE: Final = 1000


class CompletionSearch:
    """Answers for the demands of one session, at its end."""

    def __init__(self, session: Session, answers: AnswerCache, *, limits: SolveLimits) -> None:
        self._session = session
        self._answers = answers
        self._limits = limits

    @cached_property
    def _problems(self) -> ProblemBuilder:
        return ProblemBuilder(self._session, may_grow=True)

    @cached_property
    def _holders(self) -> list[CapacityHolder]:
        return find_capacity_holders(self._session)

    @cached_property
    def _by_node(self) -> dict[NodeName, list[CapacityHolder]]:
        found: dict[NodeName, list[CapacityHolder]] = {}
        for each in self._holders:
            for node in each.used:
                found.setdefault(node, []).append(each)
        return found

    def find(self, demand: Demand, *, spared: frozenset[GangId], room: Relaxation | None) -> Completions:
        """Who must end, without the gangs `spared`; empty where nobody is found whose end is enough.

        `room` is what is missing where it is known: where single gangs are not enough, it says which to take.
        """
        crowd = _Crowd(self._holders, self._by_node, spared)
        oracle = FeasibilityOracle(self._answers, self._limits, solves=ENDING_SOLVES_MAX)
        return _Search(self._session, self._problems, demand, crowd, oracle).find(room)


class _Crowd:
    """Those whose end comes into question for one demand. `by_node` has those `spared` too."""

    def __init__(
        self,
        holders: Sequence[CapacityHolder],
        by_node: Mapping[NodeName, Sequence[CapacityHolder]],
        spared: frozenset[GangId],
    ) -> None:
        self.holders = [each for each in holders if each.gang not in spared] if spared else holders
        self._by_node = by_node
        self._spared = spared

    def on(self, nodes: Iterable[NodeName]) -> list[CapacityHolder]:
        """Who holds room on some of these nodes, each once."""
        there = {each.key: each for node in nodes for each in self._by_node.get(node, ())}
        return [each for each in there.values() if each.gang not in self._spared]


class _Search:
    """The search for one demand."""

    def __init__(
        self,
        session: Session,
        problems: ProblemBuilder,
        demand: Demand,
        crowd: _Crowd,
        oracle: FeasibilityOracle,
    ) -> None:
        self._session = session
        self._problems = problems
        self._demand = demand
        self._crowd = crowd
        self._prospects = CompletionBounds(session, demand)
        kinds = {each.kind: each for each in crowd.holders}
        self._reach = {kind: self._prospects.reach(each) for kind, each in kinds.items()}
        self._most: dict[Path, list[CapacityHolder]] = {}
        self._oracle = oracle

    def find(self, room: Relaxation | None) -> Completions:
        """The answer."""
        home = room.domain if room is not None else ()
        able = {kind for kind, reach in self._reach.items() if self._prospects.is_enough(reach)}
        singles = [
            each
            for each in self._crowd.holders
            if each.kind in able and self._prospects.may_gain(each) and self._prospects.allow([each])
        ]
        singles.sort(key=lambda each: (each.cost[0], not self._is_in(each, home), each.cost))
        for each in singles[:ENDINGS_TRIED_MAX]:
            if self._fits_without([each]):
                return (each,)
        for pair in islice(self._pairs(), ENDING_PAIRS_TRIED_MAX):
            if self._fits_without(pair):
                return pair
        return self._enough(room)

    def _may_do(self, *ended: CapacityHolder) -> bool:
        """Whether counting leaves a chance that the end of these is enough."""
        reaches = [self._reach[each.kind] for each in ended]
        return self._prospects.is_enough(*reaches) and self._prospects.allow(ended)

    def _is_in(self, holder: CapacityHolder, home: Path) -> bool:
        return any(self._prospects.home_of(node) == home for node in holder.used)

    def _fits_without(self, ended: Sequence[CapacityHolder]) -> bool:
        """Whether a placement is found when these have ended."""
        with self._session.statement() as statement:
            for each in ended:
                statement.assume_ended(queue=each.queue, used=each.used, booked=each.booked)
            problem = self._problems.build_problem(self._demand).problem
            statement.roll_back()
        return self._oracle.fits(feasibility_problem(problem)) is True

    def _pairs(self) -> Iterator[Completions]:
        """Pairs that counting allows, those first that hold least."""
        pairs: dict[tuple[str, str], Completions] = {}
        for candidates in self._paired():
            for one, other in combinations(sorted(candidates, key=_cost), 2):
                pairs[one.key, other.key] = (one, other)
        likely = [
            pair
            for pair in pairs.values()
            if self._prospects.is_enough(*(self._reach[each.kind] for each in pair))
        ]
        likely.sort(key=lambda pair: (sum(each.cost[0] for each in pair), pair[0].cost, pair[1].cost))
        return (pair for pair in likely[:ENDING_PAIRS_COUNTED_MAX] if self._prospects.allow(pair))

    def _paired(self) -> Iterator[list[CapacityHolder]]:
        """Per domain that lacks little, those that give back most there; and those that use the limits."""
        if self._prospects.over:
            yield self._by_limits()[:ENDING_PAIRED_MAX]
        counts = Counter(each.kind for each in self._crowd.holders)
        two_each = [reach for kind, reach in self._reach.items() for _ in range(min(2, counts[kind]))]
        most = [sorted(reaches)[-2:] for reaches in zip(*two_each, strict=True)]
        if not self._prospects.is_enough(*zip(*most, strict=True)):
            return
        for home in self._prospects.nearest_domains(ENDING_DOMAINS_MAX):
            yield self._giving_most(home)[:ENDING_PAIRED_MAX]

    def _giving_most(self, home: Path) -> list[CapacityHolder]:
        """Some of those that hold room in this domain, whoever's end lets most pods more fit there first."""
        if home not in self._most:
            there = self._crowd.on(self._prospects.nodes_in(home))
            sums = {kind: sum(reach) for kind, reach in self._reach.items()}
            some = nsmallest(2 * ENDING_PAIRED_MAX, there, key=lambda each: (-sums[each.kind], each.cost))
            self._most[home] = sorted(some, key=lambda each: (-self._prospects.gain(each, home), each.cost))
        return self._most[home]

    def _by_limits(self) -> list[CapacityHolder]:
        """Those that use the limits which the demand exceeds, whoever uses most of them first."""
        sharing = [each for each in self._crowd.holders if self._prospects.shares_limits(each)]
        over = self._prospects.over
        return sorted(
            sharing,
            key=lambda each: (
                -sum(
                    _SHARE * min(each.total_booked.get(name, 0), more) // more for name, more in over.items()
                ),
                each.cost,
            ),
        )

    def _enough(self, room: Relaxation | None) -> Completions:
        """A set that gives back what is missing, less those that turn out to be needless."""
        for order in self._orders(room):
            if self._may_do(*order):
                chosen = self._first_that_do(order)
                if chosen:
                    return self._without_needless(chosen)
        return ()

    def _orders(self, room: Relaxation | None) -> Iterator[list[CapacityHolder]]:
        """Whom to send away in turn: who uses the limits, who holds what is missing, who is where most is."""
        payers = self._by_limits()[:ENDINGS_NEEDED_MAX] if self._prospects.over else []
        counts = range(len(payers))
        paying = next((count for count in counts if self._prospects.pay(payers[:count])), len(payers))
        first = [*payers[:paying], *(_cover(self._crowd, room.capacity) if room is not None else ())]
        for home in self._prospects.nearest_domains(ENDING_DOMAINS_MAX):
            order = {each.key: each for each in (*first, *self._giving_most(home))}
            yield list(order.values())[:ENDINGS_NEEDED_MAX]

    def _first_that_do(self, order: Sequence[CapacityHolder]) -> Completions:
        counts = range(1, len(order) + 1)
        return next(
            (
                tuple(order[:count])
                for count in counts
                if self._may_do(*order[:count]) and self._fits_without(order[:count])
            ),
            (),
        )

    def _without_needless(self, chosen: Completions) -> Completions:
        for each in sorted(chosen, key=_cost, reverse=True):
            fewer = tuple(one for one in chosen if one is not each)
            if self._may_do(*fewer) and self._fits_without(fewer):
                chosen = fewer
        return tuple(sorted(chosen, key=_cost))


def _cover(crowd: _Crowd, rooms: Sequence[NodeCapacity]) -> list[CapacityHolder]:
    """Greedy: whoever holds most of what is still missing, until nothing is; empty where that fails."""
    missing = {(room.node, name): amount for room in rooms for name, amount in room.amounts.items()}
    wanted = {room.node: room.amounts for room in rooms}
    holders = sorted(crowd.on(wanted), key=_cost)
    held = {index: _of_wanted(each, wanted) for index, each in enumerate(holders)}
    chosen: list[CapacityHolder] = []
    while missing and held and len(chosen) < ENDINGS_NEEDED_MAX:
        best = max(held, key=lambda index: _covered(held[index], missing))
        chosen.append(holders[best])
        for key, amount in held.pop(best).items():
            if key in missing and missing[key] > amount:
                missing[key] -= amount
            else:
                missing.pop(key, None)
    return [] if missing else chosen


def _of_wanted(holder: CapacityHolder, wanted: Mapping[NodeName, Resources]) -> Amounts:
    """What it holds of the amounts that are missing on these nodes."""
    return {
        (node, name): amounts[name]
        for node, amounts in holder.used.items()
        for name in wanted.get(node, ())
        if name in amounts
    }


def _covered(held: Amounts, missing: Amounts) -> int:
    """How much of what is missing that is, in thousandths of each amount."""
    return sum(
        _SHARE * min(amount, missing[key]) // missing[key] for key, amount in held.items() if key in missing
    )


def _cost(holder: CapacityHolder) -> Cost:
    return holder.cost
