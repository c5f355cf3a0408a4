"""A scheduler's view of nodes and pods, which may lag behind the API."""

from collections import deque

from phalanx.model.resources import Resources, add

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.pod_requests import requests_of
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue


class ClusterView:
    """Nodes and the resources that bound pods use.

    Seen changes are added to `queue`.

    Own binds are known at once, so a late view makes a scheduler overlook others, never itself.
    """

    def __init__(self, client: Client, *, delay_s: float, queue: WorkQueue) -> None:
        self.nodes: dict[str, Object] = {}
        self._delay_s = delay_s
        self._queue = queue
        self._unseen: deque[Change] = deque()
        self._taken: dict[Key, tuple[str, str, Resources]] = {}
        self._used: dict[str, Resources] = {}
        self._unsubscribe = [client.subscribe(name, self._on_change) for name in ("nodes", "pods")]
        for key in (*client.keys("nodes"), *client.keys("pods")):
            found = client.get(key)
            if found is not None:
                self._see(key, found)

    def close(self) -> None:
        """See nothing more."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def used(self, node: str) -> Resources:
        """Resources that pods use on the node."""
        return self._used.get(node, {})

    def assume(self, key: Key, pod: Object, node: str) -> None:
        """Count a pod that was just bound."""
        self._take(key, pod["metadata"]["uid"], node, requests_of(pod))

    def _on_change(self, change: Change) -> None:
        self._unseen.append(change)
        if self._delay_s:
            self._queue.call_later(self._delay_s, self._see_next)
        else:
            self._see_next()

    def _see_next(self) -> None:
        """Apply the oldest change first, in whatever order timers of one moment fire."""
        change = self._unseen.popleft()
        self._see(change.entry.key, None if change.type is ChangeType.DELETED else change.entry.data)

    def _see(self, key: Key, item: Object | None) -> None:
        if key.resource == "pods":
            self._see_pod(key, item)
        elif item is None:
            self.nodes.pop(key.name, None)
        else:
            self.nodes[key.name] = item
        self._queue.add(key)

    def _see_pod(self, key: Key, pod: Object | None) -> None:
        uid, node = ("", "") if pod is None else (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        taken = self._taken.get(key)
        if pod is not None and not node and taken is not None and taken[0] == uid:
            return
        self._free(key)
        if pod is not None and node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            self._take(key, uid, node, requests_of(pod))

    def _take(self, key: Key, uid: str, node: str, requests: Resources) -> None:
        self._free(key)
        self._taken[key] = (uid, node, requests)
        self._used[node] = add(self._used.get(node, {}), requests)

    def _free(self, key: Key) -> None:
        taken = self._taken.pop(key, None)
        if taken is not None:
            _, node, requests = taken
            self._used[node] = {
                name: amount - requests.get(name, 0) for name, amount in self._used[node].items()
            }
