"""Phalanx in virtual time: its cycle over its own cache, with objects as an API server serves them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.cycle import Engine
from phalanx.framework.config import convert
from phalanx.framework.retry import CYCLE_PERIOD_MIN_S
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.events import Applied, Deleted
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.resources import CPU, GPU, MEMORY

from phalanx_simulator.embedded.manifests import Manifest, namespace, node, pod, pod_group, queue
from phalanx_simulator.lab.engine.cluster import Pool, Setup
from phalanx_simulator.lab.engine.jobs import Job
from phalanx_simulator.lab.engine.play import GRACE_MS, Decided

_BEGIN: Final = datetime(2026, 1, 5, tzinfo=UTC)
_BEGIN_MS: Final = int(_BEGIN.timestamp() * 1000)
_SPACE: Final = "default"
_PERIOD_MS: Final = round(CYCLE_PERIOD_MIN_S * 1000)
_MODEL: Final = "nvidia.com/gpu.product"
_RACK: Final = "cloud.provider.com/topology-rack"
"""One of the labels that imply the level `rack`."""


class Product:
    """Runs cycles with a queue per tenant."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._models = {pool.model for pool in setup.pools if pool.model}
        self._engine = Engine(convert(dict(setup.config)))
        self._cache = Cache(scheduler_name=self._engine.config.scheduler_name)
        self._memory = Memory()
        self._now = 0
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._jobs: dict[GangId, Job] = {}
        self._pods_made = 0
        self._wake_at: int | None = None
        self._has_reason = False
        queues = [
            queue(name, weight=each.weight, guarantee={GPU: str(each.guarantee)}, **each.spec)
            for name, each in setup.queues.items()
        ]
        nodes = [made for pool in setup.pools for made in _nodes_of(pool)]
        self._take(*(Applied(_read(each)) for each in (namespace(_SPACE), *queues, *nodes)))

    # --- events ---------------------------------------------------------------------------------------------

    def arrived(self, job: Job) -> None:
        """Create its PodGroup and its pods."""
        spec: dict[str, Any] = {"queue": job.tenant}
        if job.limit_s is not None:
            spec["runtime"] = {"max": _written(job.limit_s)}
        if self._setup.topology and job.pods > 1:
            spec["topology"] = dict(self._setup.topology)
        group = pod_group(job.name, min_member=job.pods, **spec)
        self._jobs[_gang_of(job)] = job
        self._take(Applied(_read(_created(group, _gang_of(job), job.submit_ms))))
        self._make_pods(job, job.submit_ms)

    def ended(self, job: Job) -> None:
        """Delete its pods and its PodGroup."""
        self._delete_pods(job)
        del self._jobs[_gang_of(job)]
        self._take(Deleted("PodGroup", _SPACE, job.name))

    def gone(self, job: Job) -> None:
        """Its evicted pods are deleted, and its controller creates replacements."""
        self._delete_pods(job)
        self._make_pods(job, self._now)

    def _make_pods(self, job: Job, at_ms: int) -> None:
        requests = _requests(job)
        spec = {**_accepted(self._models.intersection(job.models)), **_priority(job)}
        owner = {"kind": "Job", "name": job.name, "uid": f"job-{job.name}", "controller": True}
        made = []
        for index in range(job.pods):
            self._pods_made += 1
            manifest = pod(f"{job.name}-{index}", group=job.name, requests=requests, **spec)
            manifest["metadata"]["ownerReferences"] = [owner]
            read = _read(_created(manifest, f"pod-{self._pods_made}", at_ms))
            assert isinstance(read, Pod)
            made.append(read)
        self._pods[job.number] = tuple(made)
        self._take(*map(Applied, made))

    def _delete_pods(self, job: Job) -> None:
        pods = self._pods.pop(job.number)
        self._take(*(Deleted("Pod", _SPACE, each.metadata.name, each.metadata.uid) for each in pods))

    def _take(self, *events: Event) -> None:
        self._has_reason |= self._cache.apply_all(events).may_unblock

    # --- cycles ---------------------------------------------------------------------------------------------

    def decide(self, now: int) -> Decided:
        """Run a cycle if an event or a timer requires one; its decisions take effect at once."""
        self._now = now
        if not self._has_reason and (self._wake_at is None or self._wake_at > now):
            return Decided(wake_at=self._wake_at)
        snapshot = self._cache.snapshot(
            now=_BEGIN_MS + now, seed=self._engine.config.seed, memory=self._memory
        )
        result = self._engine.decide(snapshot)
        self._memory, self._has_reason = result.memory, False
        placed, evicted = self._place(result), self._evict(result)
        soonest = now + _PERIOD_MS
        wake_at = None if result.wake_at is None else max(soonest, result.wake_at - _BEGIN_MS)
        self._wake_at = soonest if self._has_reason else wake_at
        return Decided(placed=placed, evicted=evicted, wake_at=self._wake_at)

    def _place(self, result: CycleResult) -> tuple[tuple[Job, int], ...]:
        placed = []
        since = _time(self._now).isoformat()
        for placement in result.placements:
            job = self._jobs[placement.gang]
            nodes = {bind.pod: bind.node for bind in placement.binds}
            self._change(
                job,
                [
                    replace(
                        each,
                        spec=replace(each.spec, node_name=nodes[PodUid(each.metadata.uid)]),
                        status=replace(each.status, phase=str(PodPhase.RUNNING), start_time=since),
                    )
                    for each in self._pods[job.number]
                ],
            )
            placed.append((job, len(placement.binds)))
        return tuple(placed)

    def _evict(self, result: CycleResult) -> tuple[Job, ...]:
        jobs = {each.gang: self._jobs[each.gang] for each in result.evictions}
        at = _time(self._now + GRACE_MS).isoformat()
        for job in jobs.values():
            pods = self._pods[job.number]
            self._change(
                job, [replace(each, metadata=replace(each.metadata, deletion_timestamp=at)) for each in pods]
            )
        return tuple(jobs.values())

    def _change(self, job: Job, pods: Iterable[Pod]) -> None:
        self._pods[job.number] = tuple(pods)
        self._take(*map(Applied, self._pods[job.number]))


