"""Fake kubelets: every node becomes Ready, and a pod bound to it runs, ends, is rejected or is stopped.

A pod runs for the seconds that its annotation `sim.phalanx.dev/run-seconds` says, then succeeds; without one
it runs until it is deleted. A pod that does not fit on its node fails with a real kubelet's reasons.
"""

from msgspec import Struct

from phalanx.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from phalanx.sim.api.objects import is_deleting
from phalanx.sim.client import Client
from phalanx.sim.footprint import allocatable_of, requests_of
from phalanx.sim.podstatus import failed_status, rejected_status, running_status, succeeded_status
from phalanx.sim.store import Change, Key, Object
from phalanx.sim.workqueue import WorkQueue

RUN_SECONDS = "sim.phalanx.dev/run-seconds"
"""Annotation of a pod: how long it runs, in seconds; fractions are allowed."""

_NODE_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
_NOT_READY_TAINT = "node.kubernetes.io/not-ready"
_OWN_CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}
_FINISHED = ("Succeeded", "Failed")


class _Guest(Struct):
    """A pod that a kubelet has admitted."""

    uid: str
    node: str
    requests: Resources
    is_over: bool = False


class Kubelets:
    """All fake kubelets of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._guests: dict[Key, _Guest] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._early: dict[str, dict[Key, None]] = {}
        self._addresses = 0
        self._queue = WorkQueue(self._handle)
        self._unsubscribe = [client.subscribe(name, self._on_change) for name in ("nodes", "pods")]
        for resource in ("nodes", "pods"):
            for key in client.keys(resource):
                self._queue.add(key)

    def close(self) -> None:
        """All kubelets stop where they are."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        self._queue.add(change.entry.key)

    def _handle(self, key: Key) -> None:
        if key.resource == "nodes":
            self._look_at_node(key)
        else:
            self._look_at_pod(key)

    def _look_at_node(self, key: Key) -> None:
        node = self._client.get(key)
        if node is None or is_deleting(node) or _is_registered(node):
            return
        now, status = self._client.now(), node.get("status", {})
        capacity = status.get("capacity") or status.get("allocatable") or {}
        own = [_node_condition(type_, now) for type_ in _OWN_CONDITIONS]
        others = [one for one in status.get("conditions", []) if one["type"] not in _OWN_CONDITIONS]
        allocatable = status.get("allocatable") or capacity
        self._client.update_status(
            key, capacity=capacity, allocatable=allocatable, conditions=[*others, *own], phase="Running"
        )
        self._client.update(key, _without_not_ready_taint)
        for pod in self._early.pop(key.name, {}):
            self._queue.add(pod)

    def _look_at_pod(self, key: Key) -> None:
        pod, guest = self._client.get(key), self._guests.get(key)
        if guest is not None and (pod is None or pod["metadata"]["uid"] != guest.uid):
            self._leave(key)
            guest = None
        if pod is None or not self._is_ours(key, pod):
            return
        if pod["status"].get("phase") in _FINISHED:
            self._leave(key)
        elif is_deleting(pod):
            self._stop(key, pod)
        elif guest is None:
            self._admit(key, pod)
        elif guest.is_over:
            self._client.update_status(key, **succeeded_status(pod, now=self._client.now()))

    def _is_ours(self, key: Key, pod: Object) -> bool:
        """Whether a kubelet has this pod; one that was bound to a node before its kubelet started is kept."""
        node_name = pod["spec"].get("nodeName")
        if not node_name:
            return False
        node = self._client.get(Key("nodes", "", node_name))
        if node is not None and _is_registered(node):
            return True
        self._early.setdefault(node_name, {})[key] = None
        return False

    def _admit(self, key: Key, pod: Object) -> None:
        node_name, requests = pod["spec"]["nodeName"], requests_of(pod)
        rejection = self._why_not(node_name, requests)
        if rejection is not None:
            self._client.update_status(key, **rejected_status(*rejection))
            return
        guest = _Guest(pod["metadata"]["uid"], node_name, requests)
        self._guests[key] = guest
        used = self._used.setdefault(node_name, {})
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + amount
        self._addresses += 1
        status = running_status(pod, now=self._client.now(), number=self._addresses)
        self._client.update_status(key, **status)
        run_s = _run_seconds(pod)
        if run_s is not None:
            self._end_later(key, guest, run_s)

    def _end_later(self, key: Key, guest: _Guest, run_s: float) -> None:
        def end() -> None:
            guest.is_over = True
            self._queue.add(key)

        self._queue.call_later(run_s, end)

    def _why_not(self, node_name: str, requests: Resources) -> tuple[str, str] | None:
        """Reason and message of a rejection: devices are asked for first, then the node's own resources."""
        node = self._client.get(Key("nodes", "", node_name))
        offered = allocatable_of(node) if node is not None else {}
        used = self._used.get(node_name, {})
        devices = sorted(name for name in requests if name not in _NODE_RESOURCES)
        short = [
            name
            for name in (*devices, *_NODE_RESOURCES)
            if 0 < requests.get(name, 0) > offered.get(name, 0) - used.get(name, 0)
        ]
        if not short:
            return None
        name = short[0]
        return _rejection(name, requests[name], used.get(name, 0), offered.get(name, 0))

    def _stop(self, key: Key, pod: Object) -> None:
        if pod["status"].get("phase") == "Running":
            self._client.update_status(key, **failed_status(pod, now=self._client.now()))
        self._leave(key)
        if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
            self._client.delete(key, uid=pod["metadata"]["uid"], grace_s=0)

    def _leave(self, key: Key) -> None:
        guest = self._guests.pop(key, None)
        if guest is not None:
            used = self._used[guest.node]
            for name, amount in guest.requests.items():
                used[name] -= amount


def _run_seconds(pod: Object) -> float | None:
    written = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS)
    try:
        return None if written is None else float(written)
    except ValueError:
        return None


def _is_registered(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" for one in conditions)


def _without_not_ready_taint(node: Object) -> Object:
    taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] != _NOT_READY_TAINT]
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    return {**node, "spec": {**spec, "taints": taints} if taints else spec}


def _node_condition(type_: str, now: str) -> Object:
    status, reason = _OWN_CONDITIONS[type_]
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": type_, "status": status, "reason": reason, "message": "fake kubelet", **times}


def _rejection(name: str, requested: int, used: int, offered: int) -> tuple[str, str]:
    if name not in _NODE_RESOURCES:
        why = (
            f"Allocate failed due to requested number of devices unavailable for {name}. "
            f"Requested: {requested}, Available: {max(0, offered - used)}, which is unexpected"
        )
        return "UnexpectedAdmissionError", f"Pod was rejected: {why}"
    amounts = f"requested: {requested}, used: {used}, capacity: {offered}"
    return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {amounts}"
