"""Control groups of nodes. Each node has one group in each hierarchy, which holds its pods."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
"""A new group of cgroup v1 has none of these, and so can run nothing."""


def writable() -> bool:
    """Whether groups can be made."""
    hierarchies = _hierarchies() if _ROOT.is_dir() else []
    return bool(hierarchies) and all(os.access(each, os.W_OK) for each in hierarchies)


def create(name: str) -> None:
    """Make the group of a node in every hierarchy."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in _INHERITED:
            if (hierarchy / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())


def kill(name: str) -> bool:
    """Kill what runs in the group of a node. Whether anything did."""
    found = False
    for hierarchy in _hierarchies():
        for tasks in (hierarchy / name).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                for pid in map(int, tasks.read_text().split()):
                    found = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    return found


def remove(name: str) -> None:
    """Remove the empty groups of a node, the inner ones first."""
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _hierarchies() -> list[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in sorted(_ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]
