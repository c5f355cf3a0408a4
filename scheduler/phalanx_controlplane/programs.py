"""Builds one program of a published Go module, from a Go module of ours that pins all versions.

Files of the published module (CRDs, webhooks, documented configuration) are extracted at the same time. They
are not copied into this repository, so they always match the version.
"""

from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from phalanx_controlplane import go_modules
from phalanx_controlplane.go_modules import BuildFailed, Progress

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, if PyYAML has it: the CRDs of Ray take it a second, and 15 s in Python."""


class ProgramMissing(Exception):
    """The program is missing and cannot be built; the message has the reason."""


class Built(Struct, frozen=True):
    """A program, and the folder of the files of its module."""

    program: Path
    files: Path

    def read(self, *patterns: str) -> list[Any]:
        """All YAML documents of the module's files that match the patterns, by pattern, then by path."""
        paths = [path for pattern in patterns for path in sorted(self.files.glob(pattern))]
        documents = (document for path in paths for document in yaml.load_all(path.read_text(), _Loader))
        return [document for document in documents if document is not None]


class Program(Struct, frozen=True, kw_only=True):
    """A program, and where it comes from."""

    name: str
    module: Path
    """The folder of our Go module, which pins its version."""
    cache: str
    """The folder of its builds in the cache."""
    source: str
    """The published module."""
    package: str
    """The package of the program."""
    files: tuple[str, ...] = ()
    """Patterns of required files of the published module."""
    tags: tuple[str, ...] = ()
    """Build tags of Go. With others, `cache` must be another."""

    @property
    def version(self) -> str:
        """The version of the published module."""
        return go_modules.required_version((self.module / "go.mod").read_text(), self.source)

    def built(self) -> Built:
        """The existing build. Raises ProgramMissing when there is none."""
        found = self._in_folder(self._target())
        if found is None:
            raise ProgramMissing(f"{self.name} {self.version} is not built")
        return found

    def build(self, progress: Progress) -> None:
        """Build the program if it is missing, which takes minutes. Raises ProgramMissing."""
        target = self._target()
        if self._in_folder(target) is not None:
            return
        if not go_modules.can_build():
            raise ProgramMissing(
                f"{self.name} {self.version} is not built, and there is no Go to build it with: "
                "install Go 1.26 or newer"
            )
        try:
            go_modules.build_once(
                target,
                is_complete=lambda: self._in_folder(target) is not None,
                build=lambda partial: self._build(partial, progress),
                progress=progress,
            )
        except BuildFailed as failed:
            raise ProgramMissing(f"{self.name} {self.version}: {failed}") from failed

    def _target(self) -> Path:
        return go_modules.cache_folder(self.module, name=self.cache)

    def _in_folder(self, folder: Path) -> Built | None:
        built = Built(program=folder / self.name, files=folder / "files")
        complete = built.program.is_file() and all(any(built.files.glob(each)) for each in self.files)
        return built if complete else None

    def _build(self, target: Path, progress: Progress) -> None:
        progress(f"building {self.name} {self.version}, once (minutes, if its dependencies are new)")
        go_modules.build(self.package, output=target / self.name, module=self.module, tags=self.tags)
        source = go_modules.source_folder(self.source, module=self.module)
        for path in sorted(path for pattern in self.files for path in source.glob(pattern)):
            copy = target / "files" / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        if self._in_folder(target) is None:
            raise ProgramMissing(f"{self.source} {self.version} has not all of {', '.join(self.files)}")
