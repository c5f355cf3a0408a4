"""Step 6: put together what the cycle decided, what it saw of the queues, and what the next one needs."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from phalanx.actions.consolidate import Consolidated
from phalanx.actions.demands.demand_queue import rank_changes_at
from phalanx.actions.explanations import start_messages
from phalanx.actions.limits import EVICTION_CHECK_MS
from phalanx.actions.node_failures import NodeFailures
from phalanx.actions.outcome import Outcome
from phalanx.actions.preempt import Preempted
from phalanx.actions.recover import Recovered
from phalanx.actions.release import Released
from phalanx.actions.reservations.backfill import promises_of
from phalanx.actions.reservations.capacity_holds import CapacityHolds
from phalanx.actions.verdicts import Explained
from phalanx.framework.decay import decayed
from phalanx.framework.kept_room import held_usage
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.limits import PAST_USAGE_REPORT_PERIOD_MS
from phalanx.model.decisions import CycleResult, CycleStats, QueueReport
from phalanx.model.memory import Memory
from phalanx.model.names import QueueName
from phalanx.model.queues import PastUsage
from phalanx.model.resources import NONE, Resources


def execute(
    session: Session,
    *,
    outcome: Outcome,
    released: Released,
    recovered: Recovered,
    preempted: Preempted,
    consolidated: Consolidated,
    claims: CapacityHolds,
    failures: NodeFailures,
    explained: Explained,
) -> CycleResult:
    """The result, with everything in the order of its key or of its decision."""
    placements = session.placements
    told = _told_usage(session)
    starts = (each.start for each in outcome.reserved if each.start > session.snapshot.now)
    ends = (
        released.wake_at,
        recovered.wake_at,
        preempted.wake_at,
        consolidated.wake_at,
        claims.wake_at,
        session.health.wake_at,
        start_messages.next_missed(session),
        *starts,
        *(rank_changes_at(gang, session) for gang in outcome.blocked_gangs),
    )
    return CycleResult(
        cycle=session.cycle,
        placements=placements,
        evictions=session.evictions,
        nominations=preempted.nominated,
        plans=consolidated.plans,
        verdicts=start_messages.verdicts_of(session, outcome),
        queues=_reports(session, told),
        memory=Memory(
            cycle=session.cycle,
            refusals=dict(sorted(explained.refusals.items())),
            partial_since=dict(sorted(released.partial_since.items())),
            member_losses=dict(sorted(recovered.member_losses.items())),
            nominations=preempted.nominations,
            preempted=preempted.preempted,
            candidate_queues=preempted.candidate_queues,
            postponed=preempted.postponed,
            moves=consolidated.moves,
            next_move_search=consolidated.next_move_search,
            proposed_plans=consolidated.proposed_plans,
            seated=dict(sorted(claims.seated.items())),
            avoided=failures.avoided,
            failed=failures.failed,
            leaving=failures.leaving,
            scores=failures.scores,
            reserved_starts=promises_of(outcome.reserved),
            nodes=session.health.records,
            past_usage=_past_usage(session),
            reported_usage=told,
        ),
        wake_at=_wake_at(session, ends) if explained.is_complete else session.snapshot.now,
        stats=_stats(session, outcome, failures),
    )


def _wake_at(session: Session, ends: Iterable[int | None]) -> int | None:
    """When the next of these times comes, a hold of a pod ends, or an eviction should have come to pass."""
    now = session.snapshot.now
    pods = (pod for gang in session.waiting for pod in gang.members if pod.is_waiting)
    holds = [
        pod.bind_backoff.until
        for pod in pods
        if pod.bind_backoff is not None and pod.bind_backoff.until > now
    ]
    checks = [now + EVICTION_CHECK_MS] if session.evictions else []
    return min([*holds, *checks, *(end for end in ends if end is not None)], default=None)


def _stats(session: Session, outcome: Outcome, failures: NodeFailures) -> CycleStats:
    now, half_life = session.snapshot.now, session.config.tolerance.failure_half_life_ms
    placements = session.placements
    return CycleStats(
        gangs_tried=outcome.tried,
        gangs_placed=len({placement.gang for placement in placements}),
        pods_placed=sum(len(placement.binds) for placement in placements),
        solves=dict(sorted(outcome.solves.items())),
        errors=tuple(outcome.errors),
        inconclusive=outcome.inconclusive,
        breaker=session.health.open_reason,
        failure_scores={
            node: decayed(each.score, now - each.at, half_life) for node, each in failures.scores.items()
        },
    )


def _reports(session: Session, told: Mapping[QueueName, PastUsage]) -> dict[str, QueueReport]:
    """Per queue, its descendants included, what is used and what waits after this cycle."""
    gangs: dict[str, int] = {queue.name: 0 for queue in session.queues}
    pods = dict(gangs)
    for gang in session.waiting:
        waiting = sum(1 for pod in gang.members if session.pod_state(pod) is PodState.WAITING)
        for queue in session.queues.path(gang.queue) if waiting else ():
            gangs[queue.name] += 1
            pods[queue.name] += waiting
    kept = held_usage(session)
    shares = {queue.name: session.fair_shares.of(queue.name) for queue in session.queues}
    return {
        queue.name: QueueReport(
            allocated=_without(session.ledger.usage(queue.name), kept.get(queue.name, NONE)),
            pending_gangs=gangs[queue.name],
            pending_pods=pods[queue.name],
            problems=queue.problems,
            guarantee=dict(sorted(shares[queue.name].guarantee.items())),
            fair_share=dict(sorted(shares[queue.name].fair_share.items())),
            unmet_guarantees=(
                *session.fair_shares.problems(queue),
                *session.cells.lacking.get(queue.name, ()),
            ),
            past=told.get(queue.name),
        )
        for queue in session.queues
    }


def _past_usage(session: Session) -> dict[QueueName, PastUsage]:
    past = session.past_usage.items()
    return {name: replace(each, using=session.ledger.usage(name)) for name, each in past}


def _told_usage(session: Session) -> dict[QueueName, PastUsage]:
    """What the status of queues says of their past; to write it anew in each cycle would help nobody."""
    told = session.snapshot.memory.reported_usage
    oldest = session.snapshot.now - PAST_USAGE_REPORT_PERIOD_MS
    return {
        name: told[name] if name in told and told[name].at > oldest else past
        for name, past in session.past_usage.items()
    }


def _without(usage: Resources, kept: Resources) -> dict[str, int]:
    rest = {name: amount - kept.get(name, 0) for name, amount in sorted(usage.items())}
    return {name: amount for name, amount in rest.items() if amount or name not in kept}
