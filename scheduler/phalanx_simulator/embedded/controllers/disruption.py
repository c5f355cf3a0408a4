"""The statuses of PodDisruptionBudgets, counted as kube-controller-manager's disruption controller does.

No kind served here has the scale subresource. A budget with a percentage or maxUnavailable therefore allows
no disruption of controlled pods and reports SyncFailed, as for Jobs in the real one, and does not count bare
pods.
"""

from functools import partial
from typing import Any, Final

from phalanx_simulator.embedded.apiserver.disruption_budgets import with_allowed_condition
from phalanx_simulator.embedded.apiserver.kinds import BUDGETS
from phalanx_simulator.embedded.apiserver.objects import is_deleting, is_ready, seconds_of, set_condition
from phalanx_simulator.embedded.apiserver.selectors import Match, label_selector
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_DISRUPTION_PENDING_S: Final = 120
"""Seconds for which a budget counts an evicted pod as deleted: fixed in kube-controller-manager."""


class Disruption:
    """Keeps the status of every PodDisruptionBudget up to date."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._protected: dict[Key, tuple[Match, dict[Key, Object]]] = {}
        self._queue = WorkQueue(self._sync)
        self._unsubscribe = [
            client.subscribe(BUDGETS.resource, self._on_budget),
            client.subscribe("pods", self._on_pod),
        ]
        for key in client.keys(BUDGETS.resource):
            self._find_pods(key, client.get(key) or {})

    def close(self) -> None:
        """Stop updating budgets."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._queue.close()

    def _on_budget(self, change: Change) -> None:
        key, previous = change.entry.key, change.previous
        if change.type is ChangeType.DELETED:
            self._protected.pop(key, None)
        elif previous is None or previous.data["spec"] != change.entry.data["spec"]:
            self._find_pods(key, change.entry.data)
        self._queue.add(key)

    def _find_pods(self, key: Key, budget: Object) -> None:
        match = label_selector(budget["spec"].get("selector"))
        found = {pod: self._client.get(pod) for pod in self._client.keys("pods")}
        pods = {pod: data for pod, data in found.items() if data is not None and match(data)}
        mine = {pod: data for pod, data in pods.items() if pod.namespace == key.namespace}
        self._protected[key] = match, mine
        self._queue.add(key)

    def _on_pod(self, change: Change) -> None:
        pod = change.entry.key
        for key, (match, pods) in self._protected.items():
            if key.namespace != pod.namespace:
                continue
            before = pods.pop(pod, None)
            if change.type is not ChangeType.DELETED and match(change.entry.data):
                pods[pod] = change.entry.data
            if before is not None or pod in pods:
                self._queue.add(key)

    def _sync(self, key: Key) -> None:
        budget = self._client.get(key)
        if budget is None:
            return
        status = _counted(budget, list(self._protected[key][1].values()), now=self._client.now())
        if status != budget["status"]:
            self._client.update_status(key, **status)
        if status.get("disruptedPods"):
            self._queue.call_later(SIM_DISRUPTION_PENDING_S, partial(self._queue.add, key))


def _counted(budget: Object, pods: list[Object], *, now: str) -> Object:
    generation, old = budget["metadata"]["generation"], budget["status"]
    disrupted = _pending(old.get("disruptedPods") or {}, pods, now)
    wanted = _wanted(budget["spec"], pods)
    if wanted is None:
        return _unknown(old, now=now)
    expected, desired = wanted
    healthy = sum(
        1
        for pod in pods
        if is_ready(pod) and not is_deleting(pod) and pod["metadata"]["name"] not in disrupted
    )
    status = {
        **old,
        "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": generation,
        "disruptedPods": disrupted,
    }
    return with_allowed_condition(status, generation, now=now)


def _pending(disrupted: dict[str, str], pods: list[Object], now: str) -> dict[str, str]:
    """Evicted pods whose deletion the controller has not seen yet."""
    alive = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    oldest = seconds_of(now) - SIM_DISRUPTION_PENDING_S
    return {name: at for name, at in disrupted.items() if name in alive and seconds_of(at) > oldest}


def _wanted(spec: Object, pods: list[Object]) -> tuple[int, int] | None:
    """Numbers of expected pods and desired healthy pods; None if that needs the scale subresource."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and isinstance(least, int):
        return len(pods), least
    if (least, most) == (None, None):
        return 0, 0
    if any(owner.get("controller") for pod in pods for owner in _owners(pod)):
        return None
    return 0, 0


def _owners(pod: Object) -> list[Any]:
    return pod["metadata"].get("ownerReferences") or []


def _unknown(old: Object, *, now: str) -> Object:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "SyncFailed",
        "message": "jobs.batch does not implement the scale subresource",
    }
    conditions = set_condition(old.get("conditions", []), condition)
    return {**old, "disruptionsAllowed": 0, "conditions": conditions}
