"""`phalanx snapshot`: the last cycle of a running scheduler, as a file for `phalanx replay`."""

import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from phalanx.cli.exits import BadInput, Exit
from phalanx.limits import READ_TIMEOUT_S

_DEBUG_ENDPOINT: Final = "http://127.0.0.1:8081"
_LAST: Final = "/debug/snapshot"
_DEFECT: Final = "/debug/defect"
_UNSETTLED: Final = "/debug/unsettled"


def snapshot(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    url: str = _DEBUG_ENDPOINT,
    defect: Annotated[bool, Parameter(negative="")] = False,
    unsettled: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Save what a running scheduler knew and decided in its last cycle.

    The debug endpoint listens on the scheduler's own loopback: `kubectl port-forward` reaches it.

    Parameters
    ----------
    output
        The file to write.
    url
        Where the scheduler's debug endpoint is.
    defect
        The last cycle in which an answer of the solver failed its check, to be reported as a bug.
    unsettled
        A late cycle in which the solver found neither a place for a gang nor a proof that there is none.
    """
    from urllib.error import HTTPError

    from phalanx.observe.recording import RecordingError, decode

    if defect and unsettled:
        raise BadInput("--defect, --unsettled: expected one of them")
    path = _DEFECT if defect else _UNSETTLED if unsettled else _LAST
    try:
        content = _fetch(url.rstrip("/") + path)
        recording = decode(content)
    except HTTPError as error:
        print(f"snapshot: {url}: {error.read().decode(errors='replace').strip()}", file=sys.stderr)
        return Exit.FAILED
    except (OSError, ValueError, RecordingError) as error:
        print(f"snapshot: {url}: {error}; is `phalanx run` running there? else --url", file=sys.stderr)
        return Exit.FAILED
    try:
        output.write_bytes(content)
    except OSError as error:
        raise BadInput(f"--output: expected a file to write, found {output}: {error.strerror}") from error
    print(f"{output}: cycle {recording.result.cycle} of phalanx {recording.version}, {len(content)} bytes")
    return Exit.OK


def _fetch(url: str) -> bytes:
    """Never through a proxy: the endpoint is on this machine."""
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(url, timeout=READ_TIMEOUT_S) as response:
        content: bytes = response.read()
        return content
