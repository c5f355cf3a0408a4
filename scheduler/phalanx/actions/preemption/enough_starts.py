"""Find out whether giving up starts of this cycle is enough for a demand, so that nothing has to be moved."""

from collections.abc import Container
from functools import cached_property

from phalanx.actions.demands.demand import Demand, beneficiary_of
from phalanx.actions.outcome import Outcome
from phalanx.actions.preemption.eviction_limits import limits_of
from phalanx.actions.preemption.least_evictions import LeastEvictions
from phalanx.actions.preemption.starts import StartPool, goes_before
from phalanx.actions.preemption.victim_search import VictimCandidates, VictimSearch
from phalanx.actions.reservations.reservations import alternatives, binding
from phalanx.framework.config import ActionName
from phalanx.framework.session import Session
from phalanx.model.names import GangId


class EnoughStarts:
    """Searches starts for the demands of one session."""

    def __init__(self, session: Session, outcome: Outcome, *, moved: Container[GangId]) -> None:
        """`moved`: gangs that are moved. Their starts are not given up."""
        self._session = session
        self._outcome = outcome
        self._moved = moved
        self._is_possible = bool(outcome.steps) and ActionName.PREEMPT in session.config.actions

    def fit(self, demand: Demand) -> bool:
        """Whether the demand fits at once if starts are given up that it may evict.

        Starts that go before it in the order of their queue do not count: they are given up only where a gang
        would be evicted otherwise.
        """
        if not self._is_possible:
            return False
        session, beneficiary = self._session, beneficiary_of(demand)
        starts = [
            start
            for start in self._pool.starts_for(beneficiary)
            if not goes_before(start.gang, demand.gang, session)
        ]
        if not starts:
            return False
        candidates = VictimCandidates(
            starts,
            session.hooks.queue_eviction_limits(beneficiary),
            limits_of(session, ()),
            LeastEvictions(session.hooks.least_evictions(beneficiary)),
        )
        bound = binding(self._outcome.reserved, demand, session)
        with session.respecting_nominations(demand.gang):
            found = self._search.search(list(alternatives(bound, demand, session)), demand, candidates)
        return found.plan is not None

    @cached_property
    def _pool(self) -> StartPool:
        return StartPool(self._session, self._outcome, moved=self._moved)

    @cached_property
    def _search(self) -> VictimSearch:
        return VictimSearch(self._session)
