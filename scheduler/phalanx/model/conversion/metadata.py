"""Metadata and labels: identity, age, owners, and numbers that users write as label values."""

from datetime import datetime, timezone
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from phalanx.model.api.meta import ObjectMeta, OwnerReference
from phalanx.model.pods import Controller

_COUNT_DIGITS: Final = 9

_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999: later times cannot be told."""


def identity(kind: str, meta: ObjectMeta) -> str:
    """The object's UID; a manifest that never saw an API server is known by kind, namespace and name."""
    return meta.uid or f"{kind}/{meta.namespace}/{meta.name}"


def seconds(timestamp: datetime | None) -> int:
    """Seconds since the epoch, 0 when there is no timestamp. One without a time zone is in UTC."""
    if timestamp is None:
        return 0
    return int((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=timezone.utc)).timestamp())  # noqa: UP017 mypy checks for 3.11, where both exist


def seconds_at(written: str) -> int | None:
    """Since the epoch; None for what is no RFC 3339 time with a time zone since then."""
    try:
        at = seconds(msgspec.convert(written, Annotated[datetime, Meta(tz=True)]))
    except msgspec.ValidationError:
        return None
    return at if 0 <= at <= _LAST_SECOND else None


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
