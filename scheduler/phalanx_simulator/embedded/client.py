"""How the embedded controllers reach their API server: plain calls, under the same rules as over HTTP."""

from collections.abc import Callable
from typing import TypeVar

from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.apiserver.objects import set_condition
from phalanx_simulator.embedded.apiserver.registry import Change
from phalanx_simulator.embedded.apiserver.requests import Target
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.store import Change as StoreChange
from phalanx_simulator.embedded.store import ChangeType, Key, Object, Store, Subscriber

T = TypeVar("T")

_NOT_FOUND = 404
_CONFLICT = 409
_TOO_MANY_REQUESTS = 429


class Client:
    """Verbs on objects by their key. Reading sees the latest state; what is gone is None.

    `changes` counts the writes that have changed something.
    """

    def __init__(self, server: ApiServer) -> None:
        self.changes = 0
        self._server = server
        self._pods = _PodsByNode(server.store)

    def now(self) -> str:
        """The server's time as a timestamp."""
        return self._server.registry.stamps.now()

    def get(self, key: Key) -> Object | None:
        """The object as it is now."""
        entry = self._server.store.get(key)
        return None if entry is None else entry.data

    def keys(self, resource: str) -> list[Key]:
        """All objects of a resource, in order of their names."""
        return [entry.key for entry in self._server.store.entries(resource)]

    def keys_in(self, namespace: str) -> list[Key]:
        """Everything that lies in a namespace."""
        resources = [kind.resource for kind in self._server.types.all() if kind.namespaced]
        return [key for resource in resources for key in self.keys(resource) if key.namespace == namespace]

    def pods_on(self, node: str) -> list[Key]:
        """The pods that are bound to a node, whether that exists or not, in order of their arrival."""
        return self._pods.on(node)

    def subscribe(self, resource: str | None, subscriber: Subscriber) -> Callable[[], None]:
        """Learn of each change of a resource, or of all; the result ends it."""
        return self._server.store.subscribe(resource, subscriber)

    def create(self, resource: str, namespace: str, new: Object) -> Object:
        """Create an object. Raises ApiError."""
        target = self._target(Key(resource, namespace, ""))
        return self._counted(lambda: self._server.registry.create(target, new)).data

    def update(self, key: Key, change: Change) -> None:
        """Change an object that may be gone already. Raises ApiError for other refusals."""
        self._unless_gone(lambda: self._server.registry.update(self._target(key), change))

    def update_status(self, key: Key, **fields: object) -> None:
        """Set fields of the status; a `condition` is set by its type. Nothing happens to what is gone."""
        condition = fields.pop("condition", None)

        def change(item: Object) -> Object:
            status = {**item.get("status", {}), **fields}
            if isinstance(condition, dict):
                status["conditions"] = set_condition(status.get("conditions", []), condition)
            return {**item, "status": status}

        self._unless_gone(lambda: self._server.registry.update_status(self._target(key), change))

    def finalize(self, key: Key, change: Change) -> None:
        """Change the finalizers in a namespace's spec."""
        self._unless_gone(lambda: self._server.registry.finalize(self._target(key), change))

    def bind(self, key: Key, *, uid: str, node: str) -> bool:
        """Bind a pod; false where the server refuses because something changed."""
        binding = {"metadata": {"uid": uid}, "target": {"kind": "Node", "name": node}}
        try:
            self._counted(lambda: self._server.registry.bind(self._target(key), binding))
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise
            return False
        return True

    def evict(self, key: Key, *, uid: str) -> bool:
        """Evict this very pod; false where its budget or anything else does not allow that now."""
        eviction = {"metadata": {"name": key.name}, "deleteOptions": {"preconditions": {"uid": uid}}}
        try:
            self._counted(lambda: self._server.registry.evict(self._target(key), eviction))
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS):
                raise
            return False
        return True

    def delete(self, key: Key, *, uid: str, grace_s: int | None = None) -> None:
        """Delete this very object, in the background; one that is gone or was made anew is left alone."""
        options: Object = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self._unless_gone(lambda: self._server.registry.delete(self._target(key), options))

    def _target(self, key: Key) -> Target:
        return Target(self._server.types.named(key.resource), key.namespace, key.name)

    def _unless_gone(self, write: Callable[[], object]) -> None:
        try:
            self._counted(write)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise

    def _counted(self, write: Callable[[], T]) -> T:
        before = self._server.store.revision
        written = write()
        self.changes += self._server.store.revision > before
        return written


class _PodsByNode:
    """An index that is made when it is asked for the first time, and kept from then on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_node: dict[str, dict[Key, None]] | None = None

    def on(self, node: str) -> list[Key]:
        if self._by_node is None:
            self._by_node = {}
            self._store.subscribe("pods", self._take)
            for entry in self._store.entries("pods"):
                self._take(StoreChange(ChangeType.ADDED, entry, None))
        return list(self._by_node.get(node, ()))

    def _take(self, change: StoreChange) -> None:
        node = change.entry.data["spec"].get("nodeName")
        if self._by_node is None or not node:
            return
        if change.type is ChangeType.DELETED:
            self._by_node.get(node, {}).pop(change.entry.key, None)
        else:
            self._by_node.setdefault(node, {})[change.entry.key] = None
