"""Whether there can be real nodes with the image of this checkout, and if not, one line that says why."""

import os
from pathlib import Path
from typing import Final

from phalanx_controlplane.go_modules import Progress
from phalanx_controlplane.nodes import programs
from phalanx_controlplane.nodes.programs import ProgramsMissing

from deploy.image import build
from deploy.image.storage import CannotBuild

TAG: Final = "0.1.0"

_NO_ANSWER: Final = (
    *("Temporary failure resolving", "Could not resolve", "Could not connect to", "Unable to connect to"),
    *("Network is unreachable", "NewConnectionError", "NameResolutionError", "Failed to resolve"),
    *("dial tcp", "no such host", "Connection timed out"),
)
"""What apt, pip and Go print when a server of packages does not answer."""


class Unavailable(Exception):
    """There can be no real nodes here; the message is one line."""


def prepare(progress: Progress) -> build.Image:
    """Build kubelet, containerd and the image, or find them.

    Raises Unavailable if something is missing on this machine, also a network to fetch it by. What cannot be
    built although everything is there raises ProgramsMissing or CannotBuild.
    """
    tried = os.environ.get("PHALANX_REAL_NODES") == "always"
    if reason := programs.missing() or build.missing() or ("" if tried else untried()):
        raise Unavailable(reason)
    try:
        programs.find_or_build(progress)
        return build.build(progress, tag=TAG)
    except (ProgramsMissing, CannotBuild) as failed:
        if line := without_network(str(failed)):
            raise Unavailable(f"not built before, and there is no network: {line}") from failed
        raise


def without_network(message: str) -> str:
    """The line of a message which says that a server does not answer; empty if none does."""
    lines = (line.strip() for line in message.splitlines())
    return next((line for line in lines if any(text in line for text in _NO_ANSWER)), "")


def untried(root: Path = Path("/sys/fs/cgroup")) -> str:
    """Why nobody has run real nodes on a machine like this; empty if somebody has."""
    return "nobody has tried control groups of version 2" if (root / "cgroup.controllers").exists() else ""
