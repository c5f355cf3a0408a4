"""The time by which a gang should have started: what its verdict says of it, and when that changes."""

from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.outcome import Outcome
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Evidence, Verdict

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
