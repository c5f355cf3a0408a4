"""Finds the programs of a control plane, or builds them once from the Go module in deploy/controlplane.

Order: the folder named by KUBEBUILDER_ASSETS, an earlier build in the cache, PATH, a new build. The cache
folder is keyed by the module's checksum, so another version never meets an old build. KWOK's own published
stages come from its module and lie beside the programs, in `stages/<set>/<name>.yaml`.
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

from msgspec import Struct

from phalanx import limits
from phalanx.resources import data_dir

Progress = Callable[[str], None]

KWOK_MODULE: Final = "sigs.k8s.io/kwok"
KUBERNETES_MODULE: Final = "k8s.io/kubernetes"
PACKAGES: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
_BUILD_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false")


class BinariesMissing(Exception):
    """The programs are not there and cannot be built; the message says what to install."""


class Binaries(Struct, frozen=True):
    """Where each program is, and the folder of KWOK's stages."""

    programs: dict[str, Path]
    stages: Path


def find(*, module: Path | None = None) -> Binaries | None:
    """The programs as they are now, without building; None where some are missing.

    Raises BinariesMissing where KUBEBUILDER_ASSETS is set but does not hold all of them.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _in_assets(Path(assets))
    return _in_folder(cache_folder(module=module)) or _on_path()


def find_or_build(*, progress: Progress, module: Path | None = None) -> Binaries:
    """The programs, built first where they are missing, which takes minutes.

    Raises BinariesMissing where that is impossible.
    """
    found = find(module=module)
    if found is not None:
        return found
    if not can_build():
        raise BinariesMissing(
            "no Kubernetes control plane: install Go 1.26 or newer (it is then built once), or set "
            f"KUBEBUILDER_ASSETS to a folder with {', '.join(PACKAGES)} and KWOK's stages"
        )
    return _build_once(module=module or data_dir("controlplane"), progress=progress)


def can_build() -> bool:
    """Whether there is a Go toolchain."""
    return shutil.which("go") is not None


def cache_folder(*, module: Path | None = None) -> Path:
    """The folder of one build: a checksum of everything that decides its content."""
    module = module or data_dir("controlplane")
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    digest.update(" ".join((*_BUILD_FLAGS, platform.system(), platform.machine())).encode())
    return _cache_root() / digest.hexdigest()[:16]


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "phalanx" / "controlplane"


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
    with _locked(target.with_suffix(".lock"), progress=progress):
        found = _in_folder(target)
        if found is None:
            _build(module=module, target=target, progress=progress)
            found = _in_folder(target)
    if found is None:
        raise BinariesMissing(f"the build in {target} is not complete; remove that folder and try again")
    return found


@contextmanager
def _locked(path: Path, *, progress: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process builds the control plane; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(*, module: Path, target: Path, progress: Progress) -> None:
    """Build into a folder beside the target and rename it at the end, so that a half build is never found."""
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    progress("building the local control plane, once (about six minutes on two cores)")
    flags = f"-ldflags={_version_stamp((module / 'go.mod').read_text())}"
    for index, (name, package) in enumerate(PACKAGES.items(), start=1):
        progress(f"  {index}/{len(PACKAGES)} {name}")
        _go("build", *_BUILD_FLAGS, flags, "-o", str(partial / name), package, module=module)
    _copy_stages(module=module, target=partial / "stages")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    progress(f"the local control plane is in {target}")


def _version_stamp(go_mod: str) -> str:
    """Linker flags that make /version and kwok's nodeInfo say which release was built, not v0.0.0."""
    kubernetes, kwok = _required_version(go_mod, KUBERNETES_MODULE), _required_version(go_mod, KWOK_MODULE)
    major, minor = kubernetes.removeprefix("v").split(".")[:2]
    variables = {f"{KWOK_MODULE}/pkg/consts.Version": kwok}
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        variables |= {
            f"{package}.gitVersion": kubernetes,
            f"{package}.gitMajor": major,
            f"{package}.gitMinor": minor,
            f"{package}.gitTreeState": "clean",
        }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables.items())])


def _required_version(go_mod: str, module: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise BinariesMissing(f"go.mod does not require {module}")
    return found.group(1)


def _copy_stages(*, module: Path, target: Path) -> None:
    kwok = _go("list", "-m", "-f", "{{.Dir}}", KWOK_MODULE, module=module).strip()
    source = Path(kwok) / "kustomize" / "stage"
    for stage in sorted(source.glob("*/*/*.yaml")):
        if stage.name != "kustomization.yaml":
            copy = target / stage.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(stage.read_bytes())


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
        raise BinariesMissing(f"`go {arguments[0]}` failed in {module}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
