"""`phalanx snapshot`: save a cycle of a running scheduler as a file for `phalanx replay`."""

import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from phalanx.cli.exits import BadInput, Exit
from phalanx.limits import READ_TIMEOUT_S

_DEBUG_ENDPOINT: Final = "http://127.0.0.1:8081"
_SCHEMES: Final = ("http://", "https://")
_LAST: Final = "/debug/snapshot"
_ERROR: Final = "/debug/error"
_INCONCLUSIVE: Final = "/debug/inconclusive"


def snapshot(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    url: str = _DEBUG_ENDPOINT,
    error: Annotated[bool, Parameter(negative="")] = False,
    inconclusive: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Save the input and the result of a running scheduler's last cycle.

    The debug endpoint listens on the loopback address of its pod: use `kubectl port-forward`.

    Parameters
    ----------
    output
        The file to write.
    url
        Address of the scheduler's debug endpoint.
    error
        The last cycle with an error, for a bug report: a solver answer that failed validation, an internal
        error, or an error of a plugin.
    inconclusive
        A recent cycle in which the solver found neither a placement nor a proof that none exists.
    """
    from urllib.error import HTTPError

    from phalanx.observe.recording import RecordingError, decode

    if error and inconclusive:
        raise BadInput("--error, --inconclusive: expected one of them")
    if not url.lower().startswith(_SCHEMES):
        raise BadInput(f"--url: expected an address that starts with {' or '.join(_SCHEMES)}, found {url}")
    path = _ERROR if error else _INCONCLUSIVE if inconclusive else _LAST
    try:
        content = fetch(url.rstrip("/") + path)
        recording = decode(content)
    except HTTPError as failure:
        print(f"snapshot: {url}: {failure.read().decode(errors='replace').strip()}", file=sys.stderr)
        return Exit.FAILED
    except (OSError, ValueError, RecordingError) as failure:
        print(f"snapshot: {url}: {failure}; set --url to a running scheduler", file=sys.stderr)
        return Exit.FAILED
    try:
        output.write_bytes(content)
    except OSError as failure:
        raise BadInput(f"--output: expected a writable file, found {output}: {failure.strerror}") from failure
    print(f"{output}: cycle {recording.result.cycle} of phalanx {recording.version}, {len(content)} bytes")
    return Exit.OK


def fetch(url: str) -> bytes:
    """Fetch without a proxy, because the endpoint is on this machine."""
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(url, timeout=READ_TIMEOUT_S) as response:
        content: bytes = response.read()
        return content
