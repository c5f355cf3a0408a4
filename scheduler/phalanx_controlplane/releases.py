"""Earlier releases of Kubernetes that a control plane may have.

The newest release is the one of the module `controlplane`. Of each earlier one there is a module with the
programs that have its version; etcd and KWOK are those of the newest release.
"""

import os
from pathlib import Path
from typing import Final

from phalanx_controlplane import go_modules
from phalanx_controlplane.binaries import (
    KUBERNETES_MODULE,
    Binaries,
    BinariesMissing,
    build_programs,
    build_unless,
    find_or_build,
)
from phalanx_controlplane.go_modules import Progress
from phalanx_controlplane.resources import module_dir

VARIABLE: Final = "PHALANX_KUBERNETES"
"""The environment variable with the release of all control planes that are started, such as 1.34."""

PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def newest() -> str:
    """The release of the programs that are built by default, such as "1.37"."""
    return _release_of(module_dir("controlplane"))


def known() -> tuple[str, ...]:
    """All releases, the earliest first."""
    earlier = sorted(_earlier().iterdir(), key=lambda folder: minor(folder.name))
    return (*(folder.name for folder in earlier), newest())


def minor(release: str) -> int:
    """The second number of a release: 34 of "1.34"."""
    return int(release.partition(".")[2])


def chosen() -> str:
    """The release that the environment names, else the newest. Raises BinariesMissing if it is unknown."""
    release = os.environ.get(VARIABLE) or newest()
    if release not in known():
        raise BinariesMissing(f"Kubernetes {release} is none of {', '.join(known())} (see {VARIABLE})")
    return release


def find_or_build_release(release: str, *, progress: Progress) -> Binaries:
    """The programs of a release; built once, which takes minutes. Raises BinariesMissing."""
    found = find_or_build(progress=progress)
    if release == newest():
        return found
    module = _earlier() / release
    target = go_modules.cache_folder(module, name=f"controlplane-{release}")
    programs = {name: target / name for name in PROGRAMS}

    def build(partial: Path) -> None:
        progress(f"building Kubernetes {release}, once (about ten minutes on two cores)")
        build_programs(PROGRAMS, module=module, target=partial, progress=progress)

    def is_complete() -> bool:
        return all(os.access(path, os.X_OK) for path in programs.values())

    build_unless(is_complete, build, target=target, progress=progress)
    return Binaries(programs={**found.programs, **programs}, stages=found.stages)


def _earlier() -> Path:
    return module_dir("controlplane") / "releases"


def _release_of(module: Path) -> str:
    version = go_modules.required_version((module / "go.mod").read_text(), KUBERNETES_MODULE)
    return version.removeprefix("v").rpartition(".")[0]
