"""Finds the programs of a control plane, or builds them once from a Go module.

The programs are searched in this order: the folder of KUBEBUILDER_ASSETS, an earlier build in the cache,
PATH. If none has them, they are built. The name of the cache folder contains the checksum of the module, so
that a new version gets a new build. The stages that KWOK publishes are copied from its module to
`stages/<set>/<name>.yaml` beside the programs.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from phalanx_controlplane import go_modules
from phalanx_controlplane.go_modules import BuildFailed, Progress
from phalanx_controlplane.resources import module_dir

KWOK_MODULE: Final = "sigs.k8s.io/kwok"
KUBERNETES_MODULE: Final = "k8s.io/kubernetes"
PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}


class BinariesMissing(Exception):
    """The programs are missing and cannot be built. The message says what to install."""


class Binaries(Struct, frozen=True):
    """The path of each program, and the folder of KWOK's stages."""

    programs: dict[str, Path]
    stages: Path


def find(*, module: Path | None = None) -> Binaries | None:
    """Find the programs without building; None if some are missing.

    Raises BinariesMissing if KUBEBUILDER_ASSETS is set but does not contain all of them.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _in_assets(Path(assets))
    return _in_folder(cache_folder(module=module)) or _on_path()


def find_or_build(*, progress: Progress, module: Path | None = None) -> Binaries:
    """Find the programs, or build them, which takes minutes.

    Raises BinariesMissing if they cannot be built.
    """
    found = find(module=module)
    if found is not None:
        return found
    if not go_modules.can_build():
        raise BinariesMissing(
            "no Kubernetes control plane: install Go 1.26 or newer (it is then built once), or set "
            f"KUBEBUILDER_ASSETS to a folder with {', '.join(PACKAGES)} and KWOK's stages"
        )
    return _build_once(module=module or module_dir("controlplane"), progress=progress)


def cache_folder(*, module: Path | None = None) -> Path:
    """The cache folder of the build of a module."""
    return go_modules.cache_folder(module or module_dir("controlplane"), name="controlplane")


def _in_assets(folder: Path) -> Binaries:
    found = _in_folder(folder)
    if found is None:
        raise BinariesMissing(f"KUBEBUILDER_ASSETS={folder} must hold {', '.join(PACKAGES)} and stages/")
    return found


def _in_folder(folder: Path) -> Binaries | None:
    programs = {name: folder / name for name in PACKAGES}
    stages = folder / "stages"
    if stages.is_dir() and all(os.access(path, os.X_OK) for path in programs.values()):
        return Binaries(programs=programs, stages=stages)
    return None


def _on_path() -> Binaries | None:
    programs = {name: Path(found) for name in PACKAGES if (found := shutil.which(name))}
    if len(programs) < len(PACKAGES):
        return None
    stages = programs["kwok"].resolve().parent / "stages"
    return Binaries(programs=programs, stages=stages) if stages.is_dir() else None


def _build_once(*, module: Path, progress: Progress) -> Binaries:
    target = cache_folder(module=module)

    def build(partial: Path) -> None:
        progress("building the local control plane, once (about six minutes on two cores)")
        build_programs(tuple(PACKAGES), module=module, target=partial, progress=progress)
        _copy_stages(module=module, target=partial / "stages")

    build_unless(lambda: _in_folder(target) is not None, build, target=target, progress=progress)
    found = _in_folder(target)
    if found is None:
        raise BinariesMissing(f"the build in {target} is not complete; remove that folder and try again")
    return found


def build_unless(
    is_complete: Callable[[], bool], build: Callable[[Path], None], *, target: Path, progress: Progress
) -> None:
    """Fill the folder `target` once by calling `build`. Raises BinariesMissing if that fails."""
    try:
        go_modules.build_once(target, is_complete=is_complete, build=build, progress=progress)
    except BuildFailed as failed:
        raise BinariesMissing(str(failed)) from failed


def build_programs(names: Sequence[str], *, module: Path, target: Path, progress: Progress) -> None:
    """Build programs of PACKAGES into a folder, with the release versions of the module.

    Raises BuildFailed.
    """
    flags = version_stamp((module / "go.mod").read_text())
    for index, name in enumerate(names, start=1):
        progress(f"  {index}/{len(names)} {name}")
        go_modules.build(PACKAGES[name], output=target / name, module=module, linker_flags=flags)


def version_stamp(go_mod: str) -> str:
    """Linker flags that set the release versions, for /version and the nodeInfo of nodes."""
    kubernetes = go_modules.required_version(go_mod, KUBERNETES_MODULE)
    major, minor = kubernetes.removeprefix("v").split(".")[:2]
    variables = {}
    if KWOK_MODULE in go_mod:
        variables[f"{KWOK_MODULE}/pkg/consts.Version"] = go_modules.required_version(go_mod, KWOK_MODULE)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        variables |= {
            f"{package}.gitVersion": kubernetes,
            f"{package}.gitMajor": major,
            f"{package}.gitMinor": minor,
            f"{package}.gitTreeState": "clean",
        }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables.items())])


def _copy_stages(*, module: Path, target: Path) -> None:
    source = go_modules.source_folder(KWOK_MODULE, module=module) / "kustomize" / "stage"
    for stage in sorted(source.glob("*/*/*.yaml")):
        if stage.name != "kustomization.yaml":
            copy = target / stage.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(stage.read_bytes())
