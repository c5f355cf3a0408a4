"""Names of the amounts that a session knows: volumes that exist already, and space for new ones."""

from typing import Final

STATIC: Final = "static"
SPACE: Final = "space"


def static_volumes(storage_class: str, digest: str) -> str:
    """The resource for volumes of this class; `digest` stands for the claims that they satisfy."""
    return f"{STATIC}[{storage_class}/{digest}]"


def space(storage_class: str) -> str:
    """The resource for bytes of volumes that are to be provisioned."""
    return f"{SPACE}[{storage_class}]"


def is_space(resource: str) -> bool:
    """Whether the resource stands for such bytes."""
    return resource.startswith(f"{SPACE}[")


def class_of(resource: str) -> str:
    """The StorageClass of one of these resources."""
    name, _, what = resource[:-1].partition("[")
    return what if name == SPACE else what.rpartition("/")[0]
