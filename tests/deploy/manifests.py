"""The manifests of deploy/, as kustomize collects them."""

from pathlib import Path
from typing import Any

from tests import fast_yaml

Document = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"


def kustomization(folder: Path) -> Document:
    found: Document = fast_yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def resources(folder: Path) -> list[Document]:
    """All documents of a kustomization, including those of kustomizations that it refers to."""
    found: list[Document] = []
    for name in kustomization(folder)["resources"]:
        path = folder / name
        found += resources(path) if path.is_dir() else fast_yaml.safe_load_all(path.read_text())
    return found


def base(kind: str, name: str | None = None) -> Document:
    """The only document of this kind (and name) in deploy/base."""
    named = [each for each in resources(DEPLOY / "base") if each["kind"] == kind]
    (found,) = [each for each in named if name in (None, each["metadata"]["name"])]
    return found
