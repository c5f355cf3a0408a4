"""buildah with a storage of its own in the cache: it neither reads nor removes anybody else's images.

One process at a time uses the storage. Processes and mounts end with the build, however it ends. The files
that an interrupted build leaves are removed by the next one.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

Progress = Callable[[str], None]

TIMEOUT_S: Final = 3600.0
"""Seconds for one program. Minutes on two idle cores, and ten times as long where tests use them."""

_ALONE: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""The command before a program that mounts something."""


class CannotBuild(Exception):
    """A program is missing or has failed; the message says which."""


class Storage(Struct, frozen=True):
    """The images, layers and working containers in a folder."""

    folder: Path

    @contextmanager
    def locked(self, progress: Progress) -> Iterator[None]:
        """Only one process builds. Working containers that exist then are left of an interrupted build."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress("another process builds an image; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            self._remove_temporary()
            self.temporary.mkdir(mode=0o755)
            try:
                self.buildah("rm", "--all")
                yield
            finally:
                self._remove_temporary()

    def buildah(self, *arguments: str) -> str:
        """What buildah prints. Raises CannotBuild."""
        return run(["buildah", *self._places(), *arguments], temporary=self.temporary)

    def _places(self) -> tuple[str, str]:
        # Mounts do not survive a restart of the machine, nor may what is noted about them.
        return f"--root={self.folder / 'storage'}", f"--runroot=/run/phalanx-image/{self._id}"

    @property
    def _id(self) -> str:
        return hashlib.sha256(bytes(self.folder.resolve())).hexdigest()[:16]

    @property
    def temporary(self) -> Path:
        """A folder that exists while the storage is locked, and that also apt's own user may enter."""
        return Path("/var/tmp") / f"phalanx-image-{self._id}"

    def _remove_temporary(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)

    def names(self) -> set[str]:
        """The names of all images."""
        listed = json.loads(self.buildah("images", "--json"))
        return {name for image in listed for name in image.get("names") or ()}

    def keep_only(self, names: Set[str]) -> None:
        """Remove the other images, and the layers that no image of these names consists of."""
        for name in sorted(self.names() - names):
            self.buildah("rmi", name)
        while self.buildah("rmi", "--prune").strip():
            pass


def run(command: list[str], *, temporary: Path) -> str:
    """What a program prints. Raises CannotBuild."""
    done = subprocess.run(
        [*_ALONE, *command],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise CannotBuild(f"`{command[0]}` failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout
