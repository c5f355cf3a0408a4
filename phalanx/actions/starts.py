"""The words of reserved starts: when a gang that waits is to start, and whom another one would delay."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from phalanx.actions import words
from phalanx.actions.reservations import Forecast, Leaving, Reservation
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Evidence, Reason, Verdict


def with_start(verdict: Verdict, reserved: Reservation | None) -> Verdict:
    """The verdict on a gang whose start is reserved tells when, how sure that is, and who ends first."""
    if reserved is None:
        return verdict
    forecast = reserved.forecast
    message = f"{verdict.message}; expected to start at {words.moment(reserved.start)}"
    if forecast is None:
        return replace(verdict, message=message)
    return replace(
        verdict,
        message=f"{message}{_between(forecast)} ({_method(is_bound=forecast.is_bound)})",
        evidence=(*verdict.evidence, *(_leaves(each) for each in forecast.leaving)),
    )


def _between(forecast: Forecast) -> str:
    if forecast.earliest == forecast.latest:
        return ""
    return f", between {words.moment(forecast.earliest)} and {words.moment(forecast.latest)}"


def _method(*, is_bound: bool) -> str:
    return "maximum run times" if is_bound else "estimates"


def _leaves(leaving: Leaving) -> Evidence:
    how = "by its maximum run time" if leaving.end.is_bound else "by an estimate"
    return Evidence(leaving.name, f"ends before, at {words.moment(leaving.end.at)} {how}")


def would_delay(gang: Gang, delayed: Sequence[Reservation], now: int) -> Verdict:
    """The verdict on a gang that would find room, were it not for these reserved starts."""
    names = words.listed(each.name for each in delayed)
    first = min(delayed, key=lambda each: (each.held_from, each.turn))
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.WOULD_DELAY,
        message=f"there is room, but using it would delay {names}, reserved from "
        f"{words.moment(max(now, first.held_from))}",
        evidence=tuple(
            Evidence(each.name, f"is to start at {words.moment(each.start)} on {_nodes(each)}")
            for each in delayed
        ),
        next_step="Wait until that has started" + "".join(_or(gang, first, now)),
    )


def _or(gang: Gang, first: Reservation, now: int) -> Iterator[str]:
    """What would let it go first; a start that is late is kept its room from whoever says so."""
    seconds = (first.held_from - now) // 1000
    runtime = gang.runtime.max_ms or gang.runtime.estimate_ms
    if seconds > 0 and (runtime is None or runtime > first.held_from - now):
        yield f", or set spec.runtime.max to at most {words.duration(seconds)}, if it ends by then"


def _nodes(reserved: Reservation) -> str:
    count = len(reserved.seats)
    return "1 node" if count == 1 else f"{count} nodes"
