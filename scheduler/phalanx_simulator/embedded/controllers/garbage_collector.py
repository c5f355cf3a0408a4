"""The garbage collector and the namespace controller."""

from phalanx_simulator.embedded.apiserver.objects import is_deleting, without
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


class GarbageCollector:
    """Deletes orphaned dependents, resolves deletion finalizers, and empties namespaces."""

    def __init__(self, client: Client, *, resources: list[str]) -> None:
        self._client = client
        self._alive: dict[str, Key] = {}
        self._dependents: dict[str, dict[Key, None]] = {}
        self._queue = WorkQueue(self._sync)
        self._unsubscribe = client.subscribe(None, self._on_change)
        for key in [key for resource in resources for key in client.keys(resource)]:
            self._register(key, client.get(key) or {})

    def close(self) -> None:
        """Stop collecting."""
        self._unsubscribe()
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        key, uid = change.entry.key, change.entry.data["metadata"]["uid"]
        if change.type is not ChangeType.DELETED:
            self._register(key, change.entry.data)
            return
        self._alive.pop(uid, None)
        for owner in _owner_uids(change.entry.data):
            self._dependents.get(owner, {}).pop(key, None)
            if owner in self._alive:
                self._queue.add(self._alive[owner])
        for dependent in self._dependents.get(uid, {}):
            self._queue.add(dependent)
        if key.namespace:
            self._queue.add(Key("namespaces", "", key.namespace))

    def _register(self, key: Key, item: Object) -> None:
        self._alive[item["metadata"]["uid"]] = key
        owners = _owner_uids(item)
        for owner in owners:
            self._dependents.setdefault(owner, {})[key] = None
        if owners or is_deleting(item):
            self._queue.add(key)

    def _sync(self, key: Key) -> None:
        item = self._client.get(key)
        if item is None:
            return
        if is_deleting(item):
            self._finish(key, item)
        elif (owners := _owner_uids(item)) and not any(owner in self._alive for owner in owners):
            self._client.delete(key, uid=item["metadata"]["uid"])

    def _finish(self, key: Key, item: Object) -> None:
        """Process the finalizer that holds a deleted object."""
        finalizers = item["metadata"].get("finalizers", [])
        uid = item["metadata"]["uid"]
        dependents = list(self._dependents.get(uid, {}))
        if _ORPHAN in finalizers:
            for dependent in dependents:
                self._client.update(dependent, lambda found: _without_owner(found, uid))
            self._dependents.pop(uid, None)
            self._client.update(key, lambda found: _without_finalizer(found, _ORPHAN))
        elif _FOREGROUND in finalizers and not self._delete_all(dependents):
            self._client.update(key, lambda found: _without_finalizer(found, _FOREGROUND))
        elif key.resource == "namespaces" and not self._delete_all(self._client.keys_in(key.name)):
            self._client.finalize(key, lambda found: {**found, "spec": {**found["spec"], "finalizers": []}})

    def _delete_all(self, keys: list[Key]) -> bool:
        """Delete all of them; true if any is left."""
        for key in keys:
            item = self._client.get(key)
            if item is not None and not is_deleting(item):
                self._client.delete(key, uid=item["metadata"]["uid"])
        return any(self._client.get(key) is not None for key in keys)


def _owner_uids(item: Object) -> list[str]:
    return [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]


def _without_owner(item: Object, uid: str) -> Object:
    owners = [owner for owner in item["metadata"].get("ownerReferences", []) if owner["uid"] != uid]
    rest = without(item["metadata"], "ownerReferences")
    return {**item, "metadata": {**rest, "ownerReferences": owners} if owners else rest}


def _without_finalizer(item: Object, name: str) -> Object:
    left = [finalizer for finalizer in item["metadata"].get("finalizers", []) if finalizer != name]
    return {**item, "metadata": {**item["metadata"], "finalizers": left}}
