"""The programs of a real node: built once from Go modules, or packages of Debian.

runc and the plugins for the network of pods are packages of Debian (`runc`, `containernetworking-plugins`).
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

from phalanx_controlplane import binaries, go_modules
from phalanx_controlplane.go_modules import BuildFailed, Progress
from phalanx_controlplane.nodes import cgroups, limits
from phalanx_controlplane.resources import module_dir

_KUBERNETES: Final = ("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kubectl")
_CONTAINERD: Final = tuple(
    f"github.com/containerd/containerd/v2/cmd/{name}"
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
_NAMES: Final = (*(package.rpartition("/")[2] for package in (*_KUBERNETES, *_CONTAINERD)), "pause")
NETWORK_PLUGINS: Final = Path("/usr/lib/cni")
TOOLS: Final = {"runc": "runc", "ip": "iproute2", "unshare": "util-linux", "openssl": "openssl"}
"""Programs of Debian, and the package of each."""

NAMESPACES: Final = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""The command before one that runs in namespaces of its own, which end with it."""


class ProgramsMissing(Exception):
    """Something that real nodes need is missing. The message says what."""


class NodePrograms(Struct, frozen=True):
    """The folder of the built programs."""

    folder: Path

    def path(self, name: str) -> Path:
        """The path of one of them."""
        return self.folder / name


def missing() -> str:
    """Why there can be no real nodes on this machine; empty if there can."""
    if os.getuid() != 0:
        return "real nodes need root"
    packages = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if not (NETWORK_PLUGINS / "bridge").exists():
        packages.append("containernetworking-plugins")
    if packages:
        return f"not installed: {' '.join(packages)}"
    if not go_modules.can_build() and _found() is None:
        return "not built, and there is no Go to build them with"
    return _not_allowed()


def _not_allowed() -> str:
    """Why root may not do here what nodes need, as in many containers; empty if it may."""
    done = subprocess.run(
        [*NAMESPACES, "ip", "link", "add", "probe", "type", "bridge"],
        capture_output=True,
        text=True,
        timeout=limits.COMMAND_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        return f"root may not make namespaces and a bridge in them: {done.stderr.strip()}"
    return "" if cgroups.writable() else "root may not make control groups"


def find_or_build(progress: Progress) -> NodePrograms:
    """The programs, which are built if they are missing. Raises ProgramsMissing."""
    if reason := missing():
        raise ProgramsMissing(reason)
    if (found := _found()) is not None:
        return found
    target = _target()
    try:
        go_modules.build_once(
            target,
            is_complete=lambda: _found() is not None,
            build=lambda partial: _build(partial, progress),
            progress=progress,
        )
    except BuildFailed as failed:
        raise ProgramsMissing(str(failed)) from failed
    return NodePrograms(target)


def _target() -> Path:
    modules = sorted(path.parent for path in module_dir("nodes").glob("*/go.mod"))
    keys = [go_modules.cache_folder(module, name="nodes").name[:8] for module in modules]
    return go_modules.cache_folder(modules[0], name="nodes").with_name("-".join(keys))


def _found() -> NodePrograms | None:
    target = _target()
    complete = all(os.access(target / name, os.X_OK) for name in _NAMES)
    return NodePrograms(target) if complete else None


def _build(target: Path, progress: Progress) -> None:
    progress("building kubelet and containerd, once (some minutes)")
    folder = module_dir("nodes")
    kubernetes, containerd = folder / "kubernetes", folder / "containerd"
    stamp = binaries.version_stamp((kubernetes / "go.mod").read_text())
    for package in _KUBERNETES:
        go_modules.build(package, output=target / _name(package), module=kubernetes, linker_flags=stamp)
    for package in _CONTAINERD:
        go_modules.build(package, output=target / _name(package), module=containerd, tags=("no_btrfs",))
    go_modules.build(".", output=target / "pause", module=folder / "pause")


def _name(package: str) -> str:
    return package.rpartition("/")[2]
