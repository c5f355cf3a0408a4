"""`phalanx replay`: decide a saved cycle again and compare."""

import difflib
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import msgspec

from phalanx.cli.exits import BadInput, Exit
from phalanx.limits import DIFFERENCE_LINES_MAX
from phalanx.model.decisions import CycleResult
from phalanx.observe.recording import Recording, RecordingError, decode


def replay(file: Path, /) -> int:
    """Decide a saved cycle again: exit code 0 when every byte is the same, else 1 and the difference.

    Parameters
    ----------
    file
        What `phalanx snapshot` wrote.
    """
    recording = _read(file)
    _tell_other_version(recording)
    again = _decide(file, recording)
    if again == recording.result and _encoded(again) == _encoded(recording.result):
        print(f"{file}: cycle {recording.result.cycle} decided again, the same {_counts(recording.result)}")
        return Exit.OK
    print(f"{file}: cycle {recording.result.cycle} decided again, and differently:")
    print("\n".join(_difference(recording.result, again)))
    return Exit.FAILED


def _read(file: Path) -> Recording:
    try:
        return decode(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{file}: expected a readable file, found: {error.strerror}") from error
    except RecordingError as error:
        raise BadInput(f"{file}: {error}") from error


def _tell_other_version(recording: Recording) -> None:
    ours = version_of("phalanx-scheduler")
    if recording.version != ours:
        print(
            f"note: phalanx {recording.version} decided this cycle and phalanx {ours} decides it again; "
            "a difference may come from that",
            file=sys.stderr,
        )


def _decide(file: Path, recording: Recording) -> CycleResult:
    from phalanx.cycle import decide
    from phalanx.framework.config import SchedulerConfig

    try:
        config = msgspec.json.decode(recording.config, type=SchedulerConfig)
    except msgspec.ValidationError as error:
        raise BadInput(f"{file}: config: {error}") from error
    return decide(recording.snapshot, config)


def _encoded(result: CycleResult) -> bytes:
    return msgspec.json.encode(result)


def _counts(result: CycleResult) -> str:
    pods = sum(len(placement.binds) for placement in result.placements)
    return f"(pods placed: {pods}, evicted: {len(result.evictions)}, verdicts: {len(result.verdicts)})"


def _difference(before: CycleResult, after: CycleResult) -> list[str]:
    lines = list(
        difflib.unified_diff(
            _lines(before), _lines(after), fromfile="decided then", tofile="decided now", lineterm=""
        )
    )
    more = len(lines) - DIFFERENCE_LINES_MAX
    return lines[:DIFFERENCE_LINES_MAX] + ([f"and {more} more lines"] if more > 0 else [])


def _lines(result: CycleResult) -> list[str]:
    return msgspec.json.format(_encoded(result), indent=2).decode().splitlines()
