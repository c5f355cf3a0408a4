"""Builds the program of another scheduler, once, from the Go module in its folder here.

Beside the program lie the files of the published module that it is run with: definitions of its kinds, its
documented configuration. They are not copied into this repository, so they are always those of the version.
"""

import sys
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from phalanx.controlplane import go_modules
from phalanx.controlplane.go_modules import BuildFailed, Progress

FOLDER: Final = Path(__file__).parent


class PeerMissing(Exception):
    """The program is not there and cannot be built; the message says why."""


class Built(Struct, frozen=True):
    """A program, and the folder of the files of its module."""

    program: Path
    files: Path

    def read(self, pattern: str) -> list[Any]:
        """All YAML documents of the files whose path in the module matches, in the order of their paths."""
        paths = sorted(self.files.glob(pattern))
        return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


class Program(Struct, frozen=True):
    """`name`: its folder here. `package`: of the module `source`, of which `files` (patterns) are needed."""

    name: str
    source: str
    package: str
    files: tuple[str, ...]

    @property
    def module(self) -> Path:
        """The folder of our module, which names its version."""
        return FOLDER / self.name

    @property
    def version(self) -> str:
        """The version of its module."""
        return go_modules.required_version((self.module / "go.mod").read_text(), self.source)

    def find(self) -> Built | None:
        """The earlier build; None where there is none."""
        return self._in_folder(go_modules.cache_folder(self.module, name=f"peers/{self.name}"))

    def find_or_build(self, *, progress: Progress | None = None) -> Built:
        """The program, built first where it is missing, which takes minutes. Raises PeerMissing."""
        found = self.find()
        if found is not None:
            return found
        if not go_modules.can_build():
            raise PeerMissing(f"{self.name} {self.version} is not built and there is no Go to build it with")
        tell = progress or _to_stderr
        target = go_modules.cache_folder(self.module, name=f"peers/{self.name}")
        try:
            go_modules.build_once(
                target,
                is_complete=lambda: self._in_folder(target) is not None,
                build=lambda partial: self._build(partial, tell),
                progress=tell,
            )
        except BuildFailed as failed:
            raise PeerMissing(str(failed)) from failed
        found = self._in_folder(target)
        if found is None:
            raise PeerMissing(f"{self.source} {self.version} has no {' or no '.join(self.files)}")
        return found

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


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
