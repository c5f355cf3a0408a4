"""Metadata and labels: identity, age, owners, and numbers that users write as label values."""

from datetime import datetime
from typing import Final

from phalanx.model.pods import Controller
from phalanx.model.wire.meta import ObjectMeta, OwnerReference

_COUNT_DIGITS: Final = 9


def identity(kind: str, meta: ObjectMeta) -> str:
    """The object's UID; a manifest that never saw an API server is known by kind, namespace and name."""
    return meta.uid or f"{kind}/{meta.namespace}/{meta.name}"


def seconds(timestamp: datetime | None) -> int:
    """Seconds since the epoch, 0 when there is no timestamp."""
    return 0 if timestamp is None else int(timestamp.timestamp())


def controller_of(owners: tuple[OwnerReference, ...]) -> Controller | None:
    """The owner that is marked as controller."""
    for owner in owners:
        if owner.controller:
            return Controller(kind=owner.kind, name=owner.name, uid=owner.uid)
    return None


def count(label: str | None) -> int | None:
    """A label value as a number of at most nine plain digits, else None."""
    if label is None or len(label) > _COUNT_DIGITS or not (label.isascii() and label.isdigit()):
        return None
    return int(label)
