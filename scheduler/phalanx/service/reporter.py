"""Tells the cluster what was decided: conditions and events of pods, status of PodGroups and Queues.

Everything here follows from cycle results and the cache and is written after the binds. What a gang was told
last is kept while the gang exists, so that the same is not said twice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from phalanx.clock import Clock
from phalanx.kube.background_writer import BackgroundWriter, Bounds
from phalanx.kube.client import Client
from phalanx.kube.events import PodEvents, PodRef
from phalanx.kube.fence import Fence
from phalanx.kube.pace import RateLimiter
from phalanx.kube.status import StatusWriter
from phalanx.limits import (
    BACKGROUND_BURST,
    BACKGROUND_WRITES_PER_SECOND,
    EVENT_CONCURRENCY,
    EVENTS_WAITING_MAX,
    REPORT_FLUSH_S,
    REPORT_PERIOD_S,
    STATUS_CONCURRENCY,
    STATUS_RETRY_S,
    STATUS_WAITING_MAX,
)
from phalanx.model.api.pod_groups import Counts
from phalanx.model.decisions import Bind, CycleResult, Evict, EvictionReason, QueueReport
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid
from phalanx.model.reasons import Category, Reason, Verdict
from phalanx.observe.metrics import Metrics
from phalanx.service import pod_group_status, queue_status
from phalanx.service.cluster_state import ClusterState
from phalanx.service.pod_group_status import GangReport
from phalanx.service.pod_messages import WaitingPods

_NOTHING = GangReport()


class Reporter:
    """Hears results and outcomes at once, writes at its own pace while `run` runs."""

    def __init__(
        self,
        *,
        view: ClusterState,
        client: Client,
        fence: Fence,
        clock: Clock,
        metrics: Metrics,
        controller: str,
        instance: str,
        binds_idle: asyncio.Event,
        jitter: Callable[[], float],
    ) -> None:
        """`controller` is the scheduler's name, `instance` this process; both are shown with events."""
        self._view = view
        self._clock = clock
        self._told: dict[GangId, GangReport] = {}
        self._queues: Mapping[str, QueueReport] = {}
        self._queues_due = False
        self._waiting_pods = WaitingPods(clock, self._tell_later)

        def writer(what: str, bounds: Bounds) -> BackgroundWriter:
            pace = RateLimiter(per_second=BACKGROUND_WRITES_PER_SECOND, burst=BACKGROUND_BURST, clock=clock)
            return BackgroundWriter(
                what=what,
                bounds=bounds,
                pace=pace,
                fence=fence,
                binds_idle=binds_idle,
                reports=metrics,
                jitter=jitter,
            )

        self._status_writer = writer(
            "status", Bounds(STATUS_CONCURRENCY, STATUS_WAITING_MAX, "STATUS_WAITING_MAX")
        )
        self._event_writer = writer(
            "event", Bounds(EVENT_CONCURRENCY, EVENTS_WAITING_MAX, "EVENTS_WAITING_MAX")
        )
        self._status = StatusWriter(
            client=client, writer=self._status_writer, fence=fence, clock=clock, on_lost=self._write_lost
        )
        self._events = PodEvents(
            client=client,
            writer=self._event_writer,
            fence=fence,
            clock=clock,
            reports=metrics,
            controller=controller,
            instance=instance,
        )

    def try_acquire(self, pod: PodUid) -> bool:
        """The binder wants this pod; False while its status is being written."""
        return self._status.try_acquire(pod)

    async def run(self) -> None:
        """Until cancelled."""
        self._view.start_reporting()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._status_writer.run())
            tasks.create_task(self._event_writer.run())
            while True:
                await self._view.news.wait()
                self._report_touched()
                await asyncio.sleep(REPORT_PERIOD_S)

    async def flush(self) -> None:
        """Give what is still to be written a moment."""
        self._report_touched()
        try:
            async with asyncio.timeout(REPORT_FLUSH_S):
                await self._status_writer.idle.wait()
                await self._event_writer.idle.wait()
        except TimeoutError:
            return

    # --- what is heard -------------------------------------------------------------------------------------

    def cycle_finished(self, result: CycleResult) -> None:
        """Verdicts, placements and queues of one cycle."""
        for placement in result.placements:
            self._told[placement.gang] = GangReport(placement=placement)
            self._view.touch(placement.gang)
        for eviction in result.evictions:
            if eviction.reason != EvictionReason.MEMBER_REPLACED:
                self._told[eviction.gang] = self._told_of(eviction.gang, releasing=True)
            self._evicted(eviction)
        self._take_verdicts(result.verdicts)
        self._queues = result.queues
        self._report_queues()

    def _report_queues(self) -> None:
        self._queues_due = False
        for name, report in self._queues.items():
            written = self._view.objects.queue(name)
            if written is not None:
                status = queue_status.status_of(report, now_ms=self._clock.now_ms())
                self._status.queue(written, status)

    def bound(self, bind: Bind) -> None:
        """A bind was applied."""
        self._events.scheduled(PodRef(bind.namespace, bind.name, bind.pod), node=bind.node)

    def _take_verdicts(self, verdicts: tuple[Verdict, ...]) -> None:
        """The order of the verdicts is the order in which the gangs were tried."""
        ahead: Counter[str] = Counter()
        for verdict in verdicts:
            gang = self._view.cache.gang(verdict.gang)
            if gang is None:
                continue
            position = None
            if verdict.reason.category is Category.WAITING:
                ahead[gang.queue] += 1
                position = ahead[gang.queue]
            told = self._told_of(gang.id, verdict=verdict, position=position)
            if told != self._told.get(gang.id):
                self._told[gang.id] = told
                self._view.touch(gang.id)

    def _write_lost(self, uid: str) -> None:
        """A status that met somebody else's write is computed anew; not at once, lest two writers race.

        `uid` is a PodGroup's, a Queue's or a pod's.
        """
        self._waiting_pods.lost(PodUid(uid))
        self._touch_later(STATUS_RETRY_S, GangId(uid))
        if not self._queues_due:
            self._queues_due = True
            asyncio.get_running_loop().call_later(STATUS_RETRY_S, self._report_queues)

    def _touch_later(self, seconds: float, gang: GangId) -> None:
        asyncio.get_running_loop().call_later(seconds, self._view.touch, gang)

    def _tell_later(self, seconds: float, gang: GangId) -> None:
        asyncio.get_running_loop().call_later(seconds, self._tell_again, gang)

    def _tell_again(self, gang: GangId) -> None:
        self._waiting_pods.due(gang)
        self._view.touch(gang)

    def _told_of(self, gang: GangId, **changes: object) -> GangReport:
        return msgspec.structs.replace(self._told.get(gang, _NOTHING), **changes)

    def _evicted(self, eviction: Evict) -> None:
        pod = PodRef(eviction.namespace, eviction.name, eviction.pod)
        self._events.preempted(pod, message=eviction.message)

    # --- what is written -----------------------------------------------------------------------------------

    def _report_touched(self) -> None:
        for gang_id in self._view.take_touched():
            gang = self._view.cache.gang(gang_id)
            if gang is None:
                self._told.pop(gang_id, None)
                self._waiting_pods.forget(gang_id)
                self._report_empty(gang_id)
            else:
                self._report(gang, self._told.get(gang_id, _NOTHING))

    def _report_empty(self, gang: GangId) -> None:
        """A PodGroup without pods is no gang, but its status must not go on telling of pods."""
        written = self._view.objects.pod_group_of(gang)
        if written is not None and written.status.counts not in (None, Counts()):
            empty = pod_group_status.status_without_members(written.status, now_ms=self._clock.now_ms())
            self._status.pod_group(written, empty)

    def _report(self, gang: Gang, told: GangReport) -> None:
        written = self._view.objects.pod_group(gang)
        if written is not None:
            status = pod_group_status.status_of(
                gang, told, before=written.status, now_ms=self._clock.now_ms()
            )
            self._status.pod_group(written, status)
        if told.verdict is not None and told.verdict.reason is not Reason.SCHEDULING_GATED:
            self._tell_waiting_pods(gang, told.verdict)

    def _tell_waiting_pods(self, gang: Gang, verdict: Verdict) -> None:
        message = ". ".join(filter(None, (f"{verdict.reason.value}: {verdict.message}", verdict.next_step)))
        for pod in self._waiting_pods.to_tell(gang, verdict, message):
            self._status.pod_unschedulable(pod, message=message)
            self._events.failed_scheduling(PodRef(pod.namespace, pod.name, pod.uid), message=message)
