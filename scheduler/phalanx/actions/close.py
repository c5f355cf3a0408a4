"""Build the result of a cycle: decisions, reports on queues, and the memory for the next cycle."""

from collections.abc import Mapping

from msgspec.structs import replace

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand_queue import rank_changes_at
from phalanx.actions.explanations import start_messages
from phalanx.actions.reservations import capacity_holds
from phalanx.actions.reservations.backfill import reserved_starts_of
from phalanx.actions.reservations.capacity_holds import CapacityHolds
from phalanx.framework.decay import decayed
from phalanx.framework.retry import EVICTION_CHECK_MS, PLUGIN_ERROR_RETRY_MS
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.limits import PAST_USAGE_REPORT_PERIOD_MS
from phalanx.model.decisions import CycleResult, CycleStats, QueueReport
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Reason
from phalanx.model.resources import NONE, Resources


def result_of(cycle: Cycle) -> CycleResult:
    """The result of the cycle; its mappings are sorted by key."""
    session = cycle.session
    reported = _reported_usage(session)
    holds = capacity_holds.after(session, cycle.capacity_holds)
    _ask_for_cycles(cycle, holds)
    return CycleResult(
        cycle=session.cycle,
        placements=session.placements,
        evictions=session.evictions,
        nominations=cycle.nominated,
        plans=cycle.plans,
        verdicts=start_messages.verdicts_of(session, cycle.outcome),
        queues=_reports(session, reported),
        memory=replace(
            cycle.memory,
            compositions=dict(sorted(holds.compositions.items())),
            avoided=cycle.node_failures.avoided,
            failed=cycle.node_failures.failed,
            deleting_members=cycle.node_failures.deleting,
            scores=cycle.node_failures.scores,
            reserved_starts=reserved_starts_of(cycle.outcome.reserved),
            nodes=session.health.records,
            past_usage=_past_usage(session),
            reported_usage=reported,
        ),
        wake_at=cycle.next_wake,
        stats=_stats(cycle),
    )


def _ask_for_cycles(cycle: Cycle, holds: CapacityHolds) -> None:
    """Request cycles at times for which no single step is responsible."""
    session, now = cycle.session, cycle.session.snapshot.now
    for at in (holds.wake_at, session.health.wake_at, start_messages.next_missed(session)):
        cycle.wake_at(at)
    for reservation in cycle.outcome.reserved:
        if reservation.start > now:
            cycle.wake_at(reservation.start)
    for gang in cycle.outcome.blocked_gangs:
        cycle.wake_at(rank_changes_at(gang, session))
    cycle.wake_at(session.hooks.wake_at(now))
    if session.evictions:
        cycle.wake_at(now + EVICTION_CHECK_MS)
    if session.hooks.errors.messages:
        cycle.wake_at(now + PLUGIN_ERROR_RETRY_MS)


def _stats(cycle: Cycle) -> CycleStats:
    session, outcome = cycle.session, cycle.outcome
    now, half_life = session.snapshot.now, session.config.tolerance.failure_half_life_ms
    placements = session.placements
    return CycleStats(
        gangs_tried=outcome.tried,
        gangs_placed=len({placement.gang for placement in placements}),
        pods_placed=sum(len(placement.binds) for placement in placements),
        solves=dict(sorted(outcome.solves.items())),
        errors=(*outcome.errors, *session.hooks.errors.messages),
        inconclusive=outcome.inconclusive,
        breaker=session.health.open_reason,
        failure_scores={
            node: decayed(each.score, now - each.at, half_life)
            for node, each in cycle.node_failures.scores.items()
        },
    )


def _reports(session: Session, reported: Mapping[QueueName, PastUsage]) -> dict[str, QueueReport]:
    """For each queue with its descendants, the usage and the waiting gangs and pods after this cycle."""
    gangs: dict[str, int] = {queue.name: 0 for queue in session.queues}
    pods = dict(gangs)
    for gang in [gang for gang in session.waiting if _is_accepted(gang, session)]:
        waiting = sum(1 for pod in gang.members if session.pod_state(pod) is PodState.WAITING)
        for queue in session.queues.path(gang.queue) if waiting else ():
            gangs[queue.name] += 1
            pods[queue.name] += waiting
    kept = session.held_usage()
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
            past=reported.get(queue.name),
        )
        for queue in session.queues
    }


def _is_accepted(gang: Gang, session: Session) -> bool:
    """Whether its queue accepts its namespace: nobody else's gangs count in the status of a queue."""
    verdict = session.verdicts.get(gang.id)
    return verdict is None or verdict.reason is not Reason.NAMESPACE_NOT_ALLOWED


def _past_usage(session: Session) -> dict[QueueName, PastUsage]:
    past = session.past_usage.items()
    return {name: replace(each, using=session.ledger.usage(name)) for name, each in past}


def _reported_usage(session: Session) -> dict[QueueName, PastUsage]:
    """The past usage in the status of queues, which is written only from time to time."""
    reported = session.snapshot.memory.reported_usage
    oldest = session.snapshot.now - PAST_USAGE_REPORT_PERIOD_MS
    return {
        name: reported[name] if name in reported and reported[name].at > oldest else past
        for name, past in session.past_usage.items()
    }


def _without(usage: Resources, kept: Resources) -> dict[str, int]:
    rest = {name: amount - kept.get(name, 0) for name, amount in sorted(usage.items())}
    return {name: amount for name, amount in rest.items() if amount or name not in kept}
