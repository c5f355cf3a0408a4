"""Free loopback ports that two control planes never take at the same time.

A port is ours while we hold a lock on a file named after it, which ends with the process however it ends;
the port is also tried, in case something else listens there.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

from phalanx import limits


class PortsTaken(Exception):
    """Not enough free ports in the range."""


class PortLease:
    """Some ports, ours until `release`."""

    def __init__(self, held: dict[int, IO[str]]) -> None:
        self._held = held
        self.ports = tuple(held)

    def release(self) -> None:
        """Let others take the ports."""
        for handle in self._held.values():
            handle.close()


def reserve(count: int) -> PortLease:
    """Take `count` ports. Raises PortsTaken."""
    folder = Path(tempfile.gettempdir()) / f"phalanx-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    held: dict[int, IO[str]] = {}
    for port in limits.CONTROL_PLANE_PORTS:
        if len(held) == count:
            break
        handle = _take(folder / str(port), port=port)
        if handle is not None:
            held[port] = handle
    lease = PortLease(held)
    if len(held) < count:
        lease.release()
        raise PortsTaken(f"only {len(held)} of {count} ports are free in {limits.CONTROL_PLANE_PORTS}")
    return lease


def _take(lock: Path, *, port: int) -> IO[str] | None:
    handle = lock.open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        handle.close()
        return None
    return handle
