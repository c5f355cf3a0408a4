"""A table of the objects of one kind, converted to the model."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from phalanx.cache.events import ChangeLog, Relisted
from phalanx.model.api.kinds import KINDS, kind_name
from phalanx.model.api.meta import KubeObject
from phalanx.model.conversion.metadata import identity

Key = tuple[str, str]
"""Namespace and name. The namespace is empty for cluster-scoped kinds."""

W = TypeVar("W", bound=KubeObject)
W_contra = TypeVar("W_contra", bound=KubeObject, contravariant=True)
D = TypeVar("D")

_VERSION_DIGITS: Final = 19


class ObjectStore(Protocol[W_contra]):
    """A store of the objects of one kind."""

    def apply(self, written: W_contra, log: ChangeLog) -> None:
        """An object was added or modified."""
        ...

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """An object was deleted. If `uid` is set, only the object with this UID is removed."""
        ...

    def keys(self) -> tuple[Key, ...]:
        """The keys of all stored objects."""
        ...


def key_of(kind: str, namespace: str, name: str) -> Key:
    """The key of an object. The namespace in the manifest of a cluster-scoped kind is ignored."""
    known = KINDS.get(kind)  # none for a workload of the configuration
    return (namespace if known is None or known.namespaced else "", name)


def relist(kept: ObjectStore[KubeObject], event: Relisted, log: ChangeLog) -> None:
    """Replace all stored objects by a complete list."""
    present = {key_of(event.kind, item.metadata.namespace, item.metadata.name) for item in event.objects}
    present.update(key_of(event.kind, namespace, name) for namespace, name in event.unreadable)
    for key in kept.keys():  # noqa: SIM118
        if key not in present:
            kept.delete(key, "", log)
    for item in event.objects:
        kept.apply(item, log)


class Table(Generic[W, D]):
    """Objects by key, each converted once. `changed(key, old, new, log)` is called when one is added, removed
    or changed.

    A modification that leaves the converted object equal changes nothing.
    """

    def __init__(
        self,
        *,
        read: Callable[[W], D],
        changed: Callable[[Key, D | None, D | None, ChangeLog], None],
    ) -> None:
        self._read = read
        self._changed = changed
        self._entries: dict[Key, D] = {}
        self._uids: dict[Key, str] = {}
        self._view: Mapping[str, D] | None = None

    def apply(self, written: W, log: ChangeLog) -> None:
        """See ObjectStore."""
        meta = written.metadata
        key = key_of(kind_name(written), meta.namespace, meta.name)
        new = self._read(written)
        old = self._entries.get(key)
        self._uids[key] = identity("", meta)
        if old == new:
            return
        self._entries[key] = new
        self._view = None
        self._changed(key, old, new, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """See ObjectStore."""
        if key not in self._entries or (uid and uid != self._uids[key]):
            return
        old = self._entries.pop(key)
        del self._uids[key]
        self._view = None
        self._changed(key, old, None, log)

    def keys(self) -> tuple[Key, ...]:
        """See ObjectStore."""
        return tuple(self._entries)

    def get(self, key: Key) -> D | None:
        return self._entries.get(key)

    def values(self) -> tuple[D, ...]:
        return tuple(self._entries.values())

    def by_name(self) -> Mapping[str, D]:
        """All objects by name, sorted, for cluster-scoped kinds. It is the same mapping until one changes."""
        if self._view is None:
            self._view = {key[1]: self._entries[key] for key in sorted(self._entries)}
        return self._view


class VersionedTable(Table[W, D]):
    """A table of objects that also arrive from writes: a version older than the known one is ignored."""

    def __init__(
        self,
        *,
        read: Callable[[W], D],
        changed: Callable[[Key, D | None, D | None, ChangeLog], None],
    ) -> None:
        super().__init__(read=read, changed=changed)
        self._versions: dict[Key, int] = {}

    def apply(self, written: W, log: ChangeLog) -> None:
        """See ObjectStore."""
        meta = written.metadata
        key = key_of(kind_name(written), meta.namespace, meta.name)
        if not is_late(self._versions, key, meta.resource_version):
            super().apply(written, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """See ObjectStore."""
        super().delete(key, uid, log)
        if self.get(key) is None:
            self._versions.pop(key, None)

    def forget_versions(self) -> None:
        """Accept the next versions as they are: a list is authoritative even if etcd was restored."""
        self._versions.clear()


def is_late(versions: dict[Key, int], key: Key, version: str) -> bool:
    """Whether a resourceVersion is older than the known one, which it replaces otherwise. Versions are
    numbers that grow over all objects of a kind."""
    if not (version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS):
        return False
    number = int(version)
    late = number < versions.get(key, 0)
    if not late:
        versions[key] = number
    return late
