"""Advise: search advice on refused gangs after a cycle, one search at a time.

The verdicts of the cycle have a reason and evidence. A search decides again for changed clusters and gangs,
which takes longer than everything else in a cycle, so no cycle waits for it.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.actions.verdicts import explained, in_turn, with_evidence
from phalanx.framework.retry import ADVICE_RENEWAL_MS
from phalanx.model.decisions import Advised
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory, Refusal
from phalanx.model.reasons import Objection

_AFTER_ERROR: Final = (
    "See the evidence; which change is enough is unknown after a scheduler error (see its log)"
)


class _Pending(Struct, frozen=True):
    """A refusal that lacks advice."""

    gang: Gang
    refusal: Refusal


class Adviser:
    """The searches after one cycle. The queues take turns; each begins with the gang that waits longest."""

    def __init__(self, cycle: Cycle, memory: Memory) -> None:
        """`memory`: of the result of the cycle."""
        self._cycle = cycle
        self._memory = memory

    @property
    def has_refusals(self) -> bool:
        """Whether gangs are refused."""
        return any((self._memory.refusals, *self._memory.refused_starts.values()))

    @cached_property
    def _queue(self) -> list[_Pending]:
        """The next one is the last."""
        self._cycle.explainer.begin_advice()
        oldest_first = sorted(self._all_pending(), key=lambda each: each.refusal.advice_pending_since or 0)
        in_turns = in_turn(oldest_first, lambda each: each.gang.queue, self._cycle.session.cycle)
        return list(in_turns)[::-1]

    def search(self) -> Advised | None:
        """Search advice on one gang, and on those after it that share the answer; None if all have some."""
        if not self._queue:
            return None
        cycle, explainer, refusals = self._cycle, self._cycle.explainer, dict(self._memory.refusals)
        searches, errors, is_new = explainer.count, len(cycle.outcome.errors), False
        while self._queue and explainer.count == searches:
            pending = self._queue.pop()
            refusal = self._advised(pending)
            is_new |= refusal.verdict != pending.refusal.verdict
            if pending.gang.id in refusals:
                refusals[pending.gang.id] = refusal
            else:
                cycle.backlog.learn(pending.gang, refusal)
        self._memory = replace(self._memory, refusals=refusals, refused_starts=cycle.backlog.refusals())
        found = (*cycle.outcome.errors[errors:], *cycle.answers.take_errors())
        return Advised(self._memory, is_new, (*found, *cycle.session.hooks.errors.messages))

    def _all_pending(self) -> Iterator[_Pending]:
        """In the order of the cycle, then those that it did not look at."""
        memory, failures = self._memory, self._cycle.outcome.failures
        pending = {
            gang: refusal
            for refusals in (memory.refusals, *memory.refused_starts.values())
            for gang, refusal in refusals.items()
            if refusal.advice_pending_since is not None and self._may_be_renewed(refusal)
        }
        first = [name for name in failures if name in pending]
        for name in dict.fromkeys((*first, *pending)):
            gang, refusal = self._cycle.backlog.snapshot.gangs.get(name), pending[name]
            if gang is not None and self._holds(gang, refusal):
                yield _Pending(gang, refusal)

    def _may_be_renewed(self, refusal: Refusal) -> bool:
        before = refusal.advised_at
        return before is None or self._cycle.session.snapshot.now >= before + ADVICE_RENEWAL_MS

    def _holds(self, gang: Gang, refusal: Refusal) -> bool:
        inputs, keys = self._cycle.backlog.inputs, self._memory.retry_keys
        return refusal.basis == inputs.basis(gang.queue, refusal.helped_by, refusal.resource, keys)

    def _advised(self, pending: _Pending) -> Refusal:
        """The refusal with advice. There is no other search after an error."""
        cycle, demand = self._cycle, self._demand_of(pending.gang)
        diagnosis = None
        if demand is not None:
            diagnosis = cycle.outcome.isolate_errors(
                lambda: cycle.explainer.explain(demand, may_solve=True), about=f"what helps {pending.gang}"
            )
        verdict = replace(pending.refusal.verdict, next_step=_AFTER_ERROR)
        if demand is not None and diagnosis is not None:
            verdict = with_evidence(explained(demand, diagnosis, cycle.session), pending.refusal.protection)
        now = cycle.session.snapshot.now
        return replace(
            pending.refusal, verdict=verdict, advice_pending_since=None, advised_at=now, protection=()
        )

    def _demand_of(self, gang: Gang) -> Demand | None:
        """The refused demand of the gang; of a gang that the cycle did not look at, that to start."""
        session, failures = self._cycle.session, self._cycle.outcome.failures
        if gang.id in failures:
            return failures[gang.id].demand
        if gang.id not in session.gangs:
            session.add_gangs((gang,))
        seen = session.gangs[gang.id]
        demands = demands_of(seen, session.records.of(seen), session.can_run)
        return demands[0] if not isinstance(demands, Objection) and demands else None
