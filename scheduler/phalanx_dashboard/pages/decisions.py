"""Decisions: the events that the scheduler wrote, and recorded cycles that can be replayed."""

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct
from phalanx.cli.verbs.views.top import Decision, decisions_of
from phalanx.model.decisions import CycleResult
from phalanx.observe.recording import RecordingError, unpacked

from phalanx_dashboard.facts import Facts

_DECISIONS_LISTED: Final = 200
"""Events that the page of decisions lists, the newest ones."""

_CYCLE_LINES_MAX: Final = 200
"""Decisions of one recorded cycle that are listed. The file has all of them."""


class CycleLine(Struct, frozen=True, rename="camel"):
    kind: str
    """Placed, Evicted, Nominated or Waits."""
    about: str
    text: str


class Cycle(Struct, frozen=True, rename="camel"):
    cycle: int
    version: str
    at: int
    """Milliseconds since the epoch: when the cycle was decided."""
    bytes: int
    tried: int
    placed: int
    pods: int
    """Pods that were placed."""
    evictions: int
    waiting: int
    errors: tuple[str, ...]
    lines: tuple[CycleLine, ...]
    more_lines: int


class Decisions(Struct, frozen=True, rename="camel"):
    events: tuple[Decision, ...]
    """The newest first."""
    more_events: int
    source: str
    """The scheduler whose cycles are fetched; empty for none."""
    problem: str
    """Why no cycle could be fetched; empty if one could."""
    cycles: tuple[Cycle, ...]
    """The newest first."""


class _Time(Struct, frozen=True):
    now: int = 0


class _Recorded(Struct, frozen=True):
    """What is shown of a recording. The snapshot, which is most of it, is skipped."""

    version: str
    snapshot: _Time
    result: CycleResult


_decode: Final = msgspec.json.Decoder(_Recorded).decode


def decisions(facts: Facts, *, source: str, problem: str, cycles: tuple[Cycle, ...]) -> Decisions:
    """The page. A recorded cycle has all gangs and nodes, so it is for who may see all of them."""
    found = decisions_of(facts.events)
    if facts.is_restricted:
        source, problem, cycles = "", "", ()
    return Decisions(
        events=found[:_DECISIONS_LISTED],
        more_events=max(len(found) - _DECISIONS_LISTED, 0),
        source=source,
        problem=problem,
        cycles=cycles,
    )


def cycle_of(content: bytes) -> Cycle:
    """What a recording says. Raises RecordingError."""
    try:
        recorded = _decode(unpacked(content))
    except (EOFError, zlib.error, msgspec.DecodeError) as error:
        raise RecordingError(f"expected a recorded cycle, found: {error}") from error
    result = recorded.result
    lines = list(_lines(result))
    return Cycle(
        cycle=result.cycle,
        version=recorded.version,
        at=recorded.snapshot.now,
        bytes=len(content),
        tried=result.stats.gangs_tried,
        placed=len(result.placements),
        pods=sum(len(placement.binds) for placement in result.placements),
        evictions=len(result.evictions),
        waiting=len(result.verdicts),
        errors=result.stats.errors,
        lines=tuple(lines[:_CYCLE_LINES_MAX]),
        more_lines=max(len(lines) - _CYCLE_LINES_MAX, 0),
    )


def _lines(result: CycleResult) -> Iterator[CycleLine]:
    for placement in result.placements:
        where = f"{placement.level} {placement.domain}".strip()
        nodes = len({bind.node for bind in placement.binds})
        quality = "proven optimal" if placement.certificate.proven else "not proven optimal"
        text = f"{len(placement.binds)} pods on {nodes} nodes{f' in {where}' if where else ''}, {quality}"
        yield CycleLine("Placed", placement.group, f"{placement.cause}: {text}")
    for eviction in result.evictions:
        about = f"{eviction.namespace}/{eviction.name}"
        yield CycleLine("Evicted", about, f"{eviction.reason.value}: {eviction.message}")
    for nomination in result.nominations:
        yield CycleLine("Nominated", f"{nomination.namespace}/{nomination.name}", f"for {nomination.node}")
    for verdict in result.verdicts:
        yield CycleLine("Waits", verdict.group, f"{verdict.reason.value}: {verdict.message}")