def _nodes_of(pool: Pool) -> Iterator[Manifest]:
    """Its nodes; a rack holds consecutive ones."""
    offered = {CPU: f"{pool.cpu_milli}m", MEMORY: f"{pool.memory_mib}Mi"}
    for index in range(pool.nodes):
        labels = {_MODEL: pool.model} if pool.model else {}
        if pool.racks:
            labels[_RACK] = f"{pool.name}-{index * pool.racks // pool.nodes}"
        yield node(f"{pool.name}{index:03}", gpus=pool.gpus, labels=labels, **offered)


def _requests(job: Job) -> dict[str, str]:
    amounts = (
        (GPU, job.gpus, ""),
        (CPU, job.cpu_milli, "m"),
        (MEMORY, job.memory_mib, "Mi"),
    )
    return {name: f"{amount}{unit}" for name, amount, unit in amounts if amount} or {CPU: "1m"}


def _accepted(models: set[str]) -> dict[str, Any]:
    """The node affinity for these GPU models; none for models that no node has."""
    if not models:
        return {}
    term = {"matchExpressions": [{"key": _MODEL, "operator": "In", "values": sorted(models)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _priority(job: Job) -> dict[str, int]:
    return {"priority": job.priority} if job.priority else {}


def _written(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}h{minutes % 60}m{rest}s"


def _gang_of(job: Job) -> GangId:
    return GangId(f"group-{job.number}")


def _time(at_ms: int) -> datetime:
    return _BEGIN + timedelta(milliseconds=at_ms)


def _created(manifest: Manifest, uid: str, at_ms: int) -> Manifest:
    made = {**manifest["metadata"], "uid": uid, "creationTimestamp": _time(at_ms).isoformat()}
    return {**manifest, "metadata": made}


def _read(manifest: Manifest) -> KubeObject:
    return msgspec.convert(manifest, KINDS[manifest["kind"]].struct)
