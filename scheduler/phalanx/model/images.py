"""Container images: which ones a pod needs, and which ones a node has.

They are read only where the configuration gives them a price: pods of different images are then of different
classes, and nodes with other images differ.
"""

from typing import Annotated

from msgspec import Meta, Struct


class ImagePrices(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A base of the arguments of the plugin that gives images a price."""

    weight: Annotated[int, Meta(ge=0, le=1000)] = 0
    """What a node without any image of the pod costs more than one that has all, if they are large."""


def normalized(image: str) -> str:
    """The name with a tag, as kubelets report it (`normalizedImageName` in kube-scheduler 1.37)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
