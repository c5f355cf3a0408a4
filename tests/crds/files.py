"""The CRDs and their examples as Python objects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from phalanx.resources import data_dir

FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML may be built without libyaml, which is ten times as fast."""

Document = dict[str, Any]

FOLDER = data_dir("crds")
VALID = sorted((FOLDER / "examples" / "valid").glob("*.yaml"))
INVALID = sorted((FOLDER / "examples" / "invalid").glob("*.yaml"))
API_VERSION = "scheduling.phalanx.dev/v1alpha1"


def documents(path: Path) -> list[Document]:
    return list(yaml.load_all(path.read_text(), Loader=FAST))


def definitions() -> dict[str, Document]:
    """CRDs by kind, from the files that the kustomization names."""
    names = documents(FOLDER / "kustomization.yaml")[0]["resources"]
    found = [document for name in names for document in documents(FOLDER / name)]
    return {each["spec"]["names"]["kind"]: each for each in found}


def version(kind: str) -> Document:
    """The only version of a kind."""
    (found,) = definitions()[kind]["spec"]["versions"]
    return dict(found)


def schema(kind: str, part: str) -> Document:
    """The schema of `spec` or `status`."""
    return dict(version(kind)["schema"]["openAPIV3Schema"]["properties"][part])


def ours(path: Path) -> list[Document]:
    """The documents of an example that are of our own kinds."""
    return [document for document in documents(path) if document["apiVersion"] == API_VERSION]


def subschemas(found: Document, path: str) -> Iterator[tuple[str, Document]]:
    """Every schema below and including this one, with a readable path."""
    yield path, found
    for name, child in found.get("properties", {}).items():
        yield from subschemas(child, f"{path}.{name}")
    if "items" in found:
        yield from subschemas(found["items"], f"{path}[]")
    if "additionalProperties" in found:
        yield from subschemas(found["additionalProperties"], f"{path}{{}}")
