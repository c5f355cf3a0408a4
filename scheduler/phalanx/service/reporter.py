"""Report decisions to users: conditions and events of pods, status of PodGroups and Queues.

All reports follow from cycle results and the cache, and are written after the binds. The last report of a
gang is kept while the gang exists, so that it is not written twice.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from phalanx.kube.api_fields import format_time
from phalanx.kube.background_writer import BackgroundWriter, WriteQueue
from phalanx.kube.events import EventSource, PodEvents, PodRef, reference
from phalanx.kube.job_sizes import JobSize, JobSizeWriter
from phalanx.kube.status import StatusWriter
from phalanx.kube.writing import WriteContext
from phalanx.limits import EVENTS_WAITING_MAX, REPORT_FLUSH_S, REPORT_PERIOD_S, STATUS_WAITING_MAX
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.pod_groups import Counts
from phalanx.model.api.volcano import VolcanoPodGroup
from phalanx.model.awaited_pods import is_awaited
from phalanx.model.decisions import Bind, CycleResult, Evict, EvictionReason, Placement, QueueReport
from phalanx.model.dialects.composite import COMPOSITE, gangs_of_parts
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import DIALECTS
from phalanx.model.dialects.native import NATIVE
from phalanx.model.dialects.volcano import VOLCANO, wanted_without_pods
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import LetIn, Nomination
from phalanx.model.names import API_GROUP, GangId, NodeName, PodUid, QueueName
from phalanx.model.reasons import Category, Reason, Verdict
from phalanx.model.workloads.job import JOB
from phalanx.service import partial_admission, pod_group_status, queue_status
from phalanx.service.cluster_state import ClusterState
from phalanx.service.condition_reasons import ConditionReasons
from phalanx.service.gang_records import GangRecords
from phalanx.service.later_reports import LaterReports
from phalanx.service.pod_group_status import GangReport
from phalanx.service.pod_messages import PodMessages
from phalanx.service.tenant_names import TenantNames
from phalanx.service.waiting_events import WaitingEvents

_log: Final[Any] = structlog.get_logger(__name__)

_NEXT_STEP: Final = "Wait until the driver of the device has prepared it"


class _Waits(Struct):
    """The placements of a gang that wait, by cycle and cause, each with what it awaits."""

    texts: dict[tuple[int, str], str] = {}
    verdict: Verdict | None = None


class _AwaitedDevices:
    """Which placed gangs wait until drivers have prepared their devices: remembers what was said of each."""

    def __init__(self) -> None:
        self._gangs: dict[GangId, _Waits] = {}

    def verdict(self, gang: GangId) -> Verdict | None:
        """What is said of the gang; None if it does not wait."""
        waits = self._gangs.get(gang)
        return waits.verdict if waits is not None else None

    def note(self, placement: Placement, why: str) -> bool:
        """Whether the placement did not wait before. `why` is empty if it does not wait any more."""
        waits = self._gangs.setdefault(placement.gang, _Waits())
        key = (placement.cycle, placement.cause)
        is_new = key not in waits.texts
        waits.texts.pop(key, None)
        if why:
            waits.texts[key] = why
        if not waits.texts:
            self.forget(placement.gang)
            return False
        text, reason = next(iter(waits.texts.values())), Reason.RESOURCE_CLAIM_NOT_READY
        waits.verdict = Verdict(placement.gang, placement.group, reason, text, next_step=_NEXT_STEP)
        return is_new and bool(why)

    def forget(self, gang: GangId) -> None:
        """The gang is gone, or is placed again."""
        self._gangs.pop(gang, None)


_STATUS_CONCURRENCY: Final = 8
"""Status writes in flight: a fraction of the binds."""

_EVENT_CONCURRENCY: Final = 4
"""Events in flight. Events have the lowest priority."""

_STATUS_RETRY_S: Final = 2.0
"""Seconds before the status of a PodGroup is computed and written again after a failed write."""

_NO_REPORT = GangReport()


class _Taken(Struct):
    """The last verdict on a gang."""

    verdict: Verdict
    queue: QueueName | None
    """Its queue if it has a position there."""
    position: int | None = None
    is_reported: bool = False


class Reporter:
    """Receives results and outcomes at once, writes at its own rate while `run` runs."""

    def __init__(
        self,
        context: WriteContext,
        *,
        state: ClusterState,
        records: GangRecords,
        names: TenantNames,
        source: EventSource,
        none_due: asyncio.Event,
        has_compatible_conditions: bool = False,
    ) -> None:
        """`source` is shown with events; `none_due` is set while no bind can be sent.

        `has_compatible_conditions`: all waiting pods are `Unschedulable`, whatever they wait for.
        """
        self._state = state
        self._records = records
        self._names = names
        self._clock = context.clock
        self._reports: dict[GangId, GangReport] = {}
        self._verdicts: tuple[Verdict, ...] = ()
        self._late: Mapping[GangId, LetIn] = {}
        self._nominated: Mapping[GangId, Mapping[PodUid, NodeName]] = {}
        """The nodes on which capacity is being freed for pods."""
        self._taken: dict[GangId, _Taken] = {}
        self._awaited = _AwaitedDevices()
        self._queues: Mapping[str, QueueReport] = {}
        self._queues_planned = False
        self._later = LaterReports(context.clock, state.mark_changed)
        self._pod_messages = PodMessages(context.clock, self._later.plan)
        self._waiting_events = WaitingEvents(context.clock, self._later.plan)
        self._condition_reasons = ConditionReasons(
            context.clock, self._later.plan, is_compatible=has_compatible_conditions
        )
        self._status_writer = BackgroundWriter(
            context,
            WriteQueue("status", _STATUS_CONCURRENCY, STATUS_WAITING_MAX, "STATUS_WAITING_MAX"),
            none_due=none_due,
        )
        self._event_writer = BackgroundWriter(
            context,
            WriteQueue("event", _EVENT_CONCURRENCY, EVENTS_WAITING_MAX, "EVENTS_WAITING_MAX"),
            none_due=none_due,
        )
        self._status = StatusWriter(context, writer=self._status_writer, on_lost=self._write_lost)
        self._job_sizes = JobSizeWriter(context, writer=self._status_writer)
        self.events = PodEvents(context, writer=self._event_writer, source=source)

    def try_acquire(self, pod: PodUid) -> bool:
        """Drop pending writes to a pod that is to be bound, and to its Job; False while one is in flight."""
        bound = self._state.cache.pod(pod)
        owner = bound.controller if bound is not None else None
        is_free = owner is None or self._job_sizes.try_acquire(owner.uid)
        return is_free and self._status.try_acquire(pod)

    async def run(self) -> None:
        """Write reports until cancelled."""
        self._state.start_reporting()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._status_writer.run())
            tasks.create_task(self._event_writer.run())
            while True:
                await self._state.has_changes.wait()
                self._report_changed()
                await asyncio.sleep(REPORT_PERIOD_S)

    async def flush(self) -> None:
        """Write what is pending, for a short time."""
        self._report_changed()
        try:
            async with asyncio.timeout(REPORT_FLUSH_S):
                await self._status_writer.idle.wait()
                await self._event_writer.idle.wait()
        except TimeoutError:
            return

    # --- input ---------------------------------------------------------------------------------------------

    def cycle_finished(self, result: CycleResult) -> None:
        """Take over placements, evictions, verdicts and queue reports of one cycle."""
        for placement in result.placements:
            self._forget_verdict(placement.gang)
            self._reports[placement.gang] = GangReport(placement=placement)
            self._state.mark_changed(placement.gang)
        for eviction in result.evictions:
            self._forget_verdict(eviction.gang)
            self._evicted(eviction)
        self._take_evictions(result.evictions)
        self._take_verdicts(result.verdicts)
        self._take_late_gangs(result.memory.let_in)
        self._take_nominations(result.memory.nominations)
        self._queues = result.queues
        self._report_queues()

    def _take_evictions(self, evictions: Sequence[Evict]) -> None:
        """Report which gangs lose all their nodes, and for whom. Those that lose surplus members go on."""
        by_gang: dict[GangId, dict[PodUid, Evict]] = {}
        for eviction in evictions:
            if eviction.reason != EvictionReason.MEMBER_REPLACED:
                by_gang.setdefault(eviction.gang, {})[eviction.pod] = eviction
        for gang_id, evicted in by_gang.items():
            gang = self._state.cache.gang(gang_id)
            held = [pod for pod in gang.members if pod.holds_node and not pod.deleting] if gang else ()
            if any(pod.uid not in evicted for pod in held):
                continue
            report = self._changed_report(gang_id, releasing=True)
            if all(each.reason == EvictionReason.PREEMPTED for each in evicted.values()):
                message = self._names.eviction_message(next(iter(evicted.values())))
                report = msgspec.structs.replace(report, preempted=message)
            self._set_report(gang_id, report)

    def _take_late_gangs(self, let_in: Mapping[GangId, LetIn]) -> None:
        """Report which gangs run longer than they may before a reserved start."""
        late = {gang: each for gang, each in let_in.items() if each.noticed}
        for gang in sorted({*self._late, *late}):
            report = self._reports.get(gang, _NO_REPORT)
            if report.late != late.get(gang):
                self._set_report(gang, msgspec.structs.replace(report, late=late.get(gang)))
        self._late = late

    def _take_nominations(self, nominations: Mapping[GangId, Nomination]) -> None:
        before = self._nominated
        self._nominated = {
            gang: {pod: node for node, pods in each.members.items() for pod in pods}
            for gang, each in nominations.items()
            if each.usage
        }
        for gang in {**before, **self._nominated}:
            if before.get(gang) != self._nominated.get(gang):
                self._state.mark_changed(gang)

    def _report_queues(self) -> None:
        self._queues_planned = False
        for name, report in self._queues.items():
            queue = self._state.objects.queue(name)
            if queue is not None:
                status = queue_status.status_of(report, now_ms=self._clock.now_ms())
                self._status.queue(queue, status)

    def _forget_verdict(self, gang: GangId) -> None:
        """Report its next verdict, even if it is the last one again."""
        self._taken.pop(gang, None)
        self._awaited.forget(gang)
        self._verdicts = ()

    def bound(self, bind: Bind) -> None:
        """Report that a bind was applied."""
        self.events.scheduled(PodRef(bind.namespace, bind.name, bind.pod), node=bind.node)

    def devices_awaited(self, placement: Placement, why: str) -> None:
        """Report that a placement waits until drivers have prepared its devices.

        `why` names a claim, a device and a condition; empty if all devices are ready.
        """
        gang, before = placement.gang, self._awaited.verdict(placement.gang)
        for bind in placement.binds if self._awaited.note(placement, why) else ():
            own = next(iter(self._state.cache.awaited_claims(bind)), why)
            pod = PodRef(bind.namespace, bind.name, bind.pod)
            self.events.devices_awaited(pod, node=bind.node, why=str(own))
        report = self._reports.get(gang, _NO_REPORT)
        if report.verdict is None or report.verdict is before:  # else it is about members that are not placed
            self._set_report(gang, msgspec.structs.replace(report, verdict=self._awaited.verdict(gang)))

    def _take_verdicts(self, verdicts: tuple[Verdict, ...]) -> None:
        """Derive queue positions from the order of the verdicts, in which the gangs were tried.

        Verdicts that stay the same objects, at the same positions, cost little.
        """
        if verdicts == self._verdicts:
            return
        self._verdicts = verdicts
        positions: Counter[str] = Counter()
        for verdict in verdicts:
            taken = self._taken.get(verdict.gang)
            if taken is None or taken.verdict is not verdict:
                gang = self._state.cache.gang(verdict.gang)
                if gang is None:
                    continue
                is_waiting = verdict.reason.category is Category.WAITING
                taken = self._taken[verdict.gang] = _Taken(verdict, gang.queue if is_waiting else None)
            position = None
            if taken.queue is not None:
                positions[taken.queue] += 1
                position = positions[taken.queue]
            if position != taken.position or not taken.is_reported:
                taken.position, taken.is_reported = position, True
                self._report_verdict(verdict, position)

    def _report_verdict(self, verdict: Verdict, position: int | None) -> None:
        changed = self._changed_report(verdict.gang, verdict=verdict, position=position)
        self._set_report(verdict.gang, changed)

    def _set_report(self, gang: GangId, report: GangReport) -> None:
        if report != self._reports.get(gang):
            self._reports[gang] = report
            self._state.mark_changed(gang)

    def _write_lost(self, uid: str) -> None:
        """Compute the status again after a conflicting write, with a delay, so that two writers do not race.

        `uid` is the UID of a PodGroup, a Queue or a pod.
        """
        self._pod_messages.write_lost(PodUid(uid))
        self._report_soon(GangId(uid))
        if not self._queues_planned:
            self._queues_planned = True
            asyncio.get_running_loop().call_later(_STATUS_RETRY_S, self._report_queues)

    def _report_soon(self, gang: GangId) -> None:
        asyncio.get_running_loop().call_later(_STATUS_RETRY_S, self._state.mark_changed, gang)

    def _changed_report(self, gang: GangId, **changes: object) -> GangReport:
        return msgspec.structs.replace(self._reports.get(gang, _NO_REPORT), **changes)

    def _evicted(self, eviction: Evict) -> None:
        pod = PodRef(eviction.namespace, eviction.name, eviction.pod)
        self.events.preempted(pod, message=self._names.eviction_message(eviction))

    def set_compatible_conditions(self, is_compatible: bool) -> bool:
        """Whether all waiting pods are `Unschedulable`. Return whether that has changed."""
        has_changed = self._condition_reasons.is_compatible != is_compatible
        self._condition_reasons.is_compatible = is_compatible
        return has_changed

    def config_reloaded(self, lease: PodRef, *, message: str, is_used: bool) -> None:
        """Report that a changed configuration file is used, or was refused."""
        self.events.config_reloaded(lease, message=message, is_used=is_used)

    # --- output --------------------------------------------------------------------------------------------

    def _report_changed(self) -> None:
        for gang_id in self._state.take_changed():
            gang = self._state.cache.gang(gang_id)
            if gang is None:
                report = self._reports.pop(gang_id, _NO_REPORT)
                self._forget_verdict(gang_id)
                self._later.forget(gang_id)
                self._pod_messages.forget(gang_id)
                self._waiting_events.forget(gang_id)
                self._condition_reasons.forget(gang_id)
                self._resize(gang_id, None, None)
                self._report_without_members(gang_id, report)
            else:
                self._report(gang, self._reports.get(gang_id, _NO_REPORT))

    def _report_without_members(self, gang: GangId, report: GangReport) -> None:
        """Reset the status of a PodGroup whose pods are all gone, but its record."""
        group = self._state.objects.pod_group(gang)
        if group is not None:
            status = group.status
            if status.counts not in (None, Counts()):
                now_ms = self._clock.now_ms()
                status = pod_group_status.status_without_members(status, report, now_ms=now_ms)
            status = self._records.in_status(gang, status, before=group.status)
            if status != group.status:
                self._status.pod_group(group, status)
        of_volcano = self._state.objects.pod_group_of(VOLCANO, gang)
        if isinstance(of_volcano, VolcanoPodGroup):
            self._report_job_without_pods(gang, of_volcano)

    def _report_job_without_pods(self, gang: GangId, group: VolcanoPodGroup) -> None:
        """Let Volcano create the pods of a Job, unless they could not be placed anyway."""
        meta, write = group.metadata, None
        if self._state.volcano_jobs.is_waiting(gang):
            objection = self._state.cache.objection_without_pods(VOLCANO.name, meta.namespace, meta.name)
            write = wanted_without_pods(group, objection, format_time(self._clock.now_ms()))
        self._status.pod_group_of(VOLCANO, meta, write)

    def _report(self, gang: Gang, report: GangReport) -> None:
        if any(is_awaited(uids[0]) for _, uids in gang.placed_uids):
            return  # its workload is being resumed: nothing of it runs yet
        self._resize(gang.id, gang, report.verdict)
        if report.verdict is not None:
            verdict = self._names.verdict(gang, report.verdict)
            report = msgspec.structs.replace(report, verdict=verdict)
        now_ms = self._clock.now_ms()
        group = self._state.objects.pod_group(gang.id)
        if group is not None:
            status = pod_group_status.status_of(gang, report, before=group.status, now_ms=now_ms)
            status = self._records.in_status(gang.id, status, before=group.status)
            self._status.pod_group(group, status)
        elif gang.dialect == COMPOSITE.name:
            for part in gangs_of_parts(gang):
                self._report_part(part, report.verdict)
        elif gang.dialect != API_GROUP:
            self._report_in_dialect(gang, report.verdict, DIALECTS[gang.dialect])
        elif gang.kind is GangKind.POD:
            self._report_start_of_one(gang, DIALECTS[gang.members[0].dialect])
        if report.verdict is not None and report.verdict.reason is not Reason.SCHEDULING_GATED:
            self._report_waiting_pods(gang, report.verdict)
        elif report.verdict is None:
            self._waiting_events.forget(gang.id)
            self._condition_reasons.forget(gang.id)

    def _resize(self, gang_id: GangId, gang: Gang | None, verdict: Verdict | None) -> None:
        """Set the parallelism of a Job with partial admission."""
        workload = self._state.cache.workload(gang_id)
        size = partial_admission.size_of(workload, gang, verdict) if workload is not None else None
        if size is not None:
            on_written = partial(self._resized, size)
            on_lost = partial(self._report_soon, gang_id)
            self._job_sizes.put(size, on_written=on_written, on_lost=on_lost)

    def _resized(self, size: JobSize) -> None:
        job = PodRef(size.namespace, size.name, size.uid, kind=JOB.kind, api_version=JOB.api_version)
        self.events.resized(job, message=size.message, is_restored=size.full is None)

    def _report_in_dialect(self, gang: Gang, verdict: Verdict | None, dialect: Dialect) -> None:
        group = self._state.objects.pod_group_of(dialect, gang.id)
        if group is not None and dialect.status is not None:
            reported = pod_group_status.reported_gang(gang, verdict, now_ms=self._clock.now_ms())
            self._status.pod_group_of(dialect, group.metadata, dialect.status.wanted(reported, group))

    def _report_part(self, part: Gang, verdict: Verdict | None) -> None:
        """Report on a PodGroup in a composite group."""
        group = self._state.objects.named_pod_group(NATIVE, part.members[0])
        if group is not None and NATIVE.status is not None:
            reported = pod_group_status.reported_gang(part, verdict, now_ms=self._clock.now_ms())
            self._status.pod_group_of(NATIVE, group.metadata, NATIVE.status.wanted(reported, group))

    def _report_start_of_one(self, gang: Gang, dialect: Dialect) -> None:
        """Report the first start of a pod whose PodGroup is no gang; its own condition says why it waits."""
        group = self._state.objects.named_pod_group(dialect, gang.members[0])
        if group is not None and dialect.status is not None:
            reported = pod_group_status.reported_gang(gang, None, now_ms=self._clock.now_ms())
            write = dialect.status.wanted(reported, group)
            if write is not None:
                self._status.pod_group_of(dialect, group.metadata, write)

    def _report_waiting_pods(self, gang: Gang, verdict: Verdict) -> None:
        if not gang.has_waiting or not self._waiting_events.is_settled(verdict):
            return
        message = ". ".join(filter(None, (f"{verdict.reason.value}: {verdict.message}", verdict.next_step)))
        reason = self._condition_reasons.of(gang, verdict)
        nodes = self._nominated.get(gang.id, {})
        for pod in self._pod_messages.pods_to_update(gang, verdict, message, reason, nodes):
            if not is_awaited(pod.uid):
                self._status.pod_waits(pod, reason=reason, message=message, node=nodes.get(pod.uid))
        if self._waiting_events.is_new(verdict):
            self._tell_gang(gang, verdict, message)
        for pod in self._waiting_events.pods_to_tell(gang, verdict):
            if not is_awaited(pod.uid):
                self.events.failed_scheduling(PodRef(pod.namespace, pod.name, pod.uid), message=message)

    def _tell_gang(self, gang: Gang, verdict: Verdict, message: str) -> None:
        """An event on the object that users know the gang by; a pod, if there is no other object."""
        _log.info("gang waits", gang=str(gang), reason=verdict.reason.value, message=verdict.message)
        about = self._object_of(gang)
        if about is None:
            pod = next(each for each in gang.members if each.is_waiting)
            if is_awaited(pod.uid):
                return
            self._waiting_events.told(verdict, pod)
            about = PodRef(pod.namespace, pod.name, pod.uid)
        self.events.failed_scheduling(about, message=message)

    def _object_of(self, gang: Gang) -> PodRef | None:
        """Its PodGroup, workload, or the one workload that controls its pods."""
        group = self._state.objects.pod_group(gang.id)
        if group is not None:
            return reference(KINDS["PodGroup"], gang.namespace, group.metadata.name, gang.uid)
        if gang.kind is GangKind.WORKLOAD and gang.workload in KINDS:
            return reference(KINDS[gang.workload], gang.namespace, gang.name, gang.uid)
        dialect = DIALECTS.get(gang.dialect)
        if gang.kind is GangKind.POD_GROUP and dialect is not None and dialect.kind in KINDS:
            named = self._state.objects.pod_group_of(dialect, gang.id)
            kind = KINDS[dialect.kind]
            return None if named is None else reference(kind, gang.namespace, named.metadata.name, gang.uid)
        owners = {pod.controller for pod in gang.members}
        owner = owners.pop() if len(owners) == 1 and gang.kind is GangKind.LABEL else None
        if owner is None or owner.workload not in KINDS:
            return None
        return reference(KINDS[owner.workload], gang.namespace, owner.name, owner.uid)
