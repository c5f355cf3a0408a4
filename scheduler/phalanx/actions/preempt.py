"""Preempt: evict gangs so that others fit.

Victims are chosen together with the placement: the cheapest set of victims of the lowest priorities with
which the whole demand fits under all its rules. Nothing is evicted unless a placement follows. The freed
capacity is nominated for the gang (`preemption/nominations.py`). Starts of this cycle are given up first,
which costs nothing (`given_up_starts.py`).
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from phalanx.actions import formatting, given_up_starts
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, beneficiary_of, part_to_evict_for
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.outcome import Failure
from phalanx.actions.preemption import unfinished_evictions
from phalanx.actions.preemption.candidate_queues import CandidateQueueFinder
from phalanx.actions.preemption.decision import Decision
from phalanx.actions.preemption.eviction_limits import EvictionLimits, limits_of
from phalanx.actions.preemption.eviction_verdicts import eviction_in_progress
from phalanx.actions.preemption.evictions_in_progress import EvictionsInProgress, checked_at
from phalanx.actions.preemption.least_evictions import least_evictions
from phalanx.actions.preemption.nominations import nominate
from phalanx.actions.preemption.search_turns import SearchTurns
from phalanx.actions.preemption.starts import (
    Evictable,
    StartPool,
    evictable_without,
    goes_before,
    search_in_turn,
)
from phalanx.actions.preemption.victim_search import (
    EvictionPlan,
    SearchResult,
    VictimCandidates,
    VictimSearch,
)
from phalanx.actions.preemption.victims import (
    Victim,
    VictimPool,
    assume_terminated,
    not_taken,
    usage_of_pods,
)
from phalanx.actions.problems.capacity_holders import charged
from phalanx.actions.reservations import overdue
from phalanx.actions.reservations.reservations import Reservation, alternatives, binding, exchange
from phalanx.actions.yielding import Yielding
from phalanx.framework.evictable_pods import candidate
from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import NEVER
from phalanx.framework.statement import Statement
from phalanx.framework.states import GANG_TRANSITIONS, GangState, PodState
from phalanx.model.decisions import EvictionReason, Nominate
from phalanx.model.gangs import Gang
from phalanx.model.memory import CandidateQueues, Nomination
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence


def execute(cycle: Cycle) -> None:
    """Evict victims for failed demands, up to the limit of a cycle; not for gangs that are being moved."""
    step = _Preemption(cycle)
    if cycle.session.may_evict:
        step.repeat_evictions()
        step.finish_evictions()
        step.choose_victims()
    step.close()


class _Preemption:
    def __init__(self, cycle: Cycle) -> None:
        session, outcome, nominations = cycle.session, cycle.outcome, cycle.nominations
        self._cycle = cycle
        self._session = session
        self._retry = session.config.retry
        self._moves = cycle.moves
        self._outcome = outcome
        self._known = nominations
        self._yielding = Yielding(session, nominations, cycle.moves)
        self._decisions: dict[GangId, Decision] = {}
        self._started: dict[GangId, Decision] = {}
        """Those whose gang has started, in place of starts that were given up."""
        self._finished: dict[GangId, GangId] = {}
        self._postponed: dict[GangId, int] = {}
        self._known_infeasible: dict[Hashable, tuple[Evidence, ...]] = {}
        self._protected: dict[GangId, tuple[Evidence, ...]] = {}
        self._candidate_queues: dict[GangId, CandidateQueues] = {}
        placed = {placement.gang for placement in session.placements}
        self._in_progress = EvictionsInProgress(session, nominations, cycle.moves.is_moving)
        self._waiting = [
            gang
            for gang in nominations.open
            if gang in outcome.failures and gang not in placed and self._in_progress.is_being_freed(gang)
        ]

    @cached_property
    def _pool(self) -> VictimPool:
        return VictimPool(self._session)

    @cached_property
    def _starts(self) -> StartPool:
        return StartPool(self._session, self._outcome, moved=self._moves.open)

    def repeat_evictions(self) -> None:
        """Evict pods again whose eviction was decided and has not happened: a write may have been lost."""
        for gang_id in filter(self._in_progress.is_to_be_checked, self._still_nominated()):
            gang = self._session.gangs[gang_id]
            left = [
                pod
                for pod in self._known.victims_left(gang_id)
                if (pod.awaits_devices or not pod.assumed) and self._session.pod_state(pod) is PodState.BOUND
            ]
            self._evict(
                ((self._known.gang_of(pod), pod) for pod in left), gang, self._known.open[gang_id].causes
            )

    def finish_evictions(self) -> None:
        """Evict the rest of partly evicted gangs: an earlier leader stopped, or writes were lost."""
        self._finished = unfinished_evictions.finish(self._session, self._still_nominated())

    def choose_victims(self) -> None:
        """Decide as if all terminating pods had terminated; then evict."""
        with self._session.statement() as trial:
            assume_terminated(self._session, trial)
            for gang_id in self._still_nominated():
                self._assume_evicted(gang_id, trial)
            self._moves.hold_expected(trial)
            search: VictimSearch | None = None
            limits: EvictionLimits | None = None
            candidate_queues, failures = CandidateQueueFinder(self._session), self._outcome.failures.values()
            tried = [each for each in map(_to_evict_for, failures) if self._may_try(each, candidate_queues)]
            turns = SearchTurns(tried, since=lambda each: self._waiting_since(each.demand.gang.id))
            for failure in turns:
                search = search or VictimSearch(self._session)
                limits = limits or limits_of(self._session, self._victims_of_others())
                with self._session.respecting_nominations(failure.demand.gang):
                    self._try(failure.demand, search, limits, trial, turns)
            for failure in turns.left:
                self._postpone(failure.demand.gang.id)
            trial.roll_back()
        self._outcome.errors.extend(search.errors if search is not None else ())
        self._give_up_starts()
        for each in self._decisions.values():
            victims = ((victim.gang, pod) for victim in each.plan.evicted for pod in victim.pods)
            self._evict(victims, each.demand.gang, each.causes)

    def _give_up_starts(self) -> None:
        """Give starts up, and start the gangs for which nothing is evicted."""
        giving_up = {gang: each for gang, each in self._decisions.items() if each.plan.given_up}
        for each in giving_up.values():
            given_up_starts.give_up(self._cycle, each.plan.given_up, each.demand.gang, each.causes)
        for gang_id, each in giving_up.items():
            if not each.plan.evicted and self._starts_now(gang_id):
                self._started[gang_id] = self._decisions.pop(gang_id)
        if giving_up:
            given_up_starts.postpone_others(self._outcome)
            self._cycle.is_complete = False

    def _starts_now(self, gang_id: GangId) -> bool:
        """Whether the gang starts at once.

        It does not if it also needs what terminating pods hold, or if this cycle evicts or has refused
        members of it.
        """
        state = self._session.gang_state(self._session.gangs[gang_id])
        if GangState.PLACED not in GANG_TRANSITIONS[state]:
            return False
        others = [each for name, each in self._decisions.items() if name != gang_id]
        is_started = self._outcome.isolate_errors(
            lambda: given_up_starts.start_instead(self._cycle, self._decisions[gang_id], others),
            about=f"start of {self._decisions[gang_id].demand.gang}",
        )
        return bool(is_started)

    def close(self) -> None:
        """Write new and still valid nominations to the memory of the next cycle."""
        now = self._session.snapshot.now
        nominations = {gang: self._known.prolonged(gang) for gang in self._still_nominated()}
        nominations.update(self._failed_nominations())
        for gang_id, decision in self._decisions.items():
            nominations[gang_id] = decision.nomination(
                now, until=now + self._retry.nomination_ms, attempts=self._known.attempts(gang_id) + 1
            )
        for gang_id in nominations:
            self._set_verdict(gang_id)
        cycle = self._cycle
        preempted = self._preempted(nominations)
        cycle.memory = replace(
            cycle.memory,
            nominations=dict(sorted({**nominations, **cycle.memory.nominations}.items())),
            preempted=dict(sorted({**preempted, **cycle.memory.preempted}.items())),
            preemption_retry_at=dict(sorted(self._postponed.items())),
            candidate_queues=dict(sorted(self._candidate_queues.items())),
        )
        cycle.nominated = (*self._nominated(), *cycle.nominated)
        cycle.protected = self._protected
        cycle.wake_at(min((max(end, now) for end in self._ends(nominations)), default=None))

    def _ends(self, nominations: dict[GangId, Nomination]) -> Iterator[int]:
        """Times (ms) at which nominations expire, victims are searched again, or evictions are checked.

        Also now, if a nomination ended in this cycle: other gangs may have been refused because of it.
        """
        now, before = self._session.snapshot.now, self._session.snapshot.memory.nominations
        if any(before[gang].usage and not each.usage for gang, each in nominations.items() if gang in before):
            yield now
        yield from self._postponed.values()
        for each in nominations.values():
            if each.usage:
                yield each.until
                check = checked_at(each)
                yield check if check > now else each.until

    # --- the beneficiaries ----------------------------------------------------------------------------------

    def _still_nominated(self) -> list[GangId]:
        """Gangs that still wait for capacity that an earlier cycle nominated."""
        return [gang for gang in self._waiting if gang not in self._decisions]

    def _may_try(self, failure: Failure, candidate_queues: CandidateQueueFinder) -> bool:
        gang, now = failure.demand.gang, self._session.snapshot.now
        if failure.objection is not None or self._moves.is_served(gang.id):
            return False
        if gang.id in self._still_nominated():
            return False
        next_at = self._next_search_at(failure, candidate_queues.candidate_queues_of(failure.demand))
        if next_at is None or next_at > now:
            if next_at is not None:
                self._postponed[gang.id] = next_at
            return False
        if not failure.tried:
            self._postpone(gang.id)
            return False
        rests_until = self._known.rests_until(gang.id)
        if rests_until is not None:
            self._postponed[gang.id] = rests_until
            return False
        return True

    def _postpone(self, gang: GangId) -> None:
        """Postpone its search to the next cycle, and remember since when it waits for one."""
        self._postponed[gang] = self._waiting_since(gang)

    def _waiting_since(self, gang: GangId) -> int:
        now = self._session.snapshot.now
        return min(now, self._session.snapshot.memory.preemption_retry_at.get(gang, now))

    def _next_search_at(self, failure: Failure, candidate_queues: CandidateQueues) -> int | None:
        """The time (ms) of the next search for victims; None while nothing has changed since the last one."""
        gang, memory = failure.demand.gang.id, self._session.snapshot.memory
        before = memory.nominations.get(gang)
        lost_its_capacity = before is not None and bool(before.usage)
        has_late = overdue.exist_for(gang, self._session)
        if failure.remembered is None or lost_its_capacity or has_late:
            self._candidate_queues[gang] = candidate_queues
            return 0
        known = memory.candidate_queues.get(gang) or failure.remembered.searched or candidate_queues
        times = [
            memory.preemption_retry_at.get(gang, failure.remembered.search_at),
            self._retry.next_victim_search_at(candidate_queues, known),
        ]
        next_at = min((each for each in times if each is not None), default=None)
        is_now = next_at is not None and next_at <= self._session.snapshot.now
        self._candidate_queues[gang] = candidate_queues if is_now else known
        return next_at

    def _failed_nominations(self) -> dict[GangId, Nomination]:
        """Nominations without capacity, which remember the attempts of waiting gangs."""
        memory = self._session.snapshot.memory.nominations
        failed = self._outcome.failures
        now = self._session.snapshot.now
        return {
            gang: Nomination(
                {}, (), until=min(each.until, now) if each.usage else each.until, attempts=each.attempts
            )
            for gang, each in memory.items()
            if gang in failed and gang not in self._decisions and gang not in self._still_nominated()
        }

    def _try(
        self,
        demand: Demand,
        search: VictimSearch,
        limits: EvictionLimits,
        trial: Statement,
        turns: SearchTurns,
    ) -> None:
        gang, now = demand.gang, self._session.snapshot.now
        if gang.id in self._known.open:
            self._known.give_up(gang, trial)
        evictor = self._session.preempted.get(gang.id)
        # Age may raise a rank, which does not entitle to preempt; the priority does.
        rank = (rank_of(gang, self._session), gang.priority)
        bound = binding(self._outcome.reserved, demand, self._session)
        reserved_starts = tuple(each.gang for each in bound)
        key = (search.key(demand), rank, gang.preemption_policy, evictor, reserved_starts)
        if key in self._known_infeasible and not overdue.exist_for(gang.id, self._session):
            self._protected[gang.id] = self._known_infeasible[key]
            return
        beneficiary = beneficiary_of(demand)
        session, hooks, taken = self._session, self._session.hooks, self._victims_of_others()
        queue_limits, least = hooks.queue_eviction_limits(beneficiary), hooks.least_evictions(beneficiary)
        evictable = Evictable((), queue_limits)

        def victims() -> Sequence[Victim]:
            nonlocal evictable
            evictable = self._evictable_for(beneficiary, queue_limits, taken)
            return evictable.victims

        def find(some: Sequence[Victim]) -> SearchResult:
            both = queue_limits if all(each.is_start for each in some) else evictable.queue_limits
            enough = least_evictions(some, least, beneficiary, session)
            return self._search(demand, VictimCandidates(some, both, limits, enough), search, bound)

        units = self._pool.victims_for(beneficiary).victims if overdue.exist_for(gang.id, session) else ()
        late = not_taken(overdue.yielding(units, gang, session), taken)
        result = self._search(demand, VictimCandidates(late, (), limits), search, bound) if late else None
        if result is None or result.plan is None:
            starts = self._starts_for(demand, beneficiary, taken)
            result = search_in_turn(find, starts, victims, lambda each: goes_before(each.gang, gang, session))
        others = [each for each in evictable.victims if least and each.gang.id in session.evictable_pods]
        if result.plan is None and others:  # their capacity counts like free capacity: nothing must be freed
            instead = self._search(demand, VictimCandidates(others, (), limits), search, bound)
            result = instead if instead.plan is not None else result
        if result.plan is not None:
            self._decide(demand, result, beneficiary, reserved_starts)
            self._assume_decided(gang, result.plan, limits, trial)
            turns.succeeded()
            return
        turns.failed(len(evictable.victims))
        self._protected[gang.id] = (*result.protected, *self._delay(gang))
        later = [*limits.grows_at(evictable.victims)]
        later += [] if evictable.next_at is None else [evictable.next_at]
        if evictable.is_restricted:  # In the next cycle the starts count as running.
            self._postpone(gang.id)
        elif later:
            self._postponed[gang.id] = max(min(later), now + 1)
        else:
            self._known_infeasible[key] = result.protected

    def _delay(self, gang: Gang) -> Iterator[Evidence]:
        until = self._session.hooks.delayed_until(gang)
        if self._session.snapshot.now < until < NEVER:
            yield Evidence("evictions", f"none for this gang before {formatting.moment(until)}")

    def _evictable_for(
        self, beneficiary: Beneficiary, limits: Sequence[QueueEvictionLimit], taken: Collection[PodUid]
    ) -> Evictable:
        """What may be evicted, whether the cycle had started anything or not."""
        units = self._pool.victims_for(beneficiary)
        victims = not_taken(units.victims, taken)
        found = Evictable(victims, limits, units.next_at)
        recent = self._starts.decided(taken) if victims else []
        return evictable_without(recent, found, beneficiary, self._session) if recent else found

    def _starts_for(
        self, demand: Demand, beneficiary: Beneficiary, taken: Collection[PodUid]
    ) -> Sequence[Victim]:
        """The starts that may be given up, beside what is held and yields to the demand."""
        yielding = self._yielding.give_up_to(demand)
        starts = not_taken(self._starts.starts_for(beneficiary), taken)
        yielding.undo()
        return starts

    def _decide(
        self, demand: Demand, result: SearchResult, beneficiary: Beneficiary, reserved: Sequence[GangId]
    ) -> None:
        """Note the decision. `reserved`: the gangs whose reservations bind the demand."""
        plan = result.plan
        assert plan is not None
        causes = {each.gang.id: self._cause(each.gang, beneficiary) for each in plan.victims}
        not_respected = set(reserved) - set(result.respected)
        passed = tuple(sorted(not_respected | {each.gang.id for each in plan.given_up}))
        self._decisions[demand.gang.id] = Decision(demand, plan, causes, passed)

    def _assume_decided(
        self, gang: Gang, plan: EvictionPlan, limits: EvictionLimits, trial: Statement
    ) -> None:
        """Assume that the victims of the plan have terminated, and take their capacity for the gang."""
        for victim in plan.victims:
            limits.take(pod.uid for pod in victim.pods)
            trial.assume_ended(queue=victim.queue, used=victim.used, booked=victim.booked, gone=victim.pods)
        trial.nominate(
            queue=gang.queue, usage=plan.usage, booked=charged(plan.usage), expected=plan.assignments
        )

    def _victims_of_others(self) -> set[PodUid]:
        """Pods that are evicted already, in this cycle or before."""
        taken = {
            pod.uid
            for each in self._decisions.values()
            for victim in each.plan.victims
            for pod in victim.pods
        }
        taken.update(pod.uid for each in self._still_nominated() for pod in self._known.victims_left(each))
        taken.update(each.pod for each in self._session.evictions)
        return taken

    def _search(
        self,
        demand: Demand,
        candidates: VictimCandidates,
        search: VictimSearch,
        bound: Sequence[Reservation],
    ) -> SearchResult:
        """Search in what is free, and in what is held and yields to the demand."""
        yielding = self._yielding.give_up_to(demand)
        found = self._outcome.isolate_errors(
            lambda: search.search(
                list(alternatives(bound, demand, self._session)),
                demand,
                candidates,
                exchange(bound, demand, self._session),
            ),
            about=f"victims for {demand.gang}",
        )
        yielding.undo()
        return found or SearchResult()

    def _assume_evicted(self, gang_id: GangId, trial: Statement) -> None:
        """Assume that the remaining victims of a nomination have terminated, and take their capacity."""
        gang = self._session.gangs[gang_id]
        for pod in self._known.victims_left(gang_id):
            if self._session.pod_state(pod) is not PodState.RELEASING:
                victim = self._known.gang_of(pod)
                used, booked = usage_of_pods([pod], self._session)
                trial.assume_ended(queue=victim.queue, used=used, booked=booked, gone=[pod])
        self._known.hold_victims_capacity(gang, trial)

    # --- evictions, verdicts and nominations ----------------------------------------------------------------

    def _evict(
        self, victims: Iterable[tuple[Gang, Pod]], beneficiary: Gang, causes: Mapping[GangId, str]
    ) -> None:
        """Evict these pods, one statement per gang. A gang that is moved restarts in held capacity."""
        by_gang: dict[GangId, list[Pod]] = {}
        for gang, pod in victims:
            by_gang.setdefault(gang.id, []).append(pod)
        for gang_id, pods in by_gang.items():
            gang = candidate(gang_id, self._session)
            cause = causes.get(gang_id, "it restarts in reserved capacity")
            with self._session.statement() as statement:
                statement.evict(
                    gang=gang,
                    pods=pods,
                    reason=EvictionReason.CONSOLIDATED
                    if self._moves.is_moving(gang_id)
                    else EvictionReason.PREEMPTED,
                    message=formatting.evicted_for(beneficiary, cause),
                    beneficiary=str(beneficiary),
                )

    def _cause(self, victim: Gang, beneficiary: Beneficiary) -> str:
        """The cause of the eviction by the shares at this time; later decisions of this cycle change them."""
        return self._session.hooks.explain_eviction(victim, beneficiary)

    def _set_verdict(self, gang_id: GangId) -> None:
        """Set the verdict of a gang with nominated capacity."""
        gang = self._session.gangs.get(gang_id)
        pods: list[Pod] = []
        proof = ""
        if gang_id in self._decisions:
            plan = self._decisions[gang_id].plan
            pods, proof = [pod for victim in plan.evicted for pod in victim.pods], plan.proof
        elif gang_id in self._still_nominated():
            pods = self._known.victims_left(gang_id)
        if gang is None or not pods or gang_id in self._session.verdicts:
            return
        self._session.refuse(gang, eviction_in_progress(gang, pods, proof))

    def _preempted(self, nominations: dict[GangId, Nomination]) -> dict[GangId, GangId]:
        """Evicted gangs by beneficiary, until they are placed again or their eviction is given up."""
        placed = {placement.gang for placement in self._session.placements}
        found: dict[GangId, GangId] = {}
        for gang_id, by in self._session.preempted.items():
            gang = self._session.gangs.get(gang_id)
            if gang is None or gang_id in placed:
                continue
            stays = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
            if not stays or (by in nominations and by not in self._in_progress.withdrawn):
                found[gang_id] = by
        found.update(self._finished)
        for beneficiary, decision in (*self._started.items(), *self._decisions.items()):
            found.update({gang.id: beneficiary for gang in decision.plan.gangs_ended})
        return dict(sorted(found.items()))

    def _nominated(self) -> Iterator[Nominate]:
        for each in self._decisions.values():
            yield from nominate(each.plan.assignments, self._session.cycle)


def _to_evict_for(failure: Failure) -> Failure:
    return replace(failure, demand=part_to_evict_for(failure.demand))
