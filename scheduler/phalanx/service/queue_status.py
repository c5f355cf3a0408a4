"""Compute the status of a Queue from the report of a cycle. Pure: the reporter writes it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from phalanx.kube.api_fields import format_time
from phalanx.model.api.meta import Condition
from phalanx.model.api.queues import QueueStatus
from phalanx.model.decisions import QueueReport
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Objection
from phalanx.model.resources import CPU

READY: Final = "Ready"
"""The condition that is False while the spec is contradictory or sets a field that is not implemented."""

GUARANTEED: Final = "Guaranteed"
"""The condition that is False while a guarantee cannot be met; only for queues with a guarantee."""


def status_of(report: QueueReport, *, now_ms: int) -> QueueStatus:
    """Compute the whole status, with amounts as Kubernetes quantities."""
    return QueueStatus(
        allocated=_quantities(report.allocated),
        guarantee=_quantities(report.guarantee),
        fair_share=_quantities(report.fair_share),
        borrowed=_quantities(report.borrowed),
        average_use=_thousandths(report.past),
        average_use_at=format_time(report.past.at) if report.past is not None else None,
        pending_gangs=report.pending_gangs,
        pending_pods=report.pending_pods,
        conditions=tuple(_conditions(report, now_ms=now_ms)),
    )


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in sorted(amounts.items())}


def _thousandths(past: PastUsage | None) -> dict[str, str]:
    return {name: f"{amount}m" for name, amount in sorted(past.amounts.items())} if past is not None else {}


def _conditions(report: QueueReport, *, now_ms: int) -> Iterator[Condition]:
    yield _condition(READY, "Accepted", report.problems, now_ms=now_ms)
    if report.guarantee or report.unmet_guarantees:
        yield _condition(GUARANTEED, "GuaranteeMet", report.unmet_guarantees, now_ms=now_ms)


def _condition(kind: str, reason: str, problems: Sequence[Objection], *, now_ms: int) -> Condition:
    """Return a condition that is False for the first problem, or True for `reason` where there is none."""
    problem = problems[0] if problems else None
    return Condition(
        type=kind,
        status="False" if problem else "True",
        reason=problem.reason.value if problem else reason,
        message=problem.message if problem else "",
        last_transition_time=format_time(now_ms),
    )
