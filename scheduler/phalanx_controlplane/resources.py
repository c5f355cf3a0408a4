"""Locates the Go modules of the control plane, of workload controllers and of real nodes."""

from pathlib import Path

from phalanx.resources import existing_dir

_PACKAGE = Path(__file__).resolve().parent


def module_dir(name: str) -> Path:
    """The Go module `controlplane`, or the folder of Go modules `controllers` or `nodes`."""
    return existing_dir(_PACKAGE / "_data" / name, _PACKAGE.parents[1] / "deploy" / name)
