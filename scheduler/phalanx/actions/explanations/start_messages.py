"""Messages of verdicts about starts: expected starts, starts that would delay others, missed deadlines."""

from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.outcome import Outcome
from phalanx.actions.reservations.reservations import BlockingReservations, EndingGang, Forecast, Reservation
from phalanx.framework.run_times import Method
from phalanx.framework.session import Session
from phalanx.model import named_parts
from phalanx.model.api.values import duration_text
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.reasons import Evidence, ExpectedStart, Reason, Verdict, in_plain_text

_START_BY: Final = "spec.startBy"
_SECOND: Final = 1000

_SOURCE: Final = {
    Method.MAXIMUM: "maximum run time",
    Method.ESTIMATE: "estimate",
    Method.OBSERVED: "run times of earlier gangs",
    Method.ASSUMED: "assumed run time",
}


# --- expected starts ----------------------------------------------------------------------------------------


def with_start(verdict: Verdict, reservation: Reservation | None) -> Verdict:
    """Add the reserved start of the gang: its time, its interval, and the gangs that end before."""
    if reservation is None:
        return verdict
    forecast = reservation.forecast
    message = f"{verdict.message}; expected to start at {formatting.moment(reservation.start)}"
    if forecast is None:
        return replace(verdict, message=message)
    start = ExpectedStart(
        at=reservation.start,
        earliest=forecast.earliest,
        latest=forecast.latest,
        method=forecast.method.value,
    )
    return replace(
        verdict,
        start=start,
        message=f"{message}{_between(forecast)} ({forecast.method})",
        evidence=(*verdict.evidence, *(_ends_before(gang) for gang in forecast.ending)),
    )


def _between(forecast: Forecast) -> str:
    if forecast.earliest == forecast.latest:
        return ""
    return f", between {formatting.moment(forecast.earliest)} and {formatting.moment(forecast.latest)}"


def _ends_before(gang: EndingGang) -> Evidence:
    return Evidence(
        named_parts.titled(gang.name),
        f"ends before, at {formatting.moment(gang.end.at)} ({_SOURCE[gang.end.method]})",
    )


# --- starts that would delay others -------------------------------------------------------------------------


def would_delay(gang: Gang, blocked_by: BlockingReservations, now: int) -> Verdict:
    """The verdict on a gang that fits now, but would delay reserved starts."""
    names = formatting.listed(named_parts.titled(reservation.name) for reservation in blocked_by.delayed)
    left = blocked_by.free_until - now
    message = f"free capacity is reserved for the start of {names}"
    if left > 0:
        message = (
            f"capacity is free until {formatting.moment(blocked_by.free_until)}, then reserved for {names}"
        )
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.WOULD_DELAY_RESERVATION,
        message=message,
        evidence=tuple(map(_starts, blocked_by.delayed)),
        next_step="Wait until that gang has started" + _or_end_before(gang, left),
    )


def _starts(reservation: Reservation) -> Evidence:
    nodes = formatting.nodes(len(reservation.usage))
    return Evidence(
        named_parts.titled(reservation.name), f"starts at {formatting.moment(reservation.start)} on {nodes}"
    )


def _or_end_before(gang: Gang, left: int) -> str:
    """The maximum run time with which the gang may start first; empty if the reserved start is late."""
    if left < _SECOND or gang.kind is not GangKind.POD_GROUP:
        return ""
    return f", or set spec.runtime.max to at most {duration_text(left)} if it ends by then"


# --- deadlines ----------------------------------------------------------------------------------------------


def verdicts_of(session: Session, outcome: Outcome) -> tuple[Verdict, ...]:
    """All verdicts, tried gangs first in their order; those on missed deadlines say so."""
    starts = {reservation.gang: reservation.start for reservation in outcome.reserved}
    others = sorted(gang for gang in session.verdicts if gang not in outcome.failures)
    return tuple(
        final_verdict(session.verdicts[gang], session.gangs[gang], starts.get(gang), session.snapshot.now)
        for gang in (*outcome.failures, *others)
    )


def next_missed(session: Session) -> int | None:
    """The time (ms) at which the next waiting gang misses its deadline."""
    deadlines = (session.gangs[gang].deadline for gang in session.verdicts)
    now = session.snapshot.now
    return min((at for at in deadlines if at is not None and at > now), default=None)


def final_verdict(verdict: Verdict, gang: Gang, start: int | None, now: int) -> Verdict:
    """The verdict as it leaves the cycle: its texts are escaped here, its names become plain, not before."""
    return in_plain_text(_with_deadline(verdict, gang, start, now))


def _with_deadline(verdict: Verdict, gang: Gang, start: int | None, now: int) -> Verdict:
    """Add times, not durations: a message that changes in every cycle would be written in every cycle."""
    deadline = gang.deadline
    if deadline is None:
        return verdict
    by = formatting.moment(deadline)
    if deadline <= now:
        message, finding = f"missed startBy {by}", f"{by} has passed; the gang still waits"
    elif start is not None and start > deadline:
        message, finding = f"will miss startBy {by}", f"{by} is before the expected start"
    else:
        return verdict
    return replace(
        verdict,
        message=f"{verdict.message}; {message}",
        evidence=(*verdict.evidence, Evidence(_START_BY, finding)),
    )
