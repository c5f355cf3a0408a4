"""Find the holders of capacity whose end lets a demand start: one, else a pair, else a larger set.

Each result is verified by a solve with all rules of the demand, after their capacity and their usage of queue
limits are released. Counting bounds exclude most holders before; the others are tried in order of cost.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import combinations, islice
from typing import Final

from phalanx.actions.demands.demand import Demand
from phalanx.actions.explanations.completion_bounds import CompletionBounds
from phalanx.actions.explanations.deletion_filter import necessary
from phalanx.actions.problems.capacity_holders import (
    CapacityHolder,
    Cost,
    find_capacity_holders,
    terminating_members,
)
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import Resources
from phalanx.solver.answer import SolveLimits
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.missing_capacity import MissingCapacity
from phalanx.solver.infeasibility.relaxations import NodeCapacity

ENDINGS_TRIED_MAX: Final = 16
"""Solves that try whether the completion of one gang lets another start. Gangs that cannot free enough are
excluded by counting before."""

ENDING_PAIRS_TRIED_MAX: Final = 4
"""Pairs of gangs tried by a solve if no single completion is enough."""

ENDING_PAIRS_COUNTED_MAX: Final = 64
"""Pairs whose gain is counted before any is solved: each takes about 0.2 ms."""

ENDING_PAIRED_MAX: Final = 12
"""Gangs to pair in one domain, those that free the most: 66 pairs to count."""

ENDING_DOMAINS_MAX: Final = 4
"""Domains in which pairs are searched, those that lack the least capacity."""

ENDINGS_NEEDED_MAX: Final = 16
"""Completions that a verdict names at most. If more are needed, it names the missing capacity instead."""

ENDING_SOLVES_MAX: Final = 32
"""Solves to find completions: the tries above, and as many to exclude unnecessary ones."""

Completions = tuple[CapacityHolder, ...]
"""Holders that must end, the cheapest first. A set of more than two may be larger than necessary."""

Amounts = dict[tuple[NodeName, str], int]
"""By node and resource."""

_SHARE: Final = 1000


class CompletionSearch:
    """Searches for the demands of one session, after all its placements."""

    def __init__(
        self, session: Session, builder: ProblemBuilder, answers: AnswerCache, *, limits: SolveLimits
    ) -> None:
        self._session = session
        self._builder = builder
        self._answers = answers
        self._limits = limits

    @cached_property
    def holders(self) -> list[CapacityHolder]:
        """All holders of capacity after the placements of the cycle, the cheapest first."""
        return find_capacity_holders(self._session)

    @cached_property
    def _by_node(self) -> dict[NodeName, list[CapacityHolder]]:
        found: dict[NodeName, list[CapacityHolder]] = {}
        for holder in self.holders:
            for node in holder.used:
                found.setdefault(node, []).append(holder)
        return found

    def find(
        self, demand: Demand, *, protected: frozenset[GangId], missing: MissingCapacity | None
    ) -> Completions:
        """The holders that must end, none of them `protected`; empty if no sufficient set is found.

        `missing` is the capacity to add, if known; it guides the search for larger sets.
        """
        candidates = _Candidates(
            self.holders,
            self._by_node,
            protected,
            own=terminating_members(demand.gang, self._session),
        )
        oracle = FeasibilityOracle(self._answers, self._limits, solves=ENDING_SOLVES_MAX)
        return _Search(self._session, self._builder, demand, candidates, oracle).find(missing)


class _Candidates:
    """The holders that may end for one demand."""

    def __init__(
        self,
        holders: Sequence[CapacityHolder],
        by_node: Mapping[NodeName, Sequence[CapacityHolder]],
        protected: frozenset[GangId],
        *,
        own: Sequence[CapacityHolder],
    ) -> None:
        """`by_node` has protected holders too.

        `own`: terminating pods of the gang, which may end although the gang is protected.
        """
        self._protected = protected
        self.holders = [*own, *(filter(self._may_end, holders) if protected else holders)]
        self._by_node = by_node
        self._own = own

    def on(self, nodes: Iterable[NodeName]) -> list[CapacityHolder]:
        """The holders on these nodes, each once."""
        places = set(nodes)
        found = {holder.key: holder for node in places for holder in self._by_node.get(node, ())}
        own = [holder for holder in self._own if not places.isdisjoint(holder.used)]
        return [*own, *filter(self._may_end, found.values())]

    def _may_end(self, holder: CapacityHolder) -> bool:
        return holder.gang is None or holder.gang not in self._protected


class _Search:
    """The search for one demand."""

    def __init__(
        self,
        session: Session,
        builder: ProblemBuilder,
        demand: Demand,
        candidates: _Candidates,
        oracle: FeasibilityOracle,
    ) -> None:
        self._session = session
        self._builder = builder
        self._demand = demand
        self._candidates = candidates
        states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
        self._states = [state for state in states if state is not None]
        self._bounds = CompletionBounds(session, demand)
        kinds = {holder.kind: holder for holder in candidates.holders}
        self._reach = {kind: self._bounds.reach(holder) for kind, holder in kinds.items()}
        self._most: dict[Path, list[CapacityHolder]] = {}
        self._oracle = oracle

    def find(self, missing: MissingCapacity | None) -> Completions:
        """The holders that must end; empty if no sufficient set is found."""
        domain = missing.domain if missing is not None else ()
        able = {kind for kind, reach in self._reach.items() if self._bounds.is_enough(reach)}
        singles = [
            holder
            for holder in self._candidates.holders
            if holder.kind in able and self._bounds.may_gain(holder) and self._bounds.allow([holder])
        ]
        singles.sort(key=lambda holder: self._order(holder, domain))
        for holder in singles[:ENDINGS_TRIED_MAX]:
            if self._fits_without([holder]):
                return (holder,)
        for pair in islice(self._pairs(), ENDING_PAIRS_TRIED_MAX):
            if self._fits_without(pair):
                return pair
        return self._sufficient_set(missing)

    def _order(self, holder: CapacityHolder, domain: Path) -> tuple[bool, bool, int, bool, Cost]:
        """Those that end by themselves first, then those that repel the demand or that it avoids, then the
        smallest in the domain that lacks least."""
        repels, is_elsewhere = self._repels(holder), not self._is_in(holder, domain)
        return (not holder.is_terminating, not repels, holder.cost[0], is_elsewhere, holder.cost)

    def _repels(self, holder: CapacityHolder) -> bool:
        """Whether anti-affinity concerns pods of the holder and of the demand, in either direction."""
        theirs = [pod.shape.affinity_state for pod in holder.pods]
        return any(
            not frozenset(mine.anti_affinity).isdisjoint(other.matched_by)
            or not frozenset(other.anti_affinity).isdisjoint(mine.matched_by)
            for other in theirs
            for mine in self._states
            if other is not None
        )

    def _may_suffice(self, *ended: CapacityHolder) -> bool:
        """Whether the bounds allow that the end of these is enough."""
        reaches = [self._reach[holder.kind] for holder in ended]
        return self._bounds.is_enough(*reaches) and self._bounds.allow(ended)

    def _is_in(self, holder: CapacityHolder, domain: Path) -> bool:
        return any(self._bounds.domain_of(node) == domain for node in holder.used)

    def _fits_without(self, ended: Sequence[CapacityHolder]) -> bool:
        """Whether a placement exists after these have ended."""
        with self._session.statement() as statement:
            for holder in ended:
                statement.assume_ended(
                    queue=holder.queue, used=holder.used, booked=holder.booked, gone=holder.pods
                )
            problem = self._builder.build_problem(self._demand).problem
            statement.roll_back()
        return self._oracle.fits(feasibility_problem(problem)) is True

    def _pairs(self) -> Iterator[Completions]:
        """Pairs that the bounds allow, the cheapest first."""
        pairs: dict[tuple[str, str], Completions] = {}
        for candidates in self._paired():
            for one, other in combinations(sorted(candidates, key=_cost), 2):
                pairs[one.key, other.key] = (one, other)
        likely = [
            pair
            for pair in pairs.values()
            if self._bounds.is_enough(*(self._reach[holder.kind] for holder in pair))
        ]
        likely.sort(key=lambda pair: (sum(holder.cost[0] for holder in pair), pair[0].cost, pair[1].cost))
        return (pair for pair in likely[:ENDING_PAIRS_COUNTED_MAX] if self._bounds.allow(pair))

    def _paired(self) -> Iterator[list[CapacityHolder]]:
        """Holders to pair: users of the exceeded limits, and those that free most in the best domains."""
        if self._bounds.over:
            yield self._by_limits()[:ENDING_PAIRED_MAX]
        counts = Counter(holder.kind for holder in self._candidates.holders)
        two_each = [reach for kind, reach in self._reach.items() for _ in range(min(2, counts[kind]))]
        most = [sorted(reaches)[-2:] for reaches in zip(*two_each, strict=True)]
        if not self._bounds.is_enough(*zip(*most, strict=True)):
            return
        for domain in self._bounds.nearest_domains(ENDING_DOMAINS_MAX):
            yield self._freeing_most(domain)[:ENDING_PAIRED_MAX]

    def _freeing_most(self, domain: Path) -> list[CapacityHolder]:
        """Holders in this domain; those whose end lets most pods fit there come first."""
        if domain not in self._most:
            there = self._candidates.on(self._bounds.nodes_in(domain))
            sums = {kind: sum(reach) for kind, reach in self._reach.items()}
            some = nsmallest(
                2 * ENDING_PAIRED_MAX, there, key=lambda holder: (-sums[holder.kind], holder.cost)
            )
            self._most[domain] = sorted(
                some, key=lambda holder: (-self._bounds.gain(holder, domain), holder.cost)
            )
        return self._most[domain]

    def _by_limits(self) -> list[CapacityHolder]:
        """Holders that use the exceeded limits, the largest users first."""
        sharing = [holder for holder in self._candidates.holders if self._bounds.shares_limits(holder)]
        over = self._bounds.over

        def key(holder: CapacityHolder) -> tuple[int, Cost]:
            booked = holder.total_booked
            used = sum(_SHARE * min(booked.get(name, 0), more) // more for name, more in over.items())
            return (-used, holder.cost)

        return sorted(sharing, key=key)

    def _sufficient_set(self, missing: MissingCapacity | None) -> Completions:
        """A sufficient set, without the holders that turn out to be unnecessary."""
        for order in self._orders(missing):
            if self._may_suffice(*order):
                chosen = self._first_sufficient(order)
                if chosen:
                    return self._without_unnecessary(chosen)
        return ()

    def _orders(self, missing: MissingCapacity | None) -> Iterator[list[CapacityHolder]]:
        """Orders in which to end holders: users of the limits, holders of missing amounts, then by domain."""
        users = self._by_limits()[:ENDINGS_NEEDED_MAX] if self._bounds.over else []
        counts = range(len(users))
        enough = next((count for count in counts if self._bounds.satisfy_limits(users[:count])), len(users))
        first = [
            *users[:enough],
            *(_cover(self._candidates, missing.capacity) if missing is not None else ()),
        ]
        for domain in self._bounds.nearest_domains(ENDING_DOMAINS_MAX):
            order = {holder.key: holder for holder in (*first, *self._freeing_most(domain))}
            yield list(order.values())[:ENDINGS_NEEDED_MAX]

    def _first_sufficient(self, order: Sequence[CapacityHolder]) -> Completions:
        counts = range(1, len(order) + 1)
        return next(
            (
                tuple(order[:count])
                for count in counts
                if self._may_suffice(*order[:count]) and self._fits_without(order[:count])
            ),
            (),
        )

    def _without_unnecessary(self, chosen: Completions) -> Completions:
        found = necessary(
            sorted(chosen, key=_cost, reverse=True),
            lambda fewer: self._may_suffice(*fewer) and self._fits_without(fewer),
        )
        return tuple(found[::-1])


def _cover(candidates: _Candidates, capacity: Sequence[NodeCapacity]) -> list[CapacityHolder]:
    """Greedy set cover of the missing amounts; empty if it fails."""
    missing = {(found.node, name): amount for found in capacity for name, amount in found.amounts.items()}
    wanted = {found.node: found.amounts for found in capacity}
    holders = sorted(candidates.on(wanted), key=_cost)
    held = {index: _of_wanted(holder, wanted) for index, holder in enumerate(holders)}
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
    """The amounts that the holder has of those missing on these nodes."""
    return {
        (node, name): amounts[name]
        for node, amounts in holder.used.items()
        for name in wanted.get(node, ())
        if name in amounts
    }


def _covered(held: Amounts, missing: Amounts) -> int:
    """The covered part of the missing amounts, the sum of thousandths of each."""
    return sum(
        _SHARE * min(amount, missing[key]) // missing[key] for key, amount in held.items() if key in missing
    )


def _cost(holder: CapacityHolder) -> Cost:
    return holder.cost
