"""The folder and the loopback ports of one running control plane.

The folder contains certificates, configuration, the data of etcd and the logs. Its owner holds a lock on a
file in it. When the owner ends without cleaning up, the kernel releases the lock, and the next start of any
control plane removes the folder. A port is reserved by a lock on a file that is named after it. It is also
probed, in case another program listens there.
"""

import fcntl
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import IO

from phalanx_controlplane import limits

_MEMORY = Path("/dev/shm")


class RunFolder:
    """A new folder, readable by its owner only."""

    def __init__(self) -> None:
        base = _base()
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with base.with_suffix(".lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # no other process may clean up before our folder is locked
            _remove_stale(base)
            self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
            self._lock = _try_lock(self.path)

    def folder(self, name: str) -> Path:
        """A subfolder, which is created if it does not exist."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def remove(self) -> None:
        """Remove everything and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def keep_logs(self) -> Path:
        """Copy the logs to a folder that is kept, and return its path."""
        kept = Path(tempfile.mkdtemp(prefix="phalanx-controlplane-logs-"))
        shutil.copytree(self.folder("logs"), kept, dirs_exist_ok=True)
        return kept


def _base() -> Path:
    """A folder in memory if there is space, since etcd writes every change; else the temporary folder."""
    parent = Path(tempfile.gettempdir())
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= limits.CONTROL_PLANE_MEMORY_FREE_MIN:
        parent = _MEMORY
    return parent / f"phalanx-controlplane-{os.getuid()}"


def _try_lock(folder: Path) -> IO[str] | None:
    handle = (folder / "owner.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle


def _remove_stale(base: Path) -> None:
    for folder in sorted(base.iterdir()):
        lock = _lock_of_dead_owner(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def _lock_of_dead_owner(folder: Path) -> IO[str] | None:
    """The lock of a folder whose owner has ended; None if the owner runs or the folder is removed."""
    try:
        return _try_lock(folder)
    except FileNotFoundError:
        return None


class PortsTaken(Exception):
    """The range does not have enough free ports."""


class PortLease:
    """Ports that are reserved until `release`."""

    def __init__(self, held: dict[int, IO[str]]) -> None:
        self._held = held
        self.ports = tuple(held)

    def __enter__(self) -> "PortLease":
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the ports."""
        for handle in self._held.values():
            handle.close()


def reserve(count: int) -> PortLease:
    """Reserve `count` ports. Raises PortsTaken."""
    folder = _locks()
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


def reserve_port(port: int) -> PortLease:
    """Reserve this port, for a program that cannot listen on another one. Raises PortsTaken."""
    handle = _take(_locks() / str(port), port=port)
    if handle is None:
        raise PortsTaken(f"port {port} is taken, and the program listens on no other")
    return PortLease({port: handle})


def _locks() -> Path:
    folder = Path(tempfile.gettempdir()) / f"phalanx-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


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
