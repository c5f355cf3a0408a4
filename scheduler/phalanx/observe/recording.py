"""A cycle in a file: what it knew and what it decided, so that it can be decided again elsewhere.

The file is gzip'd JSON. It holds names, labels and requests of a cluster's pods and nodes, and no secrets.
"""

import gzip
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

FORMAT: Final = 1
"""Number of the file's form; a file of another form is refused."""


class RecordingError(ValueError):
    """The content is not a recording that can be read."""


class Recording(Struct, frozen=True):
    """`version` is that of the scheduler that decided; `config` its configuration, as JSON."""

    version: str
    config: msgspec.Raw
    snapshot: Snapshot
    result: CycleResult
    format: int = FORMAT


class _Form(Struct):
    format: int


def encode(recording: Recording) -> bytes:
    """The content of the file: the same bytes for the same recording."""
    return gzip.compress(msgspec.json.encode(recording), mtime=0)


def decode(content: bytes) -> Recording:
    """Read the content of a file. Raises RecordingError."""
    try:
        text = gzip.decompress(content)
        form = msgspec.json.decode(text, type=_Form).format
        if form != FORMAT:
            raise RecordingError(f"expected form {FORMAT} of the file, found {form}")
        return msgspec.json.decode(text, type=Recording)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise RecordingError(f"expected what `phalanx snapshot` writes, found: {error}") from error
