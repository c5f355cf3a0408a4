"""The answer of the API server for one kind of objects."""

from msgspec import Struct

from phalanx.model.api.meta import KubeObject


class Listed(Struct, frozen=True):
    """The answer for one kind."""

    kind: str
    objects: tuple[KubeObject, ...] = ()
    why_not: str = ""
    """Why it was not read, or only in part; empty if all of it was read."""
    is_partial: bool = False
    is_served: bool = True
