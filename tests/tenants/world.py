"""A cluster as its API objects describe it, which tenants change and the scheduler decides about.

Every decision is taken by a scheduler that has just started: nothing but the objects is known.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Self

from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.names import API_GROUP
from phalanx.model.resources import GPU

from tests.model.written import label, named, node, written
from tests.model.written import pod as any_pod

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CHARGED = f"{API_GROUP}/charged-queue"


def ago(minutes: float) -> str:
    """The time so many minutes before now."""
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


class World:
    """Objects by kind, namespace and name."""

    def __init__(self, gpus: int = 8, nodes: int = 1) -> None:
        self.objects: dict[tuple[str, str, str], KubeObject] = {}
        self._pods: dict[tuple[str, str], dict[str, Any]] = {}
        self._incarnations = 0
        for index in range(nodes):
            self.put(node(f"n{index}", status={"allocatable": {"cpu": "64", "pods": "110", GPU: str(gpus)}}))

    def put(self, item: KubeObject) -> Self:
        """Create an object, or replace the one of its name."""
        self.objects[type(item).__name__, item.metadata.namespace, item.metadata.name] = item
        return self

    def delete(self, kind: str, name: str, namespace: str = "") -> Self:
        """Delete an object."""
        del self.objects[kind, namespace, name]
        return self

    def queue(self, name: str, *, team: str = "", guarantee: int = 0, limit: int = -1, **spec: Any) -> Self:
        """A queue for the namespaces of a team, or for all; amounts of GPUs."""
        if team:
            spec["namespaceSelector"] = {"matchLabels": {"team": team}}
        spec.update({"guarantee": {GPU: guarantee}} if guarantee else {})
        spec.update({"limit": {GPU: limit}} if limit >= 0 else {})
        return self.put(named("Queue", name, spec=spec))

    def namespace(self, name: str, labels: dict[str, str] | None = None, **more: str) -> Self:
        """A namespace with these labels."""
        return self.put(named("Namespace", name, labels={**(labels or {}), **more}))

    def priority_class(self, name: str, value: int, **fields: Any) -> Self:
        """A PriorityClass."""
        return self.put(named("PriorityClass", name, value=value, **fields))

    def group(self, name: str, namespace: str, **spec: Any) -> Self:
        """A PodGroup; `status` sets its status."""
        status = {"status": spec.pop("status")} if "status" in spec else {}
        return self.put(named("PodGroup", name, namespace=namespace, spec={"minMember": 1, **spec}, **status))

    def pod(
        self,
        name: str,
        namespace: str,
        *,
        gpus: int = 1,
        queue: str = "",
        group: str = "",
        on: str = "",
        since: float = 60,
        charged: str = "",
        labels: dict[str, str] | None = None,
        meta: dict[str, Any] | None = None,
        status: dict[str, Any] | None = None,
        **spec: Any,
    ) -> Self:
        """A pod with a controller; with a node (`on`) it has been bound and running for `since` minutes."""
        fields = {"gpus": gpus, "queue": queue, "group": group, "on": on, "since": since, "charged": charged}
        self._pods[namespace, name] = {**fields, "labels": labels, "meta": meta, "status": status, **spec}
        own = {label("queue"): queue, label("pod-group"): group}
        at = ago(since)
        running = {
            "phase": "Running",
            "startTime": at,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}],
        }
        about = {"creationTimestamp": at, **({"annotations": {CHARGED: charged}} if charged else {})}
        return self.put(
            any_pod(
                name,
                namespace=namespace,
                labels={**{key: value for key, value in own.items() if value}, **(labels or {})},
                owner=f"job-{name}",
                requests={GPU: gpus, "cpu": 1},
                meta={**about, **(meta or {})},
                status={**(running if on else {}), **(status or {})},
                **({"nodeName": on} if on else {}),
                **spec,
            )
        )

    def edit_pod(self, name: str, namespace: str, **fields: Any) -> Self:
        """Change fields of a pod."""
        return self.pod(name, namespace, **{**self._pods[namespace, name], **fields})

    def pods(self, prefix: str, namespace: str, count: int, **fields: Any) -> Self:
        """Several equal pods."""
        for index in range(count):
            self.pod(f"{prefix}-{index}", namespace, **fields)
        return self

    def start(self, minutes: float = 0, config: SchedulerConfig | None = None) -> StaticCluster:
        """A scheduler that starts so many minutes from now."""
        now = int((NOW + timedelta(minutes=minutes)).timestamp() * 1000)
        return StaticCluster(self.objects.values(), config=config or SchedulerConfig(), now=now)

    def carry_out(self, outcome: "Outcome", minutes: float) -> Self:
        """Bound pods run since this time; the controllers of evicted pods create them again."""
        for place in outcome.placements:
            for bind in place.binds:
                self.edit_pod(bind.name, bind.namespace, on=bind.node, since=-minutes, charged=place.queue)
        for evict in outcome.evictions:
            self._incarnations += 1
            meta = {"uid": f"again-{self._incarnations}"}
            self.edit_pod(
                evict.name, evict.namespace, on="", charged="", status=None, meta=meta, since=-minutes
            )
        return self

    def charges(self) -> dict[str, int]:
        """GPUs that each queue is charged for, after a restart; "" for those that no queue is charged for."""
        usage = self.start().snapshot().queue_usage
        return {name: sum(amounts.get(GPU, 0) for amounts in nodes.values()) for name, nodes in usage.items()}

    def decide(self, minutes: float = 0, config: SchedulerConfig | None = None) -> "Outcome":
        """Run the scheduler until it decides nothing more."""
        config = config or SchedulerConfig()
        results, has_converged = run_until_stable(self.start(minutes, config), config)
        assert has_converged
        return Outcome(results)


class Outcome:
    """What the scheduler decided, by the names of pods and gangs."""

    def __init__(self, results: tuple[CycleResult, ...]) -> None:
        self.placed = {
            bind.name: bind.node for each in results for place in each.placements for bind in place.binds
        }
        self.order = list(self.placed)
        self.evicted = {evict.name for each in results for evict in each.evictions}
        last = results[-1]
        self.reasons = {each.group: each.reason.value for each in last.verdicts}
        self.verdicts = {each.group: each for each in last.verdicts}
        self.queues = last.queues
        self.evictions = [evict for each in results for evict in each.evictions]
        self.placements = [place for each in results for place in each.placements]


def document(kind: type[Any], **fields: Any) -> Any:
    """Decode an object."""
    return written(kind, fields)
