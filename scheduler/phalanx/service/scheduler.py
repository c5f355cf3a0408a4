"""One scheduler from start to stop: follow the cluster, wait for leadership, decide, write, give back."""

import asyncio
from collections.abc import Callable

import structlog
from msgspec import Struct

from phalanx.cache.cache import Cache
from phalanx.clock import Clock, SteadyClock, seeded_random
from phalanx.deciders.port import Decider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.bind_outcomes import BindOutcome
from phalanx.kube.binder import Binder
from phalanx.kube.client import Client
from phalanx.kube.evictor import Evictor
from phalanx.kube.leader_election import Leadership
from phalanx.limits import EVICT_STOP_GRACE_S, STOP_GRACE_S
from phalanx.model.decisions import CycleResult, Placement
from phalanx.model.names import GangId, PodUid
from phalanx.model.snapshot import Snapshot
from phalanx.observe.metrics import Metrics
from phalanx.service.cluster_state import ClusterState
from phalanx.service.cycle_loop import CycleLoop
from phalanx.service.dispatcher import Dispatcher
from phalanx.service.eviction_check import CacheEvictionCheck
from phalanx.service.plan_check import CachePlacementCheck
from phalanx.service.reporter import Reporter
from phalanx.service.watcher import ClusterWatcher

_log = structlog.get_logger(__name__)


class Identity(Struct, frozen=True):
    """Who we are among the replicas, and the Lease that they share."""

    name: str
    lease_namespace: str
    lease_name: str = "phalanx"


class SchedulerDependencies(Struct, frozen=True):
    """What a scheduler stands on; a simulation brings its own. The Lease has a client of its own.

    `controller` is the name by which pods choose this scheduler, `config` what the decider goes by;
    `on_synced` is called when a new leader knows the whole cluster.
    """

    client: Client
    lease_client: Client
    cache: Cache
    decider: Decider
    clock: Clock
    metrics: Metrics
    identity: Identity
    controller: str
    seed: int = 0
    config: SchedulerConfig = SchedulerConfig()
    on_synced: Callable[[], None] = lambda: None


class Scheduler:
    """`run` it once. Raises LostLease when leadership is taken away, after all writing has ended."""

    def __init__(self, parts: SchedulerDependencies) -> None:
        jitter = seeded_random(parts.seed).random
        steady = SteadyClock(parts.clock)
        self._view = ClusterState(cache=parts.cache, decider=parts.decider)
        self._following = _following(parts, self._view, jitter)
        self._leadership = Leadership(
            client=parts.lease_client,
            namespace=parts.identity.lease_namespace,
            name=parts.identity.lease_name,
            identity=parts.identity.name,
            clock=parts.clock,
            reports=parts.metrics,
            jitter=jitter,
        )
        self._evictor = Evictor(
            client=parts.client,
            fence=self._leadership,
            reports=parts.metrics,
            clock=parts.clock,
            jitter=jitter,
            why_not=CacheEvictionCheck(parts.cache, lambda: self._cycles.breaker).why_not,
        )
        self._binder = Binder(
            client=parts.client,
            fence=self._leadership,
            check=CachePlacementCheck(parts.cache, parts.config),
            on_outcome=self._bind_settled,
            reports=parts.metrics,
            clock=parts.clock,
            jitter=jitter,
            try_acquire=self._stand_aside,
            newest=lambda group: self._view.objects.version(GangId(group.uid)),
            seen=lambda: self._following.version("Pod"),
        )
        self._reporter = Reporter(
            view=self._view,
            client=parts.client,
            fence=self._leadership,
            clock=parts.clock,
            metrics=parts.metrics,
            controller=parts.controller,
            instance=parts.identity.name,
            binds_idle=self._binder.idle,
            jitter=jitter,
        )
        self._hand_over = Dispatcher(
            view=self._view,
            binder=self._binder,
            evictor=self._evictor,
            reporter=self._reporter,
            clock=steady,
            retry=parts.config.retry,
        )
        self._cycles = CycleLoop(
            view=self._view,
            decider=parts.decider,
            dispatch=self._hand_over.dispatch,
            clock=steady,
            reports=parts.metrics,
        )

    @property
    def is_leading(self) -> bool:
        """Whether this replica takes itself for the leader."""
        return self._leadership.leading.is_set()

    @property
    def defect(self) -> tuple[Snapshot, CycleResult] | None:
        """The last cycle in which an answer of the solver failed its check."""
        return self._cycles.defect

    @property
    def unsettled(self) -> tuple[Snapshot, CycleResult] | None:
        """A late cycle in which the solver found neither a placement nor a proof that there is none."""
        return self._cycles.unsettled

    def liveness_error(self) -> str | None:
        """A plain sentence when only a restart can help."""
        return self._cycles.why_stuck()

    def readiness_error(self) -> str | None:
        """None once the cluster is known, leader or not; else a plain sentence."""
        return self._following.sync_error()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: a leader first finishes the gangs it has begun and gives the Lease back.

        Whoever leads at once lists the cluster once; anybody else follows it until then, and lists it anew.
        """
        async with asyncio.TaskGroup() as tasks:
            campaign = self._leadership.run(
                lambda: self._lead(tasks, stop), meanwhile=lambda: self._following.start(tasks)
            )
            leading = tasks.create_task(campaign, name="lead")
            stopping = tasks.create_task(stop.wait(), name="wait for stop")
            await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not self._leadership.leading.is_set():
                leading.cancel()
            await asyncio.wait((leading,))
            stopping.cancel()
            self._following.stop()

    async def _lead(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        await self._following.restart_and_sync(tasks)
        async with asyncio.TaskGroup() as work:
            workers = [
                work.create_task(self._binder.run(), name="bind"),
                work.create_task(self._evictor.run(), name="evict"),
                work.create_task(self._reporter.run(), name="report"),
            ]
            cycles = work.create_task(self._cycles.run(), name="cycles")
            await stop.wait()
            _log.info("stopping")
            cycles.cancel()
            await asyncio.gather(
                self._binder.stop(within=STOP_GRACE_S), self._evictor.stop(within=EVICT_STOP_GRACE_S)
            )
            await self._reporter.flush()
            for worker in workers:
                worker.cancel()

    def _bind_settled(self, placement: Placement, outcome: BindOutcome) -> None:
        self._hand_over.outcome(placement, outcome)

    def _stand_aside(self, pod: PodUid) -> bool:
        return self._reporter.try_acquire(pod)


def _following(
    parts: SchedulerDependencies, view: ClusterState, jitter: Callable[[], float]
) -> ClusterWatcher:
    return ClusterWatcher(
        view=view,
        client=parts.client,
        reports=parts.metrics,
        jitter=jitter,
        on_synced=parts.on_synced,
    )
