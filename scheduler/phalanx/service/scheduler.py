"""One scheduler from start to stop: watch the cluster, wait for leadership, decide, write, release."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import structlog
from msgspec import Struct, field

from phalanx.cache.cache import Cache
from phalanx.clock import Clock, SteadyClock, seeded_random
from phalanx.deciders.port import Decider, RecordedCycle
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.binder import Binder
from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.client import Client
from phalanx.kube.events import EventSource, PodRef
from phalanx.kube.evictor import Evictor
from phalanx.kube.garbage_collection import GarbageCollection
from phalanx.kube.leader_election import Identity, Leadership
from phalanx.kube.reflector import WatchContext
from phalanx.kube.workload_suspender import WorkloadSuspender
from phalanx.kube.writing import WriteContext
from phalanx.limits import EVICT_STOP_GRACE_S, REPORT_FLUSH_S
from phalanx.model.decisions import CycleResult
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.reasons import Verdict
from phalanx.model.workloads.known import workload_kinds
from phalanx.observe.metrics import Metrics
from phalanx.observe.ports import ClusterFigures, StartReports
from phalanx.service.bind_confirmations import BindConfirmations
from phalanx.service.cluster_state import ClusterState
from phalanx.service.config_reload import ConfigFile, ConfigReload, Reloaded
from phalanx.service.cycle_loop import CycleLoop
from phalanx.service.decision_log import DecisionLog
from phalanx.service.degraded import is_degraded
from phalanx.service.dispatcher import Dispatcher
from phalanx.service.gang_records import GangRecords
from phalanx.service.gang_starts import GangStarts, WaitHistory
from phalanx.service.reporter import Reporter
from phalanx.service.suspensions import Suspensions
from phalanx.service.tenant_names import TenantNames
from phalanx.service.watcher import ClusterWatcher
from phalanx.service.write_checks import CacheEvictionCheck, CachePlacementCheck

_STOP_GRACE_S: Final = 15.0
"""Seconds of a stopping scheduler to complete started gangs: half of the usual grace period of a pod."""

_log = structlog.get_logger(__name__)


class SchedulerDependencies(Struct, frozen=True):
    """What a scheduler is made of; a simulation passes its own parts."""

    client: Client
    lease_client: Client
    """A client with a connection of its own, for the Lease."""
    cache: Cache
    decider: Decider
    clock: Clock
    metrics: Metrics
    identity: Identity
    controller: str
    """The name by which pods choose this scheduler."""
    seed: int = 0
    """The seed of all jitter."""
    config: SchedulerConfig = SchedulerConfig()
    """The configuration that the decider uses."""
    config_file: ConfigFile | None = None
    """Where it is from, to use changes without a restart."""
    garbage_collection: GarbageCollection = field(default_factory=GarbageCollection)
    traces: StartReports | None = None
    """Also gets the starts of gangs, with what they waited for."""
    on_synced: Callable[[], None] = lambda: None
    """Called when a new leader has listed the whole cluster."""


class Scheduler:
    """Call `run` once. Raises LostLease when leadership is lost, after all writing has ended."""

    def __init__(self, dependencies: SchedulerDependencies) -> None:
        parts = dependencies
        jitter = seeded_random(parts.seed).random
        clock = SteadyClock(parts.clock)
        self._parts = parts
        self._state = ClusterState(cache=parts.cache, decider=parts.decider)
        self._watcher = _watcher(parts, self._state, jitter)
        self._leadership = Leadership(
            client=parts.lease_client,
            identity=parts.identity,
            clock=parts.clock,
            reports=parts.metrics,
            jitter=jitter,
        )
        context = WriteContext(
            client=parts.client,
            fence=self._leadership,
            clock=parts.clock,
            reports=parts.metrics,
            jitter=jitter,
        )
        self._names = TenantNames(parts.cache, show_all=parts.config.privacy.show_other_tenants)
        self._placement_check = CachePlacementCheck(parts.cache, parts.config, parts.clock.now_ms)
        self._binder = Binder(context, self._binder_callbacks(parts))
        self._records = GangRecords(context, state=self._state, namespace=parts.identity.lease_namespace)
        self._reporter = self._new_reporter(context)
        self._suspensions = self._new_suspensions(context)
        self._evictor = self._new_evictor(context)
        confirmations = BindConfirmations(parts.cache, parts.clock, parts.metrics)
        self._state.on_pods = (confirmations.seen, self._suspensions.pods_changed)
        self._state.on_api_event = self._binder.notice
        self._last_verdicts: tuple[Verdict, ...] = ()
        parts.metrics.follow_cluster(self._figures)
        self._decision_log = DecisionLog(partial(_name_of, parts.cache))
        self._dispatcher = Dispatcher(
            state=self._state,
            binder=self._binder,
            evictor=self._evictor,
            reporter=self._reporter,
            clock=clock,
            retry=parts.config.retry,
            starts=_starts(parts, clock, self._decision_log),
            confirmations=confirmations,
            records=self._records,
            suspensions=self._suspensions,
        )
        self._cycle_loop = CycleLoop(
            trigger=self._state.trigger,
            decider=parts.decider,
            dispatch=self._dispatch,
            clock=clock,
            reports=parts.metrics,
        )

    @property
    def is_leading(self) -> bool:
        """Whether this replica considers itself the leader."""
        return self._leadership.leading.is_set()

    @property
    def last_error(self) -> RecordedCycle | None:
        """The last cycle with a solver answer that failed validation, or with an internal error."""
        return self._cycle_loop.last_error

    @property
    def last_inconclusive(self) -> RecordedCycle | None:
        """A recent cycle in which the solver found neither a placement nor a proof that none exists."""
        return self._cycle_loop.last_inconclusive

    def liveness_error(self) -> str | None:
        """Return a sentence when only a restart can help, else None."""
        return self._cycle_loop.liveness_error()

    def readiness_error(self) -> str | None:
        """Return a sentence while the cluster is not listed, else None; leadership does not matter."""
        return self._watcher.sync_error()

    def _dispatch(self, result: CycleResult) -> None:
        self._last_verdicts = result.verdicts
        self._decision_log.cycle_finished(result)
        self._dispatcher.dispatch(result)

    def _figures(self) -> ClusterFigures | None:
        """Only the leader has them, so that they are not counted twice."""
        return _figures_of(self._parts.cache, self._last_verdicts) if self.is_leading else None

    def configure(self, config: SchedulerConfig) -> None:
        """Use this configuration from the next cycle on; it differs in nothing that needs a restart."""
        self._parts.decider.configure(config)
        self._placement_check.configure(config)
        self._dispatcher.retry = config.retry
        self._suspensions.configure(config)
        has_changed = self._names.show_all != config.privacy.show_other_tenants
        self._names.show_all = config.privacy.show_other_tenants
        has_changed |= self._reporter.set_compatible_conditions(config.conditions.compatible)
        if has_changed:
            for gang in self._parts.cache.gang_ids():
                self._state.mark_changed(gang)
        self._state.trigger.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; a leader first completes the started gangs and releases the Lease.

        A replica that leads at once lists the cluster once. Any other replica watches it until it leads, and
        then lists it again.
        """
        async with asyncio.TaskGroup() as tasks:
            election = self._leadership.run(
                lambda: self._lead(tasks, stop), on_waiting=lambda: self._watcher.start(tasks)
            )
            leading = tasks.create_task(election, name="lead")
            stopping = tasks.create_task(stop.wait(), name="wait for stop")
            reloading = self._start_reloading(tasks)
            await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not self._leadership.leading.is_set():
                leading.cancel()
            await asyncio.wait((leading,))
            stopping.cancel()
            if reloading is not None:
                reloading.cancel()
            self._watcher.stop()

    def _start_reloading(self, tasks: asyncio.TaskGroup) -> "asyncio.Task[None] | None":
        """Every replica follows the file, so that a new leader has the same configuration."""
        parts = self._parts
        if parts.config_file is None:
            return None
        reload = ConfigReload(
            parts.config_file,
            config=parts.config,
            apply=self.configure,
            on_outcome=self._config_reloaded,
            reports=parts.metrics,
        )
        return tasks.create_task(reload.run(), name="reload the configuration")

    def _config_reloaded(self, outcome: Reloaded) -> None:
        """The leader writes an event about the Lease, which is there in every installation."""
        if not self.is_leading:
            return
        identity = self._parts.identity
        lease = PodRef(
            identity.lease_namespace,
            identity.lease_name,
            self._leadership.uid,
            kind="Lease",
            api_version="coordination.k8s.io/v1",
        )
        self._reporter.config_reloaded(lease, message=outcome.message, is_used=outcome.is_used)

    async def _lead(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        await self._watcher.restart_and_sync(tasks)
        await asyncio.gather(self._records.load(), self._suspensions.load())
        async with asyncio.TaskGroup() as work:
            workers = [
                work.create_task(self._binder.run(), name="bind"),
                work.create_task(self._evictor.run(), name="evict"),
                work.create_task(self._suspensions.run(), name="suspend"),
                work.create_task(self._reporter.run(), name="report"),
                work.create_task(self._records.run(), name="record"),
            ]
            cycles = work.create_task(self._cycle_loop.run(), name="cycles")
            await stop.wait()
            _log.info("scheduler stopping")
            cycles.cancel()
            await asyncio.gather(
                self._binder.stop(within=_STOP_GRACE_S), self._evictor.stop(within=EVICT_STOP_GRACE_S)
            )
            await asyncio.gather(self._reporter.flush(), self._records.flush(within=REPORT_FLUSH_S))
            for worker in workers:
                worker.cancel()

    def _new_evictor(self, context: WriteContext) -> Evictor:
        return Evictor(
            context,
            objection=CacheEvictionCheck(self._parts.cache, lambda: self._cycle_loop.breaker).objection,
            message=self._names.eviction_message,
            when_recorded=self._records.when_eviction_stored,
            suspend=self._suspensions.end,
        )

    def _new_reporter(self, context: WriteContext) -> Reporter:
        parts = self._parts
        return Reporter(
            context,
            state=self._state,
            records=self._records,
            names=self._names,
            source=EventSource(controller=parts.controller, instance=parts.identity.name),
            none_due=self._binder.none_due,
            has_compatible_conditions=parts.config.conditions.compatible,
        )

    def _new_suspensions(self, context: WriteContext) -> Suspensions:
        config, identity = self._parts.config, self._parts.identity
        kinds = workload_kinds(config.workloads)
        suspensions = Suspensions(
            context,
            state=self._state,
            suspender=WorkloadSuspender(context, namespace=identity.lease_namespace, kinds=kinds),
            message=self._names.eviction_message,
            events=self._reporter.events,
        )
        suspensions.configure(config)
        return suspensions

    def _binder_callbacks(self, parts: SchedulerDependencies) -> BinderCallbacks:
        """Parts that are created after the binder are looked up when they are called."""
        return BinderCallbacks(
            check=self._placement_check,
            on_outcome=lambda placement, outcome: self._dispatcher.handle_outcome(placement, outcome),
            try_acquire=lambda pod: self._reporter.try_acquire(pod),
            pod_group_version=lambda group: self._state.objects.version(GangId(group.uid)),
            when_recorded=lambda placement, resume: self._records.when_stored(placement, resume),
            newest_record=lambda placement: self._records.newest(placement),
            unbound_claims=parts.cache.unbound_claims,
            awaited_claims=parts.cache.awaited_claims,
            on_awaited=lambda placement, why: self._dispatcher.devices_awaited(placement, why),
            on_claim=lambda claim: self._dispatcher.claim_seen(claim),
            pods_version=lambda: self._watcher.version("Pod"),
        )


def _starts(parts: SchedulerDependencies, clock: Clock, log: DecisionLog) -> GangStarts:
    """What gangs wait for is recorded only for traces."""
    if parts.traces is None:
        return GangStarts((parts.metrics, log), clock, None)
    return GangStarts((parts.metrics, log, parts.traces), clock, WaitHistory())


def _name_of(cache: Cache, gang: GangId) -> str | None:
    found = cache.gang(gang)
    return None if found is None else str(found)


def _watcher(
    parts: SchedulerDependencies, state: ClusterState, jitter: Callable[[], float]
) -> ClusterWatcher:
    context = WatchContext(
        client=parts.client,
        reports=parts.metrics,
        jitter=jitter,
        garbage_collection=parts.garbage_collection,
    )
    return ClusterWatcher(state=state, context=context, on_synced=parts.on_synced)


def _figures_of(cache: Cache, verdicts: Iterable[Verdict]) -> ClusterFigures:
    """The figures of the cluster as the cache has it, and of the verdicts of the last cycle.

    They are computed when metrics are read, which is every some seconds, and not in cycles.
    """
    states = Counter({"ready": 0, "cordoned": 0, "not-ready": 0})
    allocatable, free, whole = Counter[str](), Counter[str](), Counter[str]()
    for name, node in cache.nodes().items():
        state = _node_state(node)
        states[state] += 1
        allocatable.update(node.allocatable)
        used = cache.node_state(NodeName(name))
        if state == "ready" and used is not None:
            _add_free(used, free, whole)
    return ClusterFigures(
        nodes=states,
        allocatable=dict(sorted(allocatable.items())),
        free=dict(sorted(free.items())),
        free_on_empty_nodes=dict(sorted(whole.items())),
        waiting=_waiting(cache, verdicts),
        degraded=_degraded(cache, verdicts),
    )


def _node_state(node: Node) -> str:
    """Whether it takes pods: ready, cordoned by somebody, or not ready."""
    if node.unschedulable:
        return "cordoned"
    return "not-ready" if not node.is_ready or node.has_state_taint else "ready"


def _add_free(state: NodeState, free: Counter[str], whole: Counter[str]) -> None:
    for resource, amount in state.node.allocatable.items():
        left = max(0, state.free.get(resource, 0))
        free[resource] += left
        whole[resource] += left if left == amount else 0


def _degraded(cache: Cache, verdicts: Iterable[Verdict]) -> dict[tuple[str, ...], int]:
    """Every queue with started gangs has a number, so that an alert sees it fall to 0."""
    by_gang, counts = {verdict.gang: verdict for verdict in verdicts}, Counter[tuple[str, ...]]()
    for gang in cache.gangs().values():
        if gang.started:
            counts[(gang.queue,)] += is_degraded(gang, by_gang.get(gang.id), started=True)
    return dict(sorted(counts.items()))


def _waiting(cache: Cache, verdicts: Iterable[Verdict]) -> dict[tuple[str, ...], int]:
    """A gang that is gone since the cycle is left out."""
    gangs, counts = cache.gangs(), Counter[tuple[str, ...]]()
    for verdict in verdicts:
        gang = gangs.get(verdict.gang)
        if gang is not None:
            counts[gang.queue, verdict.reason.value] += 1
    return dict(sorted(counts.items()))
