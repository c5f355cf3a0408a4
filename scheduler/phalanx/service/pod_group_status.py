"""The status of a PodGroup, computed from what is known of its gang. Pure; somebody else writes it."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.kube.text import shortened
from phalanx.kube.timestamps import format_time
from phalanx.limits import CONDITION_MESSAGE_MAX_BYTES
from phalanx.model.api.meta import Condition
from phalanx.model.api.pod_groups import (
    CertificateStatus,
    Counts,
    PlacementStatus,
    PodGroupStatus,
    StartStatus,
)
from phalanx.model.decisions import Placement
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import NODES, Reason, Verdict

_PENDING: Final = "Pending"

SCHEDULED: Final = "Scheduled"
"""The condition that is True once minMember pods are bound."""


class GangReport(Struct, frozen=True):
    """What the last cycles said about a gang. `position`: its place among the waiting gangs of its queue."""

    verdict: Verdict | None = None
    placement: Placement | None = None
    position: int | None = None
    releasing: bool = False


def status_of(gang: Gang, told: GangReport, *, before: PodGroupStatus, now_ms: int) -> PodGroupStatus:
    """`before` keeps what is only known once: when the gang started, and where it was placed.

    A gang that begins anew has not started: its status must say so to the next leader too. One that started
    and was not whole any more when this was written first has started.
    """
    counts = _counts(gang.members)
    started_at = None if gang.starts_over else before.started_at
    if started_at is None and (gang.started or _has_started(gang)):
        started_at = format_time(now_ms)
    phase = _phase(gang, counts, started=started_at is not None, releasing=told.releasing)
    verdict = told.verdict if counts.pending or _lacks_reserved(gang, told.verdict) else None
    return PodGroupStatus(
        phase=phase,
        counts=counts,
        conditions=(_scheduled(gang, phase, verdict, started=started_at is not None, now_ms=now_ms),),
        reason=verdict.reason.value if verdict else None,
        message=verdict.message if verdict else None,
        next_step=(verdict.next_step or None) if verdict else None,
        placement=_placement(told.placement) or before.placement,
        certificate=_certificate(told.placement) or before.certificate,
        queue_position=told.position if verdict else None,
        expected_start=_expected_start(verdict) if verdict else None,
        started_at=started_at,
    )


def status_without_members(before: PodGroupStatus, *, now_ms: int) -> PodGroupStatus:
    """All pods are gone. A gang that has ended stays ended; any other waits for its first pods again."""
    if before.phase in ("Finished", "Failed"):
        return msgspec.structs.replace(before, counts=Counts())
    waits = Condition(
        type=SCHEDULED,
        status="False",
        reason=_PENDING,
        message="the gang has no pods",
        last_transition_time=format_time(now_ms),
    )
    return PodGroupStatus(phase=_PENDING, counts=Counts(), conditions=(waits,))


def _counts(members: tuple[Pod, ...]) -> Counts:
    """A member that is being deleted is in `total` only; an assumed one is not bound yet."""
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


def _has_started(gang: Gang) -> bool:
    return gang.minimum.has_started_with(_bound(gang))


def _lacks_reserved(gang: Gang, verdict: Verdict | None) -> bool:
    """Whether members for which room was reserved have not come, which no waiting pod tells."""
    ended = verdict is not None and verdict.reason is Reason.RESERVATION_EXPIRED
    return ended and not gang.minimum.is_reached(_bound(gang))


def _bound(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.counts_for_gang and not pod.assumed and not pod.deleting]


def _phase(gang: Gang, counts: Counts, *, started: bool, releasing: bool) -> str:
    alive = counts.pending + counts.bound + counts.running
    if counts.succeeded >= gang.min_member and alive == 0:
        return "Finished"
    if counts.failed and alive == 0 and counts.succeeded + counts.failed == counts.total:
        return "Failed"
    if releasing:
        return "Releasing"
    if started:
        return "Running"
    under_way = any(pod.holds_node and not pod.deleting for pod in gang.members)
    return "Scheduling" if under_way else _PENDING


_DONE: Final[Mapping[str, str]] = {
    "Running": "minMember pods are bound",
    "Finished": "the gang has finished",
    "Failed": "the gang has failed",
}


_RESERVED: Final = "the pods that existed at the start are bound, and room for the others was reserved"


def _scheduled(gang: Gang, phase: str, verdict: Verdict | None, *, started: bool, now_ms: int) -> Condition:
    """A gang whose members failed before the minimum was reached was never scheduled."""
    done = _DONE.get(phase)
    if done is not None and started:
        status, reason, message = "True", phase, done
        if gang.reserves and phase == "Running" and not gang.minimum.is_reached(_bound(gang)):
            message = _RESERVED if verdict is None else _in_full(verdict)
    elif verdict is not None:
        status, reason, message = "False", verdict.reason.value, _in_full(verdict)
    else:
        status, reason, message = "False", phase, done or ""
    return Condition(
        type=SCHEDULED,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=format_time(now_ms),
    )


def _in_full(verdict: Verdict) -> str:
    """What is wrong, then the evidence, findings about one subject together, then what would change it."""
    facts: dict[str, list[str]] = {}
    for each in verdict.evidence:
        finding = f"{each.count} {each.finding}" if each.subject.startswith(NODES) else each.finding
        facts.setdefault(each.subject, []).append(finding)
    evidence = "; ".join(f"{subject}: {', '.join(findings)}" for subject, findings in facts.items())
    whole = ". ".join(filter(None, (verdict.message.rstrip("."), evidence, verdict.next_step)))
    return shortened(whole, CONDITION_MESSAGE_MAX_BYTES)


def _placement(placement: Placement | None) -> PlacementStatus | None:
    if placement is None or not placement.domain:
        return None
    return PlacementStatus(level=placement.level, domain=placement.domain)


def _expected_start(verdict: Verdict) -> StartStatus | None:
    start = verdict.start
    if start is None:
        return None
    at, earliest, latest = (format_time(each) for each in (start.at, start.earliest, start.latest))
    return StartStatus(at=at, earliest=earliest, latest=latest, method=start.method)


def _certificate(placement: Placement | None) -> CertificateStatus | None:
    if placement is None:
        return None
    proof = placement.certificate
    return CertificateStatus(
        proven=proof.proven, terms=proof.terms, objective=proof.objective, bound=proof.bound, by=proof.by
    )
