"""Builds programs of published Go modules, once per set of versions.

The name of a cache folder contains a checksum of the inputs of the build, so that a new version gets a new
build.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from phalanx_controlplane import limits

Progress = Callable[[str], None]

_BUILD_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false")


class BuildFailed(Exception):
    """The Go toolchain failed. The message contains the end of its output."""


def can_build() -> bool:
    """Whether a Go toolchain is installed."""
    return shutil.which("go") is not None


def cache_folder(module: Path, *, name: str) -> Path:
    """The cache folder of a build. Its name contains a checksum of the inputs, sources of ours included."""
    digest = hashlib.sha256()
    for file in (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))):
        digest.update(file.read_bytes())
    digest.update(" ".join((*_BUILD_FLAGS, platform.system(), platform.machine())).encode())
    return _cache_root() / name / digest.hexdigest()[:16]


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "phalanx"


def build_once(
    target: Path, *, is_complete: Callable[[], bool], build: Callable[[Path], None], progress: Progress
) -> None:
    """Fill `target` by calling `build`, unless it is complete.

    Only one of several processes builds. `build` gets a temporary folder, which is renamed at the end, so
    that an incomplete build is never found.
    """
    with _locked(target.with_suffix(".lock"), progress=progress):
        if is_complete():
            return
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        build(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        progress(f"the programs are in {target}")


@contextmanager
def _locked(path: Path, *, progress: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process builds the same programs; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(
    package: str, *, output: Path, module: Path, linker_flags: str = "-s -w", tags: tuple[str, ...] = ()
) -> None:
    """Build one program. Raises BuildFailed."""
    tagged = (f"-tags={','.join(tags)}",) if tags else ()
    _go(
        "build", *_BUILD_FLAGS, *tagged, f"-ldflags={linker_flags}", "-o", str(output), package, module=module
    )


def source_folder(dependency: str, *, module: Path) -> Path:
    """The folder of a dependency of `module` in Go's module cache.

    Raises BuildFailed.
    """
    return Path(_go("list", "-m", "-f", "{{.Dir}}", dependency, module=module).strip())


def required_version(go_mod: str, dependency: str) -> str:
    """The version of a dependency in a go.mod.

    Raises BuildFailed.
    """
    found = re.search(rf"^\s*(?:require )?{re.escape(dependency)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise BuildFailed(f"go.mod does not require {dependency}")
    return found.group(1)


def _go(*arguments: str, module: Path) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=limits.CONTROL_PLANE_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailed(f"`go {arguments[0]}` failed in {module}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
