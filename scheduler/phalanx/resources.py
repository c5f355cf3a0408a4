"""Locates data files of the distribution: CRDs, and the manifests of an installation."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def data_dir(name: str) -> Path:
    """Folder of the data set `name`, which is `crds` or `base`, the manifests of an installation."""
    return existing_dir(_PACKAGE / "_data" / name, _CHECKOUT / {"crds": "crds", "base": "deploy/base"}[name])


def existing_dir(*candidates: Path) -> Path:
    """The first of these folders that exists: the installed one, else that of the checkout.

    Raises FileNotFoundError if there is none.
    """
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"there is none of the folders {', '.join(map(str, candidates))}")
