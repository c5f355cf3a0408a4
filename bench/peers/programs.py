"""Builds the program of another scheduler once, from the Go module in its folder.

The CRDs and the documented configuration are extracted from the published module at the same time. They are
not copied into this repository, so they always match the version.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct
from phalanx_controlplane import go_modules
from phalanx_controlplane.go_modules import BuildFailed, Progress

FOLDER: Final = Path(__file__).parent


class PeerMissing(Exception):
    """The program is missing and cannot be built; the message has the reason."""


class Built(Struct, frozen=True):
    """A program, and the folder of the files of its module."""

    program: Path
    files: Path

    def read(self, pattern: str) -> list[Any]:
        """All YAML documents of the module's files that match the pattern, in the order of their paths."""
        paths = sorted(self.files.glob(pattern))
        return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


class Program(Struct, frozen=True):
    """`name`: its folder. `package`: the program in module `source`; `files`: patterns of required files."""

    name: str
    source: str
    package: str
    files: tuple[str, ...]

    @property
    def module(self) -> Path:
        """The folder of our Go module, which pins its version."""
        return FOLDER / self.name

    @property
    def version(self) -> str:
        """The version of its module."""
        return go_modules.required_version((self.module / "go.mod").read_text(), self.source)

    def built(self) -> Built:
        """The existing build. Raises PeerMissing when there is none."""
        found = self._in_folder(self._target())
        if found is None:
            raise PeerMissing(f"{self.name} {self.version} is not built")
        return found

    def build(self, progress: Progress) -> None:
        """Build the program if it is missing, which takes minutes. Raises PeerMissing."""
        target = self._target()
        if self._in_folder(target) is not None:
            return
        if not go_modules.can_build():
            raise PeerMissing(f"{self.name} {self.version} is not built, and there is no Go to build it with")
        try:
            go_modules.build_once(
                target,
                is_complete=lambda: self._in_folder(target) is not None,
                build=lambda partial: self._build(partial, progress),
                progress=progress,
            )
        except BuildFailed as failed:
            raise PeerMissing(f"{self.name} {self.version}: {failed}") from failed

    def _target(self) -> Path:
        return go_modules.cache_folder(self.module, name=f"peers/{self.name}")

    def _in_folder(self, folder: Path) -> Built | None:
        built = Built(program=folder / self.name, files=folder / "files")
        complete = built.program.is_file() and all(any(built.files.glob(each)) for each in self.files)
        return built if complete else None

    def _build(self, target: Path, progress: Progress) -> None:
        progress(f"building {self.name} {self.version}, once (about three minutes on two cores)")
        go_modules.build(self.package, output=target / self.name, module=self.module)
        source = go_modules.source_folder(self.source, module=self.module)
        for path in sorted(path for pattern in self.files for path in source.glob(pattern)):
            copy = target / "files" / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        if self._in_folder(target) is None:
            raise PeerMissing(f"{self.source} {self.version} has not all of {', '.join(self.files)}")
