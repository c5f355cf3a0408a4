"""A cluster in which each decision of a cycle takes effect before the next cycle.

Its clock goes on only while the scheduler waits because of its own decisions.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from phalanx.cache.events import Assumed
from phalanx.cli.released_claims import released, uses_claims, with_consumer
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import FRESH_VICTIMS_MS
from phalanx.limits import DECIDE_CYCLES_MAX
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.values import utc
from phalanx.model.decisions import Bind, CycleResult, Evict, Placement, bind_annotations
from phalanx.model.events import Applied, Deleted, Relisted
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.api import ResourceClaim

_DECIDE_STEP_MIN_MS: Final = 1000
"""Milliseconds that the clock of `phalanx decide` goes on at least: 30 steps in the longest default wait."""


class StaticCluster:
    """Objects in a cache, and the memory that one cycle leaves to the next."""

    def __init__(self, objects: Iterable[KubeObject], *, config: SchedulerConfig, now: int) -> None:
        """`now` is in milliseconds since the epoch."""
        self._now = now
        self._seed = config.seed
        self._cache = new_cache(config)
        self.memory = Memory()
        self._pods: dict[PodUid, Pod] = {}
        self._scheduler_name = config.scheduler_name
        objects = tuple(objects)
        self._pods.update((PodUid(item.metadata.uid), item) for item in objects if isinstance(item, Pod))
        self._claims = {item.metadata.uid: item for item in objects if isinstance(item, ResourceClaim)}
        kinds = (*self._cache.known_workloads.by_name, *DEVICE_KINDS)
        self._cache.apply_all(Relisted(kind, ()) for kind in kinds)
        self._cache.apply_all(map(Applied, objects))
        self._release_claims()

    @property
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._now

    def wait_until(self, at: int) -> None:
        """Let the clock go on to this time (ms)."""
        self._now = max(self._now, at)

    def snapshot(self) -> Snapshot:
        """Return the input of the next cycle."""
        return self._cache.snapshot(now=self._now, seed=self._seed, memory=self.memory)

    def apply(self, result: CycleResult) -> None:
        """Let bound pods run and remove evicted ones, which no controller creates again.

        Devices of claims that no pod uses any more are given back.
        """
        for placement in result.placements:
            for bind in placement.binds:
                self._run(placement, bind)
        for evict in result.evictions:
            self._delete(evict)
        self._release_claims()
        self.memory = result.memory

    def waiting_for_others(self) -> Counter[str]:
        """Count the pods that wait for other schedulers, by scheduler name."""
        return Counter(
            pod.spec.scheduler_name
            for pod in self._pods.values()
            if not pod.spec.node_name
            and pod.spec.scheduler_name != self._scheduler_name
            and pod.status.phase == PodPhase.PENDING
        )

    def _run(self, placement: Placement, bind: Bind) -> None:
        pod = self._pods[bind.pod]
        spec = replace(pod.spec, node_name=bind.node)
        metadata = replace(
            pod.metadata, annotations={**pod.metadata.annotations, **bind_annotations(placement, bind)}
        )
        started = utc(self._now // 1000).isoformat()
        status = replace(pod.status, phase=str(PodPhase.RUNNING), start_time=started)
        running = replace(pod, metadata=metadata, spec=spec, status=status)
        self._pods[bind.pod] = running
        for grant in bind.grants:
            if grant.uid in self._claims:
                self._claims[grant.uid] = with_consumer(self._claims[grant.uid], running)
        if bind.grants:  # what is assumed for claims remains until the pod ends
            self._cache.apply(Assumed(bind, placement.queue))
        self._cache.apply(Applied(running))

    def _delete(self, evict: Evict) -> None:
        del self._pods[evict.pod]
        self._cache.apply(Deleted(kind="Pod", namespace=evict.namespace, name=evict.name, uid=evict.pod))

    def _release_claims(self) -> None:
        for uid, claim in tuple(self._claims.items()):
            left = released(claim, lambda pod: uses_claims(self._pods.get(pod)))
            if left is None:
                meta = claim.metadata
                del self._claims[uid]
                self._cache.apply(Deleted("ResourceClaim", meta.namespace, meta.name, meta.uid))
            elif left is not claim:
                self._claims[uid] = left
                self._cache.apply(Applied(left))


def run_until_stable(cluster: StaticCluster, config: SchedulerConfig) -> tuple[tuple[CycleResult, ...], bool]:
    """Run cycles until one changes nothing, at most DECIDE_CYCLES_MAX.

    Return the cycles that decided something and the last one, and whether that one decided nothing. A cycle
    without a decision may still change the memory: verdicts are worked out over several cycles. When nothing
    changes any more, the clock goes on to the next time at which the scheduler would search victims again
    because of its last decision.
    """
    results: list[CycleResult] = []
    nominated: list[tuple[PodUid, NodeName]] = []
    decided_at: int | None = None
    engine = Engine(config)
    for _ in range(DECIDE_CYCLES_MAX):
        memory, before = cluster.memory, nominated
        result = engine.decide(cluster.snapshot())
        cluster.apply(result)
        nominated = [(nomination.pod, nomination.node) for nomination in result.nominations]
        decided = bool(result.placements or result.evictions) or nominated != before
        if decided:
            results.append(result)
            decided_at = cluster.now
        elif replace(result.memory, cycle=memory.cycle) == memory:
            later = _next_search(result, now=cluster.now, decided_at=decided_at, config=config)
            if later is None:
                break
            cluster.wait_until(later)
    return (tuple(results), False) if decided else ((*results, result), True)


def _next_search(
    result: CycleResult, *, now: int, decided_at: int | None, config: SchedulerConfig
) -> int | None:
    """The time (ms) of the next search for victims that the last decision delays; None if there is none.

    Gangs that were just bound are not evicted, and a search that found no victims is not repeated at once.
    Both delays end soon; whatever else would happen later is not waited for.
    """
    if decided_at is None or result.wake_at is None:
        return None
    later = max(result.wake_at, now + _DECIDE_STEP_MIN_MS)
    longest = max(FRESH_VICTIMS_MS, config.retry.victim_search_ms)
    return later if later <= decided_at + longest else None
