"""The embedded cluster's storage: JSON objects under one revision counter, bounded history.

It takes the place of etcd and does not know kinds. Stored objects are never changed in place: a write
replaces the whole object, so that readers, history and watchers can share them. Subscribers are called during
the write and must not write. It does not use asyncio.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

SIM_HISTORY_CHANGES: Final = 1 << 15
"""Changes per resource that a watch can start from: three for each of 10,000 pods; about 100 MB when full."""

Object = dict[str, Any]
"""A Kubernetes object as JSON."""


class Key(NamedTuple):
    """Key of an object.

    `resource` is plural or plural.group; `namespace` is empty for cluster scope.
    """

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The part below the resource, by which lists are ordered."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Entry(Struct):
    """One object at one revision, encoded at its first use."""

    key: Key
    data: Object
    revision: int
    encoding: bytes = b""

    @property
    def encoded(self) -> bytes:
        """The object as JSON, without apiVersion and kind where the stored object has none."""
        if not self.encoding:
            self.encoding = msgspec.json.encode(self.data)
        return self.encoding


class ChangeType(StrEnum):
    """Event type of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(Struct, frozen=True):
    """One write.

    The `entry` of a deletion is the last state under the revision of the deletion.
    """

    type: ChangeType
    entry: Entry
    previous: Entry | None


class Compacted(Exception):
    """The history does not reach back to the requested revision; `oldest` is the first known one."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at revision {oldest}")
        self.oldest = oldest


Subscriber = Callable[[Change], None]


class _Resource:
    """All objects of one resource, and its recent changes."""

    def __init__(self, history_limit: int, to_all: list[Subscriber]) -> None:
        self.entries: dict[str, Entry] = {}
        self.history: deque[Change] = deque(maxlen=history_limit)
        self.floor = 0
        self.subscribers: list[Subscriber] = []
        self._to_all = to_all

    def record(self, change: Change) -> None:
        if len(self.history) == self.history.maxlen:
            self.floor = self.history[0].entry.revision
        self.history.append(change)
        for subscriber in (*self.subscribers, *self._to_all):
            subscriber(change)


class Store:
    """Objects by key.

    Every write increases the revision, which becomes the object's resourceVersion.
    """

    def __init__(self, *, history_limit: int = SIM_HISTORY_CHANGES) -> None:
        self.revision = 1
        self._history_limit = history_limit
        self._resources: dict[str, _Resource] = {}
        self._floor = 0
        self._to_all: list[Subscriber] = []

    def get(self, key: Key) -> Entry | None:
        """The object as it is now."""
        return self._of(key.resource).entries.get(key.path)

    def put(self, key: Key, data: Object) -> Entry:
        """Create or replace an object; its metadata is copied and gets the revision."""
        resource = self._of(key.resource)
        previous = resource.entries.get(key.path)
        entry = self._stamp(key, data)
        resource.entries[key.path] = entry
        kind = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        resource.record(Change(kind, entry, previous))
        return entry

    def remove(self, key: Key) -> Entry:
        """Remove an object; returns its last state under the revision of the removal."""
        resource = self._of(key.resource)
        previous = resource.entries.pop(key.path)
        entry = self._stamp(key, previous.data)
        resource.record(Change(ChangeType.DELETED, entry, previous))
        return entry

    def entries(self, resource: str, namespace: str = "", *, at: int | None = None) -> list[Entry]:
        """Objects in order of their paths, now or at revision `at`.

        Raises Compacted.
        """
        found = self._of(resource).entries if at is None else self._entries_at(resource, at)
        prefix = f"{namespace}/" if namespace else ""
        return [found[path] for path in sorted(found) if path.startswith(prefix)]

    def changes_since(self, resource: str, revision: int) -> list[Change]:
        """The changes after `revision`, oldest first. Raises Compacted."""
        self._require_history(resource, revision)
        newer: list[Change] = []
        for change in reversed(self._of(resource).history):
            if change.entry.revision <= revision:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def subscribe(self, resource: str | None, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` at each change, of all resources for None.

        Call the result to unsubscribe.
        """
        subscribers = self._to_all if resource is None else self._of(resource).subscribers
        subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in subscribers:
                subscribers.remove(subscriber)

        return unsubscribe

    def compact(self, revision: int | None = None) -> None:
        """Drop the history up to `revision`, by default all of it."""
        self._floor = self.revision if revision is None else revision
        for resource in self._resources.values():
            while resource.history and resource.history[0].entry.revision <= self._floor:
                resource.history.popleft()

    def oldest_revision(self, resource: str) -> int:
        """The first revision from which a watch of the resource can start."""
        return max(self._floor, self._of(resource).floor)

    def _of(self, resource: str) -> _Resource:
        found = self._resources.get(resource)
        if found is None:
            found = self._resources[resource] = _Resource(self._history_limit, self._to_all)
        return found

    def _stamp(self, key: Key, data: Object) -> Entry:
        self.revision += 1
        metadata = {**data["metadata"], "resourceVersion": str(self.revision)}
        return Entry(key, {**data, "metadata": metadata}, self.revision)

    def _require_history(self, resource: str, revision: int) -> None:
        oldest = self.oldest_revision(resource)
        if revision < oldest:
            raise Compacted(oldest)

    def _entries_at(self, resource: str, revision: int) -> dict[str, Entry]:
        entries = dict(self._of(resource).entries)
        for change in reversed(self.changes_since(resource, revision)):
            if change.previous is None:
                entries.pop(change.entry.key.path, None)
            else:
                entries[change.entry.key.path] = change.previous
        return entries
