"""Locates data files of the distribution: CRDs, manifests, and Go modules of the local control plane."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT_FOLDERS = {
    "crds": "crds",
    "base": "deploy/base",
    "controlplane": "deploy/controlplane",
    "controllers": "deploy/controllers",
    "nodes": "deploy/nodes",
}


def data_dir(name: str) -> Path:
    """Folder of the data set `name`: the installed one, else that of the checkout.

    `crds`; `base`, the manifests of an installation; `controlplane`, a Go module; `controllers` and `nodes`,
    folders of Go modules. Raises KeyError for an unknown name, FileNotFoundError if there is no such folder.
    """
    candidates = (_PACKAGE / "_data" / name, _PACKAGE.parents[1] / _CHECKOUT_FOLDERS[name])
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"data set {name!r} is in none of {', '.join(map(str, candidates))}")
