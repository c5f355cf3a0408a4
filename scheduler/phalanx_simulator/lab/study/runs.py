"""Plays the cases of a study on the processes of an executor, and keeps what has finished."""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from phalanx_simulator.lab.engine.outcome import Outcome
from phalanx_simulator.lab.engine.play import play
from phalanx_simulator.lab.engine.product import Product
from phalanx_simulator.lab.study.variants import Case
from phalanx_simulator.runs.versions import versions

PROGRESS_PERIOD_S: Final = 0.5
"""Seconds between two looks at the progress of runs."""


class _Stored(Struct, frozen=True):
    """A finished run in a file."""

    name: str
    outcome: Outcome


def pack(case: Case) -> bytes:
    """The case as bytes: small to send, and the same bytes for the same case."""
    return zlib.compress(msgspec.msgpack.encode(case))


def run_packed(packed: bytes, progress: Path | None = None) -> Outcome:
    """Play a case. The part of the days that has passed, in percent, is written to a file."""
    case = msgspec.msgpack.decode(zlib.decompress(packed), type=Case)
    percent = -1

    def report(now: int) -> None:
        nonlocal percent
        passed = 100 * min(now, case.window.end_ms) // case.window.end_ms
        if progress is not None and passed > percent:
            percent = passed
            progress.write_text(str(passed))

    setup = case.setup
    return play(case.window, setup.tenancy, Product(setup), period_ms=case.period_ms, report_progress=report)


def play_all(
    cases: Sequence[Case],
    executor: Executor,
    *,
    finished: Path | None,
    advance: Callable[[float], None],
    notes: Path | None,
) -> tuple[Outcome, ...]:
    """The outcomes in the order of the cases; `advance` gets the number of runs that have finished.

    A run that is found in the folder `finished` is not played again, and the others are stored there.
    Runs write to the folder `notes` how far they are; None if the executor is on other machines.
    """
    packed = [pack(case) for case in cases]
    paths = [None if finished is None else finished / f"{_digest(each)}.json" for each in packed]
    outcomes = {index: found for index, path in enumerate(paths) if (found := _stored(path)) is not None}
    pending = {
        executor.submit(run_packed, packed[index], _note(notes, index)): index
        for index in range(len(cases))
        if index not in outcomes
    }
    for future in _as_finished(pending, lambda: advance(len(outcomes) + _running(pending, notes))):
        index = pending.pop(future)
        outcomes[index] = future.result()
        _store(paths[index], cases[index].name, outcomes[index])
    advance(len(outcomes))
    return tuple(outcomes[index] for index in range(len(cases)))


def _as_finished(
    pending: dict["Future[Outcome]", int], look: Callable[[], None]
) -> Iterator["Future[Outcome]"]:
    """Yields futures as they finish; the caller removes them."""
    while pending:
        done, _ = wait(pending, timeout=PROGRESS_PERIOD_S, return_when=FIRST_COMPLETED)
        look()
        yield from done


def _note(notes: Path | None, index: int) -> Path | None:
    """The file in which this run writes how far it is."""
    return None if notes is None else notes / str(index)


def _running(pending: dict["Future[Outcome]", int], notes: Path | None) -> float:
    """What runs that have not finished have done, as a number of runs."""
    passed = 0.0
    for index in pending.values():
        path = _note(notes, index)
        text = path.read_text() if path is not None and path.exists() else ""
        passed += int(text or 0) / 100
    return passed


def _digest(packed: bytes) -> str:
    """Names a run by its inputs and by the versions that play it."""
    return hashlib.sha256(versions().encode() + packed).hexdigest()[:24]


def _stored(path: Path | None) -> Outcome | None:
    """The outcome in this file; None if it is missing or incomplete."""
    if path is None or not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored).outcome
    except msgspec.DecodeError:
        return None


def _store(path: Path | None, name: str, outcome: Outcome) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        half.write_bytes(msgspec.json.encode(_Stored(name, outcome)))
        half.replace(path)
