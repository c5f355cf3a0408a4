"""A minimal pod-by-pod scheduler, in place of kube-scheduler in the demo, and as a competitor in tests.

It places one pod at a time, highest priority first, then the oldest. It filters nodes (cordon, taints, node
selector, free capacity), scores the others by allocated share, draws one of the best with a seeded generator,
and binds. A pod that fits nowhere waits until the next change. It does not know gangs, as the demo shows.
"""

from collections import deque
from typing import Final, Literal

from phalanx.clock import seeded_random
from phalanx.model.resources import Resources, add, fits

from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.pod_requests import allocatable_of, is_tolerated, requests_of
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue


class ClusterView:
    """Nodes and the resources that bound pods use, as of `delay_s` ago. Seen changes are added to `queue`.

    Own binds are known at once, so a scheduler with a late view misses binds of others, never its own.
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
        """Stop following changes."""
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


SCHEDULER_NAME: Final = "default-scheduler"
Strategy = Literal["LeastAllocated", "MostAllocated"]
_BLOCKING: Final = ("NoSchedule", "NoExecute")


class PodByPodScheduler:
    """Schedules the pods that name it, one by one.

    rate: attempts per second, None for no limit.
    view_delay_s: age of its view of the cluster. It may then use capacity that others have used since.
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
        self._random = seeded_random(seed)
        self._rate = rate
        self._rate_limited: dict[Key, None] = {}
        self._is_busy = False
        self._waiting: dict[Key, None] = {}
        self._changes = WorkQueue(self._on_seen_change)
        self._queue = WorkQueue(self._sync)
        self._view = ClusterView(client, delay_s=view_delay_s, queue=self._changes)

    def close(self) -> None:
        """Stop scheduling."""
        self._view.close()
        self._changes.close()
        self._queue.close()

    def _on_seen_change(self, key: Key) -> None:
        """Try a pod without a node; at any other change try the waiting pods."""
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
        self._rate_limited[key] = None
        if not self._is_busy:
            self._is_busy = True
            self._queue.call_later(1 / self._rate, self._try_next)

    def _try_next(self) -> None:
        key = next(iter(self._rate_limited))
        del self._rate_limited[key]
        self._queue.add(key)
        self._is_busy = bool(self._rate_limited)
        if self._is_busy and self._rate is not None:
            self._queue.call_later(1 / self._rate, self._try_next)

    def _in_order(self) -> list[Key]:
        """Waiting pods, highest priority and oldest first."""

        def rank(key: Key) -> tuple[int, str, str]:
            pod = self._client.get(key)
            created = "" if pod is None else pod["metadata"]["creationTimestamp"]
            return (0 if pod is None else -pod["spec"].get("priority", 0), created, key.path)

        return sorted(self._waiting, key=rank)

    def _sync(self, key: Key) -> None:
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
        self._report(key, pod, refusals)

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
        return self._random.choice([name for name, score in scores.items() if score == best]), refusals

    def _score(self, requests: Resources, node: Object, used: Resources) -> int:
        """Percent allocated after the bind, summed over requested resources; negated for LeastAllocated."""
        offered = allocatable_of(node)
        after = add(used, requests)
        allocated = sum(after[name] * 100 // offered[name] for name in requests if offered.get(name))
        return -allocated if self._strategy == "LeastAllocated" else allocated

    def _report(self, key: Key, pod: Object, refusals: dict[str, int]) -> None:
        total = len(self._view.nodes)
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(refusals.items()))
        message = f"0/{total} nodes are available: {reasons or 'no nodes'}."
        old = [
            condition
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "PodScheduled"
        ]
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
