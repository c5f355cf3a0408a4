"""Taint-based eviction, as kube-controller-manager's TaintEviction.

The pod gets the condition DisruptionTarget and is then deleted with its own grace period. On a lost node it
therefore stays Terminating until the kubelet is reconnected or the Node object is deleted.
"""

import asyncio
from functools import partial

from msgspec import Struct

from phalanx_simulator.embedded.apiserver.objects import disruption_target, is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.pod_requests import matching
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue


class _Plan(Struct, frozen=True):
    """A planned eviction.

    `since_ms`: time of the first taint; later taints do not change it. `due_ms`: time of the eviction.
    """

    uid: str
    since_ms: int
    due_ms: int


class TaintEviction:
    """Deletes pods that do not tolerate a NoExecute taint of their node."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tainted: dict[str, list[Object]] = {}
        self._plans: dict[Key, _Plan] = {}
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, "nodes", "pods")

    def close(self) -> None:
        """Evict nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        if key.resource == "nodes":
            self._sync_node(key)
        else:
            self._sync_pod(key)

    def _sync_node(self, key: Key) -> None:
        node = self._client.get(key)
        taints = [] if node is None else node["spec"].get("taints") or []
        found = [taint for taint in taints if taint["effect"] == "NoExecute"]
        if found == self._tainted.get(key.name, []):
            return
        self._tainted[key.name] = found
        if not found:
            del self._tainted[key.name]
        for pod in self._client.pods_on(key.name):
            self._queue.add(pod)

    def _sync_pod(self, key: Key) -> None:
        pod = self._client.get(key)
        node = None if pod is None else pod["spec"].get("nodeName")
        taints = self._tainted.get(node or "", [])
        plan = self._plans.pop(key, None)
        if pod is None or is_deleting(pod) or not taints:
            return
        tolerated_s = _tolerated_s(pod, taints)
        if tolerated_s is None:
            return
        now_ms, uid = round(asyncio.get_running_loop().time() * 1000), pod["metadata"]["uid"]
        if plan is None or plan.uid != uid:
            plan = _Plan(uid, now_ms, now_ms + tolerated_s * 1000)
            self._queue.call_later(tolerated_s, partial(self._queue.add, key))
        elif plan.since_ms + tolerated_s * 1000 < plan.due_ms:
            plan = _Plan(uid, plan.since_ms, plan.since_ms + tolerated_s * 1000)
            self._queue.call_later(max(0, plan.due_ms - now_ms) / 1000, partial(self._queue.add, key))
        if plan.due_ms <= now_ms:
            self._evict(key, uid)
        else:
            self._plans[key] = plan

    def _evict(self, key: Key, uid: str) -> None:
        why = "Taint manager: deleting due to NoExecute taint"
        target = disruption_target("DeletionByTaintManager", why, now=self._client.now())
        self._client.update_status(key, condition=target)
        self._client.delete(key, uid=uid)


def _tolerated_s(pod: Object, taints: list[Object]) -> int | None:
    """Seconds for which the pod tolerates all the taints; None without limit."""
    tolerations, limits = pod["spec"].get("tolerations") or [], []
    for taint in taints:
        matches = matching(taint, tolerations)
        if not matches:
            return 0
        limits += [
            toleration["tolerationSeconds"] for toleration in matches if "tolerationSeconds" in toleration
        ]
    return max(0, min(limits)) if limits else None
