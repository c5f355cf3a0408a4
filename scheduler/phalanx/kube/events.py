"""Events of events.k8s.io/v1 about pods, with the reasons that kube-scheduler uses.

An event that repeats becomes a series on the existing one, written at most once a period. The name of an
event is made here, so that sending it twice does not create two events.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.kube.api_fields import format_micro_time, message_text
from phalanx.kube.background_writer import BackgroundWriter
from phalanx.kube.client import Patch
from phalanx.kube.errors import AlreadyExists, NotFound
from phalanx.kube.writing import WriteContext
from phalanx.limits import EVENT_SERIES_MAX
from phalanx.model.api.kind import Kind

EVENT_NAME_MAX: Final = 253
"""Characters of the name of an event. The API server refuses more, and the name of a pod can be as long."""

_EVENT_REPEAT_PERIOD_S: Final = 360.0
"""Seconds before a repeated event is written again, as in the recorder of client-go."""

_EVENT_NOTE_MAX_BYTES: Final = 1024
"""Bytes of the note of an event. The API server refuses more."""

_encode: Final = msgspec.json.Encoder().encode


class PodRef(Struct, frozen=True):
    """The pod that an event is about, or another object."""

    namespace: str
    name: str
    uid: str
    kind: str = "Pod"
    api_version: str = "v1"


def reference(kind: Kind, namespace: str, name: str, uid: str) -> PodRef:
    """An object of another kind that an event is about."""
    return PodRef(namespace, name, uid, kind.api_name, kind.api_version)


class EventSource(Struct, frozen=True):
    """Who reports an event; shown with it."""

    controller: str
    """The name of the scheduler."""
    instance: str
    """The identity of this process."""


class _Series(Struct):
    """One event and how often it has happened."""

    name: str
    count: int
    written_at: float
    """Monotonic seconds."""


class PodEvents:
    """Creates events about pods. Every method returns at once."""

    def __init__(
        self,
        context: WriteContext,
        *,
        writer: BackgroundWriter,
        source: EventSource,
        repeat_period: float = _EVENT_REPEAT_PERIOD_S,
    ) -> None:
        """`writer` sends the events; a series is written at most once in `repeat_period` seconds."""
        self._context = context
        self._client = context.client
        self._writer = writer
        self._source = source
        self._repeat_period = repeat_period
        self._series: dict[tuple[str, str, str], _Series] = {}
        self._count = 0

    def scheduled(self, pod: PodRef, *, node: str) -> None:
        """Report that the pod is bound."""
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._record(pod, "Normal", "Scheduled", "Binding", note)

    def failed_scheduling(self, pod: PodRef, *, message: str) -> None:
        """Report that the pod waits; `message` says why."""
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def devices_awaited(self, pod: PodRef, *, node: str, why: str) -> None:
        """Report that the pod has a node, and that devices of its gang are being prepared.

        The note begins like that of kube-scheduler.
        """
        note = f"waiting for binding conditions for device on node {node}: {why}"
        self._record(pod, "Normal", "BindingConditionsPending", "Scheduling", note)

    def preempted(self, pod: PodRef, *, message: str) -> None:
        """Report that the pod is evicted."""
        self._record(pod, "Normal", "Preempted", "Preempting", message)

    def suspended(self, workload: PodRef, *, message: str) -> None:
        """Report that a workload was suspended to evict its pods."""
        self._record(workload, "Normal", "Preempted", "Suspending", message)

    def resumed(self, workload: PodRef, *, message: str) -> None:
        """Report that a workload was resumed after that."""
        self._record(workload, "Normal", "Resumed", "Resuming", message)

    def resized(self, job: PodRef, *, message: str, is_restored: bool = False) -> None:
        """Report that the parallelism of a Job was lowered, or restored."""
        reason = "ParallelismRestored" if is_restored else "PartiallyAdmitted"
        self._record(job, "Normal", reason, "Resizing", message)

    def config_reloaded(self, lease: PodRef, *, message: str, is_used: bool) -> None:
        """Report on the Lease that a changed configuration file is used, or was refused."""
        severity, reason = ("Normal", "ConfigReloaded") if is_used else ("Warning", "ConfigRefused")
        self._record(lease, severity, reason, "Reloading", message)

    def _record(self, pod: PodRef, severity: str, reason: str, action: str, note: str) -> None:
        note = message_text(note, _EVENT_NOTE_MAX_BYTES)
        key = (pod.uid, reason, note)
        now = self._context.clock.monotonic()
        series = self._series.pop(key, None)
        if series is None:
            series = _Series(name=self._new_name(pod), count=0, written_at=now)
        self._series[key] = series
        series.count += 1
        if series.count > 1 and now < series.written_at + self._repeat_period:
            return
        series.written_at = now
        self._forget_oldest()
        self._writer.put(series.name, self._write_of(pod, series, _body(severity, reason, action, note)))

    def _write_of(self, pod: PodRef, series: _Series, body: dict[str, Any]) -> Callable[[], Awaitable[None]]:
        """Return the write of one occurrence; its timestamp is that of the event, whenever it is sent."""
        happened = format_micro_time(self._context.clock.now_ms())
        count = series.count
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"

        async def create() -> None:
            event = {
                "metadata": {"name": series.name, "namespace": pod.namespace},
                "eventTime": happened,
                "reportingController": self._source.controller,
                "reportingInstance": self._source.instance,
                "regarding": _reference(pod),
                **body,
            }
            try:
                await self._client.create(path, _encode(event), timeout=self._context.timeout())
            except AlreadyExists:
                return

        async def repeat() -> None:
            patch = _encode({"series": {"count": count, "lastObservedTime": happened}})
            try:
                await self._client.patch(
                    f"{path}/{series.name}", patch, how=Patch.MERGE, timeout=self._context.timeout()
                )
            except NotFound:
                await create()

        return create if count == 1 else repeat

    def _new_name(self, pod: PodRef) -> str:
        """Return a unique name: the pod's name, cut where it is too long, the time, a count."""
        self._count += 1
        suffix = f".{self._context.clock.now_ms():x}{self._count & 0xFFFF:04x}"
        return pod.name[: EVENT_NAME_MAX - len(suffix)].rstrip("-.") + suffix

    def _forget_oldest(self) -> None:
        if len(self._series) > EVENT_SERIES_MAX:
            del self._series[next(iter(self._series))]
            self._context.reports.limit_hit("EVENT_SERIES_MAX")


def _body(severity: str, reason: str, action: str, note: str) -> dict[str, Any]:
    return {"type": severity, "reason": reason, "action": action, "note": note}


def _reference(pod: PodRef) -> dict[str, str]:
    return {
        "kind": pod.kind,
        "apiVersion": pod.api_version,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
