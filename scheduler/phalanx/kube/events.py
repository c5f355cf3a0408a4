"""Events of events.k8s.io/v1 about pods, as users know them from kube-scheduler.

The same event again within a while becomes a series on the one that exists, written at most once a period.
The name of an event is made here, so that sending it twice cannot make two of it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.background_writer import BackgroundWriter
from phalanx.kube.client import Client, Patch
from phalanx.kube.errors import AlreadyExists, NotFound
from phalanx.kube.fence import Fence, write_timeout
from phalanx.kube.text import shortened
from phalanx.kube.timestamps import format_micro_time
from phalanx.limits import EVENT_NAME_MAX, EVENT_NOTE_MAX_BYTES, EVENT_REPEAT_PERIOD_S, EVENT_SERIES_MAX
from phalanx.observe.ports import LimitReports

_encode: Final = msgspec.json.Encoder().encode


class PodRef(Struct, frozen=True):
    """The pod that an event is about."""

    namespace: str
    name: str
    uid: str


class _Series(Struct):
    """One event and how often it has happened. `written_at` is monotonic."""

    name: str
    count: int
    written_at: float


class PodEvents:
    """Tells users about their pods. Every method returns at once."""

    def __init__(
        self,
        *,
        client: Client,
        writer: BackgroundWriter,
        fence: Fence,
        clock: Clock,
        reports: LimitReports,
        controller: str,
        instance: str,
        repeat_period: float = EVENT_REPEAT_PERIOD_S,
    ) -> None:
        """`controller` is the scheduler's name, `instance` this process; both are shown with the event."""
        self._client = client
        self._writer = writer
        self._fence = fence
        self._clock = clock
        self._reports = reports
        self._controller = controller
        self._instance = instance
        self._repeat_period = repeat_period
        self._series: dict[tuple[str, str, str], _Series] = {}
        self._count = 0

    def scheduled(self, pod: PodRef, *, node: str) -> None:
        """The pod is bound."""
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._tell(pod, "Normal", "Scheduled", "Binding", note)

    def failed_scheduling(self, pod: PodRef, *, message: str) -> None:
        """The pod waits; `message` says why."""
        self._tell(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def preempted(self, pod: PodRef, *, message: str) -> None:
        """The pod is evicted for another one."""
        self._tell(pod, "Normal", "Preempted", "Preempting", message)

    def _tell(self, pod: PodRef, severity: str, reason: str, action: str, note: str) -> None:
        note = shortened(note, EVENT_NOTE_MAX_BYTES)
        key = (pod.uid, reason, note)
        now = self._clock.monotonic()
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

    def _write_of(self, pod: PodRef, series: _Series, about: dict[str, Any]) -> Callable[[], Awaitable[None]]:
        """The request as it is to be sent now, or later again: the time is that of the event."""
        happened = format_micro_time(self._clock.now_ms())
        count = series.count
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"

        async def create() -> None:
            event = {
                "metadata": {"name": series.name, "namespace": pod.namespace},
                "eventTime": happened,
                "reportingController": self._controller,
                "reportingInstance": self._instance,
                "regarding": _reference(pod),
                **about,
            }
            try:
                await self._client.create(path, _encode(event), timeout=write_timeout(self._fence))
            except AlreadyExists:
                return

        async def repeat() -> None:
            body = _encode({"series": {"count": count, "lastObservedTime": happened}})
            try:
                await self._client.patch(
                    f"{path}/{series.name}", body, how=Patch.MERGE, timeout=write_timeout(self._fence)
                )
            except NotFound:
                await create()

        return create if count == 1 else repeat

    def _new_name(self, pod: PodRef) -> str:
        """Unique: the pod's name, cut where it is too long for that, the time, a count."""
        self._count += 1
        suffix = f".{self._clock.now_ms():x}{self._count & 0xFFFF:04x}"
        return pod.name[: EVENT_NAME_MAX - len(suffix)].rstrip("-.") + suffix

    def _forget_oldest(self) -> None:
        if len(self._series) > EVENT_SERIES_MAX:
            del self._series[next(iter(self._series))]
            self._reports.limit_hit("EVENT_SERIES_MAX")


def _body(severity: str, reason: str, action: str, note: str) -> dict[str, Any]:
    return {"type": severity, "reason": reason, "action": action, "note": note}


def _reference(pod: PodRef) -> dict[str, str]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
