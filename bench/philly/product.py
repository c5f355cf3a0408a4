"""Phalanx in the Philly replay: its cycle over its own cache, with objects as an API server serves them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import CYCLE_PERIOD_MIN_S
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS, KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.events import Applied, Deleted
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.resources import CPU, GPU, MEMORY
from phalanx_simulator.embedded.manifests import Manifest, namespace, node, pod, pod_group, queue

from bench.philly.play import GRACE_MS, Decided
from bench.philly.week import GPUS_PER_NODE, Cluster, Job

_BEGIN: Final = datetime(2026, 1, 5, tzinfo=UTC)
_BEGIN_MS: Final = int(_BEGIN.timestamp() * 1000)
_SPACE: Final = "default"
_CORES_PER_GPU: Final = 4
_GIB_PER_GPU: Final = 32
_PERIOD_MS: Final = round(CYCLE_PERIOD_MIN_S * 1000)
_HOUR_S: Final = 3600

DECLARED_RUNTIMES_S: Final = (
    *(900, _HOUR_S, 4 * _HOUR_S, 12 * _HOUR_S),
    *(days * 24 * _HOUR_S for days in (1, 2, 4, 7, 14, 30, 60)),
)
"""The maximum run times that users declare: the least sufficient one, since users declare round numbers."""


class Product:
    """Runs cycles with a queue per tenant of equal weight and guarantee; `spec` is added to all queues."""

    def __init__(self, cluster: Cluster, spec: Mapping[str, Any]) -> None:
        self._engine = Engine(SchedulerConfig())
        self._cache = Cache(scheduler_name=self._engine.config.scheduler_name)
        self._memory = Memory()
        self._now = 0
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._jobs: dict[GangId, Job] = {}
        self._pods_made = 0
        self._wake_at: int | None = None
        self._has_reason = False
        queues = [
            queue(name, weight=max(1, gpus), guarantee={GPU: str(gpus)}, **spec)
            for name, gpus in cluster.guarantees.items()
        ]
        nodes = [node(f"n{index:03}", gpus=GPUS_PER_NODE) for index in range(cluster.nodes)]
        self._take(*(Applied(_read(each)) for each in (namespace(_SPACE), *queues, *nodes)))

    # --- events ---------------------------------------------------------------------------------------------

    def arrived(self, job: Job) -> None:
        """Create its PodGroup and its pods."""
        runtime = {"max": _written(declared_runtime_s(job.run_ms))}
        group = pod_group(job.name, min_member=job.pods, queue=job.tenant, runtime=runtime)
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
        requests = {
            GPU: str(job.gpus),
            CPU: str(_CORES_PER_GPU * job.gpus),
            MEMORY: f"{_GIB_PER_GPU * job.gpus}Gi",
        }
        owner = {"kind": "Job", "name": job.name, "uid": f"job-{job.name}", "controller": True}
        made = []
        for index in range(job.pods):
            self._pods_made += 1
            manifest = pod(f"{job.name}-{index}", group=job.name, requests=requests)
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


def declared_runtime_s(run_ms: int) -> int:
    """The maximum run time in seconds that a user declares for a job of this run time."""
    return next((each for each in DECLARED_RUNTIMES_S if each * 1000 >= run_ms), -(-run_ms // 1000))


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
