"""A cluster in which time stands still: what a cycle decides has happened when the next one looks."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.limits import DECIDE_CYCLES_MAX
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KubeObject
from phalanx.model.decisions import Bind, CycleResult, Evict
from phalanx.model.events import Applied, Deleted
from phalanx.model.gpu_shares import device_annotations
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.snapshot import Snapshot


class StaticCluster:
    """Objects, and the memory that one cycle hands to the next. `now` is in milliseconds since the epoch."""

    def __init__(self, objects: Iterable[KubeObject], *, config: SchedulerConfig, now: int) -> None:
        self._now = now
        self._seed = config.seed
        self._cache = new_cache(config)
        self.memory = Memory()
        self._pods: dict[PodUid, Pod] = {}
        self._scheduler_name = config.scheduler_name
        objects = tuple(objects)
        self._pods.update((PodUid(each.metadata.uid), each) for each in objects if isinstance(each, Pod))
        self._cache.apply_all(map(Applied, objects))

    def snapshot(self) -> Snapshot:
        """What the next cycle may know."""
        return self._cache.snapshot(now=self._now, seed=self._seed, memory=self.memory)

    def take(self, result: CycleResult) -> None:
        """Let a bound pod run and an evicted one be gone; nobody makes it anew."""
        for placement in result.placements:
            for bind in placement.binds:
                self._run(bind)
        for evict in result.evictions:
            self._delete(evict)
        self.memory = result.memory

    def waiting_for_others(self) -> Counter[str]:
        """How many pods wait for another scheduler, by its name."""
        return Counter(
            pod.spec.scheduler_name
            for pod in self._pods.values()
            if not pod.spec.node_name
            and pod.spec.scheduler_name != self._scheduler_name
            and pod.status.phase == PodPhase.PENDING
        )

    def _run(self, bind: Bind) -> None:
        pod = self._pods[bind.pod]
        spec = replace(pod.spec, node_name=bind.node)
        metadata = replace(
            pod.metadata, annotations={**pod.metadata.annotations, **device_annotations(bind.device)}
        )
        status = replace(pod.status, phase=str(PodPhase.RUNNING))
        running = replace(pod, metadata=metadata, spec=spec, status=status)
        self._pods[bind.pod] = running
        self._cache.apply(Applied(running))

    def _delete(self, evict: Evict) -> None:
        del self._pods[evict.pod]
        self._cache.apply(Deleted(kind="Pod", namespace=evict.namespace, name=evict.name, uid=evict.pod))


def run_until_stable(cluster: StaticCluster, config: SchedulerConfig) -> tuple[tuple[CycleResult, ...], bool]:
    """Cycle after cycle until one changes nothing, or DECIDE_CYCLES_MAX have run.

    Returns the cycles that decided something and the last one, and whether that one decided nothing. A cycle
    may decide nothing and still change what is remembered: verdicts are worked out over several cycles.
    """
    told: list[CycleResult] = []
    nominated: list[tuple[PodUid, NodeName]] = []
    engine = Engine(config)
    for _ in range(DECIDE_CYCLES_MAX):
        memory, before = cluster.memory, nominated
        result = engine.decide(cluster.snapshot())
        cluster.take(result)
        nominated = [(each.pod, each.node) for each in result.nominations]
        decided = bool(result.placements or result.evictions) or nominated != before
        if decided:
            told.append(result)
        elif replace(result.memory, cycle=memory.cycle) == memory:
            break
    return (tuple(told), False) if decided else ((*told, result), True)
