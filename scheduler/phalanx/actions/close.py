"""Build the result of a cycle: decisions, reports on queues, and the memory for the next cycle."""

from collections.abc import Mapping

from msgspec.structs import replace

from phalanx.actions import gang_records
from phalanx.actions.backlog import results
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand_queue import rank_changes_at
from phalanx.actions.explanations import start_messages
from phalanx.actions.reservations import capacity_holds, overdue
from phalanx.actions.reservations.backfill import reserved_starts_of
from phalanx.actions.reservations.capacity_holds import CapacityHolds
from phalanx.framework.decay import decayed
from phalanx.framework.queues.unserved_guarantees import unserved_guarantees
from phalanx.framework.retry import EVICTION_CHECK_MS, PLUGIN_ERROR_RETRY_MS
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.limits import PAST_USAGE_REPORT_PERIOD_MS
from phalanx.model.decisions import CycleResult, CycleStats, Evict, EvictionReason, QueueReport
from phalanx.model.gangs import Gang
from phalanx.model.named_parts import plain
from phalanx.model.names import QueueName
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Reason
from phalanx.model.resources import NONE, Resources


def result_of(cycle: Cycle) -> CycleResult:
    """The result of the cycle; its mappings are sorted by key."""
    session = cycle.session
    reported = _reported_usage(session)
    holds = capacity_holds.after(session, cycle.capacity_holds)
    let_in = overdue.remembered(session, cycle.outcome.let_in)
    records = gang_records.after(session, cycle.outcome, let_in)
    known = results.remembered(session, cycle.backlog, cycle.refusals(), cycle.refused, cycle.memory)
    verdicts = start_messages.verdicts_of(session, cycle.outcome)
    verdicts = results.verdicts(verdicts, cycle.backlog, session)
    _ask_for_cycles(cycle, holds)
    for at in overdue.wake_times(let_in, session.now):
        cycle.wake_at(at)
    withdrawn = _withdrawn(session)
    return CycleResult(
        cycle=session.cycle,
        placements=records.of_placements(session.placements),
        evictions=_without_those(session.evictions, withdrawn),
        withdrawn=withdrawn,
        nominations=cycle.nominated,
        plans=cycle.plans,
        verdicts=verdicts,
        queues=_reports(cycle, reported),
        memory=replace(
            cycle.memory,
            refusals=known.refusals,
            refused_starts=known.refused_starts,
            turns=known.turns,
            resting_turns=known.resting_turns,
            retry_keys=cycle.retry_keys(),
            compositions=dict(sorted(holds.compositions.items())),
            records=records.records,
            seen_members=records.seen,
            avoided=cycle.node_failures.avoided,
            failed=cycle.node_failures.failed,
            deleting_members=cycle.node_failures.deleting,
            scores=cycle.node_failures.scores,
            reserved_starts=reserved_starts_of(cycle.outcome.reserved),
            let_in=let_in,
            nodes=session.health.records,
            past_usage=_past_usage(session),
            reported_usage=reported,
        ),
        wake_at=cycle.next_wake,
        stats=_stats(cycle),
    )


def _withdrawn(session: Session) -> tuple[Evict, ...]:
    """The victims that wait for devices: no bind of their gang was sent."""
    chosen = [each for each in session.evictions if each.reason is EvictionReason.PREEMPTED]
    gangs = map(session.gangs.get, dict.fromkeys(each.gang for each in chosen))
    awaiting = {pod.uid for gang in gangs if gang for pod in gang.members if pod.awaits_devices}
    return tuple(each for each in chosen if each.pod in awaiting)


def _without_those(evictions: tuple[Evict, ...], some: tuple[Evict, ...]) -> tuple[Evict, ...]:
    gone = {each.pod for each in some}
    return tuple(each for each in evictions if each.pod not in gone) if gone else evictions


def _ask_for_cycles(cycle: Cycle, holds: CapacityHolds) -> None:
    """Request cycles at times for which no single step is responsible."""
    session, backlog, now = cycle.session, cycle.backlog, cycle.session.snapshot.now
    missed = start_messages.next_missed(session)
    for at in (holds.wake_at, session.health.wake_at, missed, backlog.next_wake, backlog.next_turn):
        cycle.wake_at(at)
    backlog.note_placements(session.placements)
    cycle.is_complete &= backlog.is_complete and not backlog.is_outdated(cycle.retry_keys())
    cycle.is_complete &= not backlog.keeps_some or bool(session.hooks.errors.messages)
    placed = [each.gang for each in session.placements]
    cycle.is_complete &= not backlog.has_equal_after(placed) and not backlog.has_more_after(placed)
    for reservation in cycle.outcome.reserved:
        for at in (reservation.start, reservation.moves_from):
            if at > now:
                cycle.wake_at(at)
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
        gangs_tried=len(outcome.tried),
        gangs_placed=len({placement.gang for placement in placements}),
        pods_placed=sum(len(placement.binds) for placement in placements),
        solves=dict(sorted(outcome.solves.items())),
        errors=tuple(map(plain, (*outcome.errors, *session.hooks.errors.messages))),
        inconclusive=outcome.inconclusive,
        breaker=session.health.open_reason,
        faulty_nodes=len(session.faults),
        failure_scores={
            node: decayed(each.score, now - each.at, half_life)
            for node, each in cycle.node_failures.scores.items()
        },
    )


def _reports(cycle: Cycle, reported: Mapping[QueueName, PastUsage]) -> dict[str, QueueReport]:
    """For each queue with its descendants, the usage and the waiting gangs and pods after this cycle."""
    session = cycle.session
    gangs: dict[str, int] = {queue.name: 0 for queue in session.queues}
    pods = dict(gangs)
    seen = [gang for gang in session.gangs.values() if gang.has_waiting and _is_accepted(gang, session)]
    counts = [(gang.queue, 1, _waiting_pods(gang, session)) for gang in seen]
    for name, selection in cycle.backlog.selections.items():
        counts.append((name, *selection.unseen_counts))
    for name, gang_count, pod_count in counts:
        for queue in session.queues.path(name) if pod_count else ():
            gangs[queue.name] += gang_count
            pods[queue.name] += pod_count
    kept = session.held_usage()
    shares = {queue.name: session.fair_shares.of(queue.name) for queue in session.queues}
    unserved = unserved_guarantees(session)
    return {
        queue.name: QueueReport(
            allocated=_without(session.ledger.usage(queue.name), kept.get(queue.name, NONE)),
            pending_gangs=gangs[queue.name],
            pending_pods=pods[queue.name],
            problems=queue.problems,
            guarantee=dict(sorted(shares[queue.name].guarantee.items())),
            fair_share=dict(sorted(shares[queue.name].fair_share.items())),
            unmet_guarantees=(
                *unserved.get(queue.name, ()),
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


def _waiting_pods(gang: Gang, session: Session) -> int:
    return sum(1 for pod in gang.members if session.pod_state(pod) is PodState.WAITING)


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
