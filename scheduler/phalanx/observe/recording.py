"""Record a cycle in a file: its snapshot and its result, so that it can be replayed elsewhere.

The file is gzip-compressed JSON. It holds names, labels and requests of pods and nodes, and no secrets.
"""

import gzip
import zlib
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import RECORDING_BYTES_MAX
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import UnknownSupply, read_parts

_GZIP: Final = 16 + zlib.MAX_WBITS
"""Makes zlib expect the header and the checksum of gzip."""

FORMAT: Final = 2
"""Version of the file format; a file of another version is refused."""


class RecordingError(ValueError):
    """The content is not a readable recording."""


class Recording(Struct, frozen=True):
    """One cycle."""

    version: str
    """The version of the scheduler that decided it."""
    config: msgspec.Raw
    """The configuration of the scheduler, as JSON."""
    snapshot: Snapshot
    result: CycleResult
    format: int = FORMAT
    defers_advice: bool = False
    """Whether the cycle did not wait for advice; earlier versions did."""


class _Form(Struct):
    format: int


def encode(recording: Recording) -> bytes:
    """Encode the content of a file: the same bytes for the same recording."""
    return gzip.compress(msgspec.json.encode(recording), mtime=0)


def decode(content: bytes) -> Recording:
    """Decode the content of a file. Raises RecordingError."""
    try:
        text = unpacked(content)
        form = msgspec.json.decode(text, type=_Form).format
        if form != FORMAT:
            raise RecordingError(f"expected file format {FORMAT}, found {form}")
        recording = msgspec.json.decode(text, type=Recording)
        supplies = read_parts(recording.snapshot.supplies)
        return replace(recording, snapshot=replace(recording.snapshot, supplies=supplies))
    except UnknownSupply as unknown:
        raise RecordingError(f"cannot replay this file: {unknown}") from unknown
    except (EOFError, zlib.error, msgspec.DecodeError) as error:
        raise RecordingError(f"expected a file written by `phalanx snapshot`, found: {error}") from error


def unpacked(content: bytes) -> bytes:
    """Decompress at most RECORDING_BYTES_MAX. Raises RecordingError, EOFError and zlib.error."""
    unpacking = zlib.decompressobj(wbits=_GZIP)
    text = unpacking.decompress(content, RECORDING_BYTES_MAX + 1)
    if len(text) > RECORDING_BYTES_MAX:
        raise RecordingError(f"expected at most {RECORDING_BYTES_MAX} bytes after unpacking, found more")
    if not unpacking.eof or unpacking.unused_data:
        raise EOFError("a file that is cut off, or has more after its end")
    return text
