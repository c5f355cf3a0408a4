"""The time by which a gang should have started: what its verdict says of it, and when that changes."""

from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.outcome import Outcome
from phalanx.actions.reservations.reservations import BlockingReservations, EndingGang, Forecast, Reservation
from phalanx.framework.run_times import Method
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.reasons import Evidence, ExpectedStart, Reason, Verdict

_SUBJECT: Final = "spec.startBy"


def verdicts_of(session: Session, outcome: Outcome) -> tuple[Verdict, ...]:
    """All verdicts: of what was tried, in that order, then of others; on missed times they say so."""
    starts = {each.gang: each.start for each in outcome.reserved}
    others = sorted(gang for gang in session.verdicts if gang not in outcome.failures)
    return tuple(
        _told(session.verdicts[gang], session.gangs[gang], starts.get(gang), session.snapshot.now)
        for gang in (*outcome.failures, *others)
    )


def next_missed(session: Session) -> int | None:
    """When the next gang that waits has missed its time."""
    deadlines = (session.gangs[gang].deadline for gang in session.verdicts)
    now = session.snapshot.now
    return min((at for at in deadlines if at is not None and at > now), default=None)


def _told(verdict: Verdict, gang: Gang, start: int | None, now: int) -> Verdict:
    """It tells moments, no durations: a verdict that changed all the time would be written all the time."""
    deadline = gang.deadline
    if deadline is None:
        return verdict
    by = formatting.moment(deadline)
    if deadline <= now:
        message, finding = f"it has missed its startBy, {by}", f"{by} has passed; the gang waits on"
    elif start is not None and start > deadline:
        message, finding = f"it will miss its startBy, {by}", f"{by} is before the expected start"
    else:
        return verdict
    return replace(
        verdict,
        message=f"{verdict.message}; {message}",
        evidence=(*verdict.evidence, Evidence(_SUBJECT, finding)),
    )


_SECOND: Final = 1000

_HOW: Final = {
    Method.MAXIMUM: "by its maximum run time",
    Method.ESTIMATE: "by an estimate",
    Method.OBSERVED: "as earlier gangs did",
    Method.ASSUMED: "if it runs as long as is assumed",
}


def with_start(verdict: Verdict, reserved: Reservation | None) -> Verdict:
    """The verdict on a gang whose start is reserved tells when, how sure that is, and who ends first."""
    if reserved is None:
        return verdict
    forecast = reserved.forecast
    message = f"{verdict.message}; expected to start at {formatting.moment(reserved.start)}"
    if forecast is None:
        return replace(verdict, message=message)
    start = ExpectedStart(
        at=reserved.start, earliest=forecast.earliest, latest=forecast.latest, method=forecast.method.value
    )
    return replace(
        verdict,
        start=start,
        message=f"{message}{_between(forecast)} ({forecast.method})",
        evidence=(*verdict.evidence, *(_leaves(each) for each in forecast.leaving)),
    )


def _between(forecast: Forecast) -> str:
    if forecast.earliest == forecast.latest:
        return ""
    return f", between {formatting.moment(forecast.earliest)} and {formatting.moment(forecast.latest)}"


def _leaves(leaving: EndingGang) -> Evidence:
    how = _HOW[leaving.end.method]
    return Evidence(leaving.name, f"ends before, at {formatting.moment(leaving.end.at)} {how}")


def would_delay(gang: Gang, blocked_by: BlockingReservations, now: int) -> Verdict:
    """The verdict on a gang that would find room, were it not for reserved starts."""
    names = formatting.listed(each.name for each in blocked_by.delayed)
    left = blocked_by.free_until - now
    found = f"there is room, but it is kept for {names}"
    if left > 0:
        until = formatting.moment(blocked_by.free_until)
        found = f"there is room until {until}, but to use it longer would delay {names}"
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.WOULD_DELAY_RESERVATION,
        message=found,
        evidence=tuple(_is_to_start(each) for each in blocked_by.delayed),
        next_step="Wait until that has started" + _or_end_before(gang, left),
    )


def _is_to_start(reserved: Reservation) -> Evidence:
    count = len(reserved.seats)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    return Evidence(reserved.name, f"is to start at {formatting.moment(reserved.start)} on {nodes}")


def _or_end_before(gang: Gang, left: int) -> str:
    """What would let it go first. Nobody is let in front of a start that is late for saying so."""
    if left < _SECOND or gang.kind is not GangKind.POD_GROUP:
        return ""
    return f", or set spec.runtime.max to at most {formatting.duration(left // _SECOND)}, if it ends by then"
