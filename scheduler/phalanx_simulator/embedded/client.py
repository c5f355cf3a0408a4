"""API client of the embedded controllers: direct calls, same rules as over HTTP."""

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
    """Verbs on objects by key. Reads return the latest state, None for a missing object.

    `changes` counts the writes that changed something.
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
        """All objects of a namespace."""
        resources = [kind.resource for kind in self._server.types.all() if kind.namespaced]
        return [key for resource in resources for key in self.keys(resource) if key.namespace == namespace]

    def pods_on(self, node: str) -> list[Key]:
        """The pods bound to a node in order of arrival, even if the node does not exist."""
        return self._pods.on(node)

    def subscribe(self, resource: str | None, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` at each change of a resource, or of all.

        Call the result to unsubscribe.
        """
        return self._server.store.subscribe(resource, subscriber)

    def create(self, resource: str, namespace: str, new: Object) -> Object:
        """Create an object. Raises ApiError."""
        target = self._target(Key(resource, namespace, ""))
        return self._counted(lambda: self._server.registry.create(target, new)).data

    def update(self, key: Key, change: Change) -> None:
        """Change an object; a missing object is ignored.

        Raises ApiError for other errors.
        """
        self._unless_gone(lambda: self._server.registry.update(self._target(key), change))

    def update_status(self, key: Key, **fields: object) -> None:
        """Set fields of the status, and a `condition` by its type.

        A missing object is ignored.
        """
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
        """Evict the pod with this UID; false where the budget or a conflict prevents it."""
        eviction = {"metadata": {"name": key.name}, "deleteOptions": {"preconditions": {"uid": uid}}}
        try:
            self._counted(lambda: self._server.registry.evict(self._target(key), eviction))
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS):
                raise
            return False
        return True

    def delete(self, key: Key, *, uid: str, grace_s: int | None = None) -> None:
        """Delete the object with this UID in the background.

        A missing or recreated object is ignored.
        """
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
    """An index of pods by node, built at its first use."""

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
