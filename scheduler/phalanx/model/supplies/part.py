"""The part of a snapshot that belongs to a supply: what kinds of the API of its own describe."""

from functools import cache
from typing import ClassVar, TypeVar

from msgspec import Struct


class SupplyPart(Struct, frozen=True):
    """Without arguments it is the part of a cluster that has none of these kinds."""

    supply: ClassVar[str]
    """The name of the supply."""


class SupplyVersions(Struct, frozen=True, gc=False):
    """Counts changes that concern only gangs which use the supply.

    - `capacity` grows whenever a change may let a refused gang have more of it.
    - `cluster` grows whenever a change may let a gang have more of it even in the empty cluster.
    """

    capacity: int = 0
    cluster: int = 0


P = TypeVar("P", bound=SupplyPart)


@cache
def empty_part(kind: type[P]) -> P:
    """The part of a cluster that has none of these kinds: the same object for each kind."""
    return kind()
