"""What was read of a cluster: the input of all views."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct

from phalanx.model.api.meta import KubeObject

if TYPE_CHECKING:
    from phalanx.model.snapshot import Snapshot

T = TypeVar("T")


class Seen(Struct, frozen=True, kw_only=True):
    """The objects that the user may read, by kind."""

    now_ms: int
    """The time of the reading, in milliseconds since the epoch."""
    namespace: str = ""
    """The namespace of which gangs are shown; empty for all."""
    objects: Mapping[str, tuple[KubeObject, ...]] = {}
    unread: Mapping[str, str] = {}
    """By kind, why its objects could not be read."""
    partial: frozenset[str] = frozenset()
    """Kinds of which only the objects of one namespace could be read, although all were asked for."""
    notes: tuple[str, ...] = ()
    """One line for each kind of which something is left out."""
    snapshot: "Snapshot | None" = None
    """The same objects as the scheduler sees them; None if the command needs no gangs."""

    def of(self, struct: type[T]) -> tuple[T, ...]:
        """The objects of a kind; none if they could not be read."""
        return cast("tuple[T, ...]", self.objects.get(struct.__name__, ()))

    @property
    def cluster(self) -> "Snapshot":
        """The gangs and nodes as the scheduler sees them."""
        assert self.snapshot is not None, "the command did not ask for gangs"
        return self.snapshot

    def shows(self, namespace: str) -> bool:
        """Whether gangs of this namespace were asked for."""
        return self.namespace in ("", namespace)

    @property
    def knows_all_pods(self) -> bool:
        """Whether the pods of all namespaces were read, without which free capacity is unknown."""
        return "Pod" not in self.unread and "Pod" not in self.partial
