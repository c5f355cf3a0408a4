"""A minimal pod-by-pod scheduler: a stand-in for kube-scheduler, and a competitor.

It stands in for kube-scheduler there; the demo on KWOK runs the real one. One pod at a time, the highest
priority first, then the oldest: nodes are filtered (cordon, taints, node selector, room), the rest scored by
how much is allocated, equal ones drawn by a seeded lot, and the pod is bound. A pod that fits nowhere waits
until something changes. It knows no gangs: that is the point.
"""

from typing import Final, Literal

from phalanx.clock import seeded_random
from phalanx.model.resources import Resources, add, fits

from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.cluster_view import ClusterView
from phalanx_simulator.embedded.pod_requests import allocatable_of, requests_of
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.tolerations import is_tolerated
from phalanx_simulator.embedded.work_queue import WorkQueue

SCHEDULER_NAME: Final = "default-scheduler"
Strategy = Literal["LeastAllocated", "MostAllocated"]
_BLOCKING: Final = ("NoSchedule", "NoExecute")


class PodByPodScheduler:
    """Schedules the pods that name it, one by one.

    rate: pods that it tries per second, None for as many as come.
    view_delay_s: how long ago the cluster was as it sees it. Then it may take what others have taken since.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str = SCHEDULER_NAME,
        strategy: Strategy = "LeastAllocated",
        seed: int = 0,
        rate: float | None = None,
        view_delay_s: float = 0.0,
    ) -> None:
        self._client = client
        self._name = name
        self._strategy = strategy
        self._lots = seeded_random(seed)
        self._rate = rate
        self._line: dict[Key, None] = {}
        self._is_busy = False
        self._waiting: dict[Key, None] = {}
        self._news = WorkQueue(self._on_news)
        self._queue = WorkQueue(self._look_at)
        self._view = ClusterView(client, delay_s=view_delay_s, queue=self._news)

    def close(self) -> None:
        """Schedule nothing more."""
        self._view.close()
        self._news.close()
        self._queue.close()

    def _on_news(self, key: Key) -> None:
        """Try a schedulable pod; at any other change try the waiting ones."""
        pod = self._client.get(key) if key.resource == "pods" else None
        if pod is not None and not _is_bound_or_over(pod):
            self._try(key)
            return
        for waiting in self._in_order():
            self._try(waiting)

    def _try(self, key: Key) -> None:
        if self._rate is None:
            self._queue.add(key)
            return
        self._line[key] = None
        if not self._is_busy:
            self._is_busy = True
            self._queue.call_later(1 / self._rate, self._try_next)

    def _try_next(self) -> None:
        key = next(iter(self._line))
        del self._line[key]
        self._queue.add(key)
        self._is_busy = bool(self._line)
        if self._is_busy and self._rate is not None:
            self._queue.call_later(1 / self._rate, self._try_next)

    def _in_order(self) -> list[Key]:
        """Waiting pods, highest priority and oldest first."""

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
            self._view.assume(key, pod, node)
            return
        self._waiting[key] = None
        self._tell(key, pod, refusals)

    def _choose(self, pod: Object) -> tuple[str | None, dict[str, int]]:
        """The node to bind to, or the number of nodes by reason of refusal."""
        requests = requests_of(pod)
        refusals: dict[str, int] = {}
        scores: dict[str, int] = {}
        for name, node in sorted(self._view.nodes.items()):
            used = self._view.used(name)
            why = _why_not(pod, requests, node, used)
            if why:
                refusals[why] = refusals.get(why, 0) + 1
            else:
                scores[name] = self._score(requests, node, used)
        if not scores:
            return None, refusals
        best = max(scores.values())
        return self._lots.choice([name for name, score in scores.items() if score == best]), refusals

    def _score(self, requests: Resources, node: Object, used: Resources) -> int:
        """Percent allocated after the bind, summed over requested resources; negated for LeastAllocated."""
        offered = allocatable_of(node)
        after = add(used, requests)
        allocated = sum(after[name] * 100 // offered[name] for name in requests if offered.get(name))
        return -allocated if self._strategy == "LeastAllocated" else allocated

    def _tell(self, key: Key, pod: Object, refusals: dict[str, int]) -> None:
        total = len(self._view.nodes)
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
    """The first reason against the node, as kube-scheduler words it; empty if there is none."""
    spec = node.get("spec", {})
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    taints = [taint for taint in spec.get("taints", []) if taint["effect"] in _BLOCKING]
    untolerated = [taint for taint in taints if not is_tolerated(taint, pod["spec"].get("tolerations", []))]
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
