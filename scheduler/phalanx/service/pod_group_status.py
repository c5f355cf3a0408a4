"""Compute the status of a PodGroup from its gang and the last report. Pure: the reporter writes it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.kube.api_fields import format_time, message_text
from phalanx.limits import CONDITION_MESSAGE_MAX_BYTES, RUN_TIME_NOTICE_MS
from phalanx.model.api.meta import Condition
from phalanx.model.api.pod_groups import (
    CertificateStatus,
    Counts,
    PlacementStatus,
    PodGroupStatus,
    StartStatus,
)
from phalanx.model.awaited_pods import is_awaited
from phalanx.model.conversion.conditions import DEGRADED, FIELDS_IGNORED, PREEMPTED, RUN_TIME_EXCEEDED
from phalanx.model.decisions import Placement
from phalanx.model.dialects.dialect import ReportedGang
from phalanx.model.gangs import Gang
from phalanx.model.memory import LetIn
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import NODES, Reason, Verdict
from phalanx.service.degraded import is_degraded, what_it_lacks

_PENDING: Final = "Pending"

SCHEDULED: Final = "Scheduled"
"""The condition that is True while minMember pods are bound or have succeeded."""


class GangReport(Struct, frozen=True):
    """What the last cycles decided about a gang."""

    verdict: Verdict | None = None
    placement: Placement | None = None
    position: int | None = None
    """Position among the waiting gangs of its queue."""
    releasing: bool = False
    """Whether its pods are being evicted."""
    preempted: str = ""
    """For whom all of it is evicted, and why."""
    late: LetIn | None = None
    """If it runs longer than its `runtime.max`, because of which it was placed before a reserved start."""


def status_of(gang: Gang, report: GangReport, *, before: PodGroupStatus, now_ms: int) -> PodGroupStatus:
    """Compute the whole status; the start time and the placement are taken over from `before`.

    A gang that starts over has not started, and its status must show this to the next leader. A gang that
    started and lost members before its first status was written has started.
    """
    counts = _counts(gang.members)
    started_at = None if gang.starts_over else before.started_at
    if started_at is None and (gang.started or gang.reaches_minimum):
        started_at = format_time(now_ms)
    verdict = report.verdict if counts.pending or _lacks_reserved(gang, report.verdict) else None
    started = started_at is not None
    phase = _phase(gang, counts, verdict, started=started, releasing=report.releasing)
    lacks = what_it_lacks(gang) if phase == DEGRADED else ""
    return PodGroupStatus(
        phase=phase,
        counts=_of_existing(gang.members, counts) if counts.pending else counts,
        conditions=(
            _scheduled(gang, phase, verdict, lacks, started=started, now_ms=now_ms),
            *_degraded(lacks, now_ms),
            *_fields_ignored(gang, now_ms),
            *_run_time_exceeded(report.late, now_ms),
            *(_preempted(report, before, now_ms) if phase in _WAITS else ()),
        ),
        reason=verdict.reason.value if verdict else Reason.MEMBERS_MISSING.value if lacks else None,
        message=verdict.message if verdict else lacks or None,
        next_step=(verdict.next_step or None) if verdict else None,
        placement=_placement(report.placement) or before.placement,
        certificate=_certificate(report.placement) or before.certificate,
        queue=gang.queue or None if gang.nodes else None,
        priority=gang.priority,
        queue_position=report.position if verdict else None,
        expected_start=_expected_start(verdict) if verdict else None,
        started_at=started_at,
    )


def reported_gang(gang: Gang, verdict: Verdict | None, *, now_ms: int) -> ReportedGang:
    """Compute what the status of a PodGroup of another dialect may say."""
    return ReportedGang(
        gang=gang,
        reason=verdict.reason.value if verdict is not None else "",
        message=_full_text(verdict) if verdict is not None else "",
        now=format_time(now_ms),
    )


def status_without_members(before: PodGroupStatus, report: GangReport, *, now_ms: int) -> PodGroupStatus:
    """Compute the status of a PodGroup without pods: a finished gang stays finished, any other is pending."""
    if before.phase in ("Finished", "Failed"):
        return msgspec.structs.replace(before, counts=Counts())
    waits = Condition(
        type=SCHEDULED,
        status="False",
        reason=_PENDING,
        message="the gang has no pods",
        last_transition_time=format_time(now_ms),
    )
    conditions = (waits, *_preempted(report, before, now_ms))
    return PodGroupStatus(phase=_PENDING, counts=Counts(), conditions=conditions)


def _of_existing(members: tuple[Pod, ...], counts: Counts) -> Counts:
    """The counts of members that exist. `counts`: those of all members."""
    existing = [pod for pod in members if not is_awaited(pod.uid)]
    return counts if len(existing) == len(members) else _counts(existing)


def _counts(members: Sequence[Pod]) -> Counts:
    """Count members by state; a member that is being deleted counts in `total` only."""
    found = {"pending": 0, "bound": 0, "running": 0, "succeeded": 0, "failed": 0}
    for pod in members:
        if pod.deleting:
            continue
        found[_state(pod)] += 1
    return Counts(total=len(members), **found)


def _state(pod: Pod) -> str:
    if pod.phase is PodPhase.SUCCEEDED:
        return "succeeded"
    if pod.phase is PodPhase.FAILED:
        return "failed"
    if pod.node is None or pod.assumed:
        return "pending"
    return "running" if pod.phase is PodPhase.RUNNING else "bound"


def _lacks_reserved(gang: Gang, verdict: Verdict | None) -> bool:
    """Whether members with reserved capacity were not created in time; no waiting pod shows this."""
    ended = verdict is not None and verdict.reason is Reason.RESERVATION_EXPIRED
    return ended and not gang.minimum.is_reached(gang.bound)


def _phase(gang: Gang, counts: Counts, verdict: Verdict | None, *, started: bool, releasing: bool) -> str:
    alive = counts.pending + counts.bound + counts.running
    if counts.succeeded >= gang.min_member and alive == 0:
        return "Finished"
    if counts.failed and alive == 0 and counts.succeeded + counts.failed == counts.total:
        return "Failed"
    if releasing:
        return "Releasing"
    if started:
        return DEGRADED if is_degraded(gang, verdict, started=True) else "Running"
    under_way = any(pod.holds_node and not pod.deleting for pod in gang.members)
    return "Scheduling" if under_way else _PENDING


_WAITS: Final = (_PENDING, "Scheduling", "Releasing")
"""The phases of a gang that has not started, or not again."""

_DONE: Final[Mapping[str, str]] = {
    "Running": "minMember pods are bound",
    "Finished": "the gang has finished",
    "Failed": "the gang has failed",
}


_RESERVED: Final = "the pods that existed at the start are bound; capacity is reserved for the others"


def _scheduled(
    gang: Gang, phase: str, verdict: Verdict | None, lacks: str, *, started: bool, now_ms: int
) -> Condition:
    """Compute the condition; a gang whose members failed below the minimum was never scheduled."""
    done = _DONE.get(phase)
    if done is not None and started:
        status, reason, message = "True", phase, done
        if gang.reserves and phase == "Running" and not gang.minimum.is_reached(gang.bound):
            message = _RESERVED if verdict is None else _full_text(verdict)
    elif verdict is not None:
        status, reason, message = "False", verdict.reason.value, _full_text(verdict)
    else:
        status, reason, message = "False", phase, done or lacks
    return Condition(
        type=SCHEDULED,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=format_time(now_ms),
    )


def _degraded(lacks: str, now_ms: int) -> Iterator[Condition]:
    if lacks:
        yield Condition(
            type=DEGRADED,
            status="True",
            reason=Reason.MEMBERS_MISSING.value,
            message=message_text(lacks, CONDITION_MESSAGE_MAX_BYTES),
            last_transition_time=format_time(now_ms),
        )


def _fields_ignored(gang: Gang, now_ms: int) -> Iterator[Condition]:
    if gang.ignored:
        yield Condition(
            type=FIELDS_IGNORED,
            status="True",
            reason=FIELDS_IGNORED,
            message=message_text("; ".join(gang.ignored), CONDITION_MESSAGE_MAX_BYTES),
            last_transition_time=format_time(now_ms),
        )


def _run_time_exceeded(late: LetIn | None, now_ms: int) -> Iterator[Condition]:
    if late is not None:
        yield Condition(
            type=RUN_TIME_EXCEEDED,
            status="True",
            reason=RUN_TIME_EXCEEDED,
            message=(
                "it was placed before a reserved start because of its runtime.max, which has passed; from "
                f"{format_time(late.noticed + RUN_TIME_NOTICE_MS)} on it may be evicted for that start"
            ),
            last_transition_time=format_time(now_ms),
        )


def _preempted(report: GangReport, before: PodGroupStatus, now_ms: int) -> Iterator[Condition]:
    """The condition stays until the gang starts again, also for the next leader."""
    if report.preempted:
        message = f"{report.preempted}; the gang starts again when its pods exist and fit"
        yield Condition(
            type=PREEMPTED,
            status="True",
            reason=PREEMPTED,
            message=message_text(message, CONDITION_MESSAGE_MAX_BYTES),
            last_transition_time=format_time(now_ms),
        )
    else:
        yield from (each for each in before.conditions if each.type == PREEMPTED)


def _full_text(verdict: Verdict) -> str:
    """Message, next step, and evidence grouped by subject, as one text; what is cut off is evidence."""
    facts: dict[str, list[str]] = {}
    for item in verdict.evidence:
        finding = f"{item.count} {item.finding}" if item.subject.startswith(NODES) else item.finding
        facts.setdefault(item.subject, []).append(finding)
    evidence = "; ".join(f"{subject}: {', '.join(findings)}" for subject, findings in facts.items())
    *first, last = filter(None, (verdict.message, verdict.next_step, evidence))
    whole = ". ".join([*(part.rstrip(".") for part in first), last])
    return message_text(whole, CONDITION_MESSAGE_MAX_BYTES)


def _placement(placement: Placement | None) -> PlacementStatus | None:
    if placement is None or not placement.domain:
        return None
    return PlacementStatus(level=placement.level, domain=placement.domain)


def _expected_start(verdict: Verdict) -> StartStatus | None:
    start = verdict.start
    if start is None:
        return None
    at, earliest, latest = (format_time(time) for time in (start.at, start.earliest, start.latest))
    return StartStatus(at=at, earliest=earliest, latest=latest, method=start.method)


def _certificate(placement: Placement | None) -> CertificateStatus | None:
    if placement is None:
        return None
    proof = placement.certificate
    return CertificateStatus(
        proven=proof.proven, terms=proof.terms, objective=proof.objective, bound=proof.bound, by=proof.by
    )
