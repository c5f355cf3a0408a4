"""A pod-by-pod scheduler in miniature: how kube-scheduler works, for the first act of the embedded demo.

It stands in for kube-scheduler only there; the demo on KWOK runs the real one. One pod at a time, the highest
priority first, then the oldest: nodes are filtered (cordon, taints, node selector, room), the rest scored by
how much is allocated, equal ones drawn by a seeded lot, and the pod is bound. A pod that fits nowhere waits
until something changes. It knows no gangs: that is the point.
"""

from typing import Final, Literal

from phalanx.clock import seeded_random
from phalanx.model.resources import Resources, add, fits
from phalanx.sim.api.objects import is_deleting
from phalanx.sim.client import Client
from phalanx.sim.footprint import allocatable_of, requests_of
from phalanx.sim.store import Change, Key, Object
from phalanx.sim.workqueue import WorkQueue

SCHEDULER_NAME: Final = "default-scheduler"
Strategy = Literal["LeastAllocated", "MostAllocated"]
_BLOCKING: Final = ("NoSchedule", "NoExecute")


class PodByPodScheduler:
    """Schedules the pods that name it, one by one."""

    def __init__(
        self,
        client: Client,
        *,
        name: str = SCHEDULER_NAME,
        strategy: Strategy = "LeastAllocated",
        seed: int = 0,
    ) -> None:
        self._client = client
        self._name = name
        self._strategy = strategy
        self._lots = seeded_random(seed)
        self._waiting: dict[Key, None] = {}
        self._queue = WorkQueue(self._look_at)
        self._unsubscribe = [client.subscribe(resource, self._on_change) for resource in ("pods", "nodes")]
        for key in client.keys("pods"):
            self._queue.add(key)

    def close(self) -> None:
        """Schedule nothing more."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        key = change.entry.key
        if key.resource == "pods" and not _is_bound_or_over(change.entry.data):
            self._queue.add(key)
            return
        for waiting in self._in_order():
            self._queue.add(waiting)

    def _in_order(self) -> list[Key]:
        """Waiting pods, the most important and oldest first."""

        def rank(key: Key) -> tuple[int, str, str]:
            pod = self._client.get(key)
            created = "" if pod is None else pod["metadata"]["creationTimestamp"]
            return (0 if pod is None else -pod["spec"].get("priority", 0), created, key.path)

        return sorted(self._waiting, key=rank)

    def _look_at(self, key: Key) -> None:
        pod = self._client.get(key)
        self._waiting.pop(key, None)
        if pod is None or is_deleting(pod) or _is_bound_or_over(pod):
            return
        if pod["spec"].get("schedulingGates") or pod["spec"]["schedulerName"] != self._name:
            return
        node, refusals = self._choose(pod)
        if node is not None and self._client.bind(key, uid=pod["metadata"]["uid"], node=node):
            return
        self._waiting[key] = None
        self._tell(key, pod, refusals)

    def _choose(self, pod: Object) -> tuple[str | None, dict[str, int]]:
        """The node to bind to, or how many nodes refuse for which reason."""
        requests, used = requests_of(pod), self._used()
        refusals: dict[str, int] = {}
        scores: dict[str, int] = {}
        for key in self._client.keys("nodes"):
            node = self._client.get(key) or {}
            why = _why_not(pod, requests, node, used.get(key.name, {}))
            if why:
                refusals[why] = refusals.get(why, 0) + 1
            else:
                scores[key.name] = self._score(requests, node, used.get(key.name, {}))
        if not scores:
            return None, refusals
        best = max(scores.values())
        return self._lots.choice([name for name, score in scores.items() if score == best]), refusals

    def _score(self, requests: Resources, node: Object, used: Resources) -> int:
        """Percent allocated after the bind, summed over what is asked for; negative where less is better."""
        offered = allocatable_of(node)
        after = add(used, requests)
        allocated = sum(after[name] * 100 // offered[name] for name in requests if offered.get(name))
        return -allocated if self._strategy == "LeastAllocated" else allocated

    def _used(self) -> dict[str, Resources]:
        used: dict[str, Resources] = {}
        for key in self._client.keys("pods"):
            pod = self._client.get(key)
            node = None if pod is None else pod["spec"].get("nodeName")
            if pod is not None and node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                used[node] = add(used.get(node, {}), requests_of(pod))
        return used

    def _tell(self, key: Key, pod: Object, refusals: dict[str, int]) -> None:
        total = len(self._client.keys("nodes"))
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(refusals.items()))
        message = f"0/{total} nodes are available: {reasons or 'no nodes'}."
        old = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
        if old and old[0].get("message") == message:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._client.update_status(key, condition={**condition, "lastTransitionTime": self._client.now()})


def _is_bound_or_over(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) or pod["status"].get("phase") in ("Succeeded", "Failed")


def _why_not(pod: Object, requests: Resources, node: Object, used: Resources) -> str:
    """The first reason against the node, in kube-scheduler's words; empty when there is none."""
    spec = node.get("spec", {})
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    taints = [taint for taint in spec.get("taints", []) if taint["effect"] in _BLOCKING]
    untolerated = [taint for taint in taints if not _is_tolerated(taint, pod["spec"].get("tolerations", []))]
    if untolerated:
        return f"node(s) had untolerated taint {{{untolerated[0]['key']}: {untolerated[0].get('value', '')}}}"
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    offered = allocatable_of(node)
    free = {name: offered.get(name, 0) - used.get(name, 0) for name in requests}
    short = [name for name in requests if not fits({name: requests[name]}, free)]
    if not short:
        return ""
    return "Too many pods" if short[0] == "pods" else f"Insufficient {short[0]}"


def _is_tolerated(taint: Object, tolerations: list[Object]) -> bool:
    return any(
        toleration.get("key", "") in ("", taint["key"])
        and toleration.get("effect", "") in ("", taint["effect"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in tolerations
    )
