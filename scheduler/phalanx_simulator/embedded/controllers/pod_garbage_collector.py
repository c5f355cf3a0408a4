"""The pod garbage collector, as kube-controller-manager's PodGC.

It deletes pods of deleted nodes, and ends deleted pods without a node that a finalizer holds.

The real one runs every 20 seconds and waits 40 more. Here a pod is deleted 40 seconds after it is first seen
on a missing node. A node that is recreated by then keeps its pods.
"""

from functools import partial
from typing import Final

from phalanx_simulator.embedded.apiserver.objects import disruption_target, is_deleting, set_condition
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_POD_GC_QUARANTINE_S: Final = 40.0
"""Seconds from the deletion of a node to that of its pods: fixed in kube-controller-manager."""


class PodGarbageCollector:
    """Force-deletes orphaned pods; those that had not ended are Failed first, with DisruptionTarget."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._quarantined: dict[str, None] = {}
        self._queue = WorkQueue(self._sync)
        self._unsubscribe = [
            client.subscribe("nodes", self._on_node),
            client.subscribe("pods", self._on_pod),
        ]
        for key in client.keys("pods"):
            pod = client.get(key)
            self._check("" if pod is None else pod["spec"].get("nodeName", ""))

    def close(self) -> None:
        """Stop collecting."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._queue.close()

    def _on_node(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self._check(change.entry.key.name)

    def _on_pod(self, change: Change) -> None:
        pod = change.entry.data
        node = pod["spec"].get("nodeName", "")
        self._check(node)
        if not node and is_deleting(pod):
            self._queue.add(change.entry.key)

    def _check(self, node: str) -> None:
        key = Key("nodes", "", node)
        if node and node not in self._quarantined and self._client.get(key) is None:
            self._quarantined[node] = None
            self._queue.call_later(SIM_POD_GC_QUARANTINE_S, partial(self._queue.add, key))

    def _sync(self, key: Key) -> None:
        if key.resource == "pods":
            self._end_unscheduled(key)
            return
        self._quarantined.pop(key.name, None)
        if self._client.get(key) is None:
            for pod in self._client.pods_on(key.name):
                self._collect(pod)

    def _collect(self, key: Key) -> None:
        pod = self._client.get(key)
        if pod is None:
            return
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            self._client.update_status(key, **self._failed(pod))
        self._client.delete(key, uid=pod["metadata"]["uid"], grace_s=0)

    def _end_unscheduled(self, key: Key) -> None:
        pod = self._client.get(key)
        if pod is None or not is_deleting(pod) or pod["spec"].get("nodeName"):
            return
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            self._client.update_status(key, phase="Failed")

    def _failed(self, pod: Object) -> Object:
        target = disruption_target("DeletionByPodGC", "PodGC: node no longer exists", now=self._client.now())
        return {"phase": "Failed", "conditions": set_condition(pod["status"].get("conditions", []), target)}
