"""`phalanx replay`: decide a saved cycle again and compare the results."""

import difflib
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

import msgspec

from phalanx.cli.exits import BadInput, Exit
from phalanx.model.decisions import CycleResult
from phalanx.observe.recording import Recording, RecordingError, decode

_DIFFERENCE_LINES_MAX: Final = 200
"""Lines of a difference that `phalanx replay` prints. The first ones show where to look."""


def replay(file: Path, /) -> int:
    """Decide a saved cycle again: exit code 0 when the results are equal, else 1 and the difference.

    Parameters
    ----------
    file
        A file written by `phalanx snapshot`.
    """
    recording = _read(file)
    _note_other_version(recording)
    again = _decide(file, recording)
    if again == recording.result and _encoded(again) == _encoded(recording.result):
        print(f"{file}: cycle {again.cycle} replayed with the same result {_counts(again)}")
        return Exit.OK
    print(f"{file}: cycle {recording.result.cycle} replayed with a different result:")
    print("\n".join(_difference(recording.result, again)))
    return Exit.FAILED


def _read(file: Path) -> Recording:
    try:
        return decode(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{file}: expected a readable file, found: {error.strerror}") from error
    except RecordingError as error:
        raise BadInput(f"{file}: {error}") from error


def _note_other_version(recording: Recording) -> None:
    ours = version_of("phalanx-scheduler")
    if recording.version != ours:
        print(
            f"note: phalanx {recording.version} decided this cycle, phalanx {ours} replays it; "
            "a difference may come from that",
            file=sys.stderr,
        )


def _decide(file: Path, recording: Recording) -> CycleResult:
    from phalanx.cycle import Engine
    from phalanx.framework.config import SchedulerConfig

    try:
        config = msgspec.json.decode(recording.config, type=SchedulerConfig)
    except msgspec.ValidationError as error:
        raise BadInput(f"{file}: config: {error}") from error
    engine = Engine(config, defers_advice=recording.defers_advice)
    return engine.decide(recording.snapshot)


def _encoded(result: CycleResult) -> bytes:
    return msgspec.json.encode(result)


def _counts(result: CycleResult) -> str:
    pods = sum(len(placement.binds) for placement in result.placements)
    return f"(pods placed: {pods}, evicted: {len(result.evictions)}, verdicts: {len(result.verdicts)})"


def _difference(before: CycleResult, after: CycleResult) -> list[str]:
    lines = list(
        difflib.unified_diff(
            _lines(before), _lines(after), fromfile="recorded", tofile="replayed", lineterm=""
        )
    )
    more = len(lines) - _DIFFERENCE_LINES_MAX
    return lines[:_DIFFERENCE_LINES_MAX] + ([f"and {more} more lines"] if more > 0 else [])


def _lines(result: CycleResult) -> list[str]:
    return msgspec.json.format(_encoded(result), indent=2).decode().splitlines()
