"""The node lifecycle controller: lost nodes become Unknown, conditions become taints.

Rate limits of evictions by zone, and their suspension when a whole zone is lost, are not modelled: taints are
set at once. Pods of a node whose Ready becomes Unknown are marked not ready, as in the real controller.
"""

import asyncio
from functools import partial
from typing import Any, Final

from phalanx_simulator.embedded.apiserver.objects import is_deleting, set_condition
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.kubelets.kubelet import Kubelets
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_NODE_GRACE_S: Final = 50.0
"""Seconds without a heartbeat until a node's Ready becomes Unknown: kube-controller-manager's default."""

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_FROM_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_READY_TAINTS: Final = {"False": NOT_READY, "Unknown": UNREACHABLE}
_Taint = tuple[str, str]
_OWN: Final[tuple[_Taint, ...]] = tuple(
    (key, effect)
    for key, effects in {
        NOT_READY: ("NoSchedule", "NoExecute"),
        UNREACHABLE: ("NoSchedule", "NoExecute"),
        UNSCHEDULABLE: ("NoSchedule",),
        **dict.fromkeys(_PRESSURES.values(), ("NoSchedule",)),
    }.items()
    for effect in effects
)


class NodeLifecycle:
    """Updates the conditions of lost nodes and the taints of all nodes."""

    def __init__(self, client: Client, kubelets: Kubelets) -> None:
        self._client = client
        self._kubelets = kubelets
        self._queue = WorkQueue(self._sync)
        self._unsubscribe = client.subscribe("nodes", self._on_change)
        kubelets.on_contact(self._on_contact)
        for key in client.keys("nodes"):
            self._queue.add(key)

    def close(self) -> None:
        """Stop updating nodes."""
        self._unsubscribe()
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        self._queue.add(change.entry.key)

    def _on_contact(self, node: str) -> None:
        if self._kubelets.lost_at(node) is not None:
            look = partial(self._queue.add, Key("nodes", "", node))
            self._queue.call_later(SIM_NODE_GRACE_S, look)

    def _sync(self, key: Key) -> None:
        node = self._client.get(key)
        if node is None or is_deleting(node):
            return
        if self._is_silent(key.name) and _ready(node) != "Unknown":
            self._declare_lost(key, node)
            return
        taints = _wanted_taints(node, self._client.now())
        if taints != (node["spec"].get("taints") or []):
            self._client.update(key, partial(_with_taints, taints=taints))

    def _is_silent(self, node: str) -> bool:
        lost_at = self._kubelets.lost_at(node)
        if lost_at is None:
            return False
        silence_s = asyncio.get_running_loop().time() - lost_at
        return round(silence_s * 1000) >= SIM_NODE_GRACE_S * 1000

    def _declare_lost(self, key: Key, node: Object) -> None:
        now, conditions = self._client.now(), node["status"].get("conditions", [])
        known = {condition["type"] for condition in conditions}
        for type_ in _FROM_KUBELET:
            conditions = set_condition(conditions, _unknown(type_, is_known=type_ in known, now=now))
        self._client.update_status(key, conditions=conditions)
        for pod in self._client.pods_on(key.name):
            self._mark_not_ready(pod, now)

    def _mark_not_ready(self, key: Key, now: str) -> None:
        pod = self._client.get(key)
        conditions = [] if pod is None else pod["status"].get("conditions", [])
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            not_ready = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
            self._client.update_status(key, condition=not_ready)


def _ready(node: Object) -> str | None:
    """The status of the condition Ready; None before its first report."""
    conditions = node["status"].get("conditions", [])
    return next((condition["status"] for condition in conditions if condition["type"] == "Ready"), None)


def _unknown(type_: str, *, is_known: bool, now: str) -> Object:
    reason = "NodeStatusUnknown" if is_known else "NodeStatusNeverUpdated"
    message = "Kubelet stopped posting node status." if is_known else "Kubelet never posted node status."
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": type_, "status": "Unknown", "reason": reason, "message": message, **times}


def _wanted_taints(node: Object, now: str) -> list[Any]:
    """The node's taints with this controller's ones corrected; an unchanged taint keeps its time."""
    wanted, ready = _own_taints(node), _ready(node)
    kept = [
        taint
        for taint in node["spec"].get("taints") or []
        if (taint["key"], taint["effect"]) not in _OWN
        or (taint["key"], taint["effect"]) in wanted
        or (ready is None and taint["key"] == NOT_READY)
    ]
    present = [(taint["key"], taint["effect"]) for taint in kept]
    new = [{"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted]
    return [*kept, *(taint for taint in new if (taint["key"], taint["effect"]) not in present)]


def _own_taints(node: Object) -> list[_Taint]:
    statuses = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])}
    wanted = [(UNSCHEDULABLE, "NoSchedule")] if node["spec"].get("unschedulable") else []
    wanted += [(taint, "NoSchedule") for type_, taint in _PRESSURES.items() if statuses.get(type_) == "True"]
    key = _READY_TAINTS.get(statuses.get("Ready", ""))
    return [*wanted, (key, "NoSchedule"), (key, "NoExecute")] if key else wanted


def _with_taints(node: Object, *, taints: list[Any]) -> Object:
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    return {**node, "spec": {**spec, "taints": taints} if taints else spec}
