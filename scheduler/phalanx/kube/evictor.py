"""Carry out evictions: write the condition DisruptionTarget to each pod, then delete exactly these pods.

Where the pods are all those of a workload that can be suspended, it is suspended instead: its controller then
deletes the pods.

The condition comes first, because a deleted pod cannot be patched. All pods of a gang get the condition, and
the record of the gang says that they are being evicted, before the first one is deleted: the next leader then
recognises a partly executed eviction on the pods that are left, and knows of those that are gone. Both steps
are idempotent, so an unknown outcome is retried. Where an answer suggests that the pod is gone or was
recreated, the pod is read to confirm it. A failed step waits for its next attempt outside the queue, and
namespaces take turns, so that failures do not block other evictions.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from phalanx.kube.api_fields import format_time
from phalanx.kube.client import Patch
from phalanx.kube.decode import PartialObject
from phalanx.kube.errors import ApiError, Conflict, Invalid, NotFound, retry_after
from phalanx.kube.flow_control import Backoff, FairQueue
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Evict
from phalanx.model.names import GangId, PodUid
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

EVICT_CONCURRENCY: Final = 8
"""Evictions in flight at once: they are few, and binds go first."""

EVICT_CONCURRENCY_PER_NAMESPACE: Final = 4
"""Evictions of one namespace in flight at once: where its webhooks hang, other namespaces still progress."""

EVICT_ATTEMPTS_MAX: Final = 8
"""Attempts for one step of an eviction: about half a minute, then the next cycle decides again."""

EVICT_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before the second attempt."""

EVICT_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds between two attempts for one pod at most."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(PartialObject).decode
_PERHAPS_GONE: Final = (NotFound, Conflict, Invalid)
"""Answers for a wrong UID: 422 to a patch of the status, 409 to a delete, as for conflicting writers."""
_RETRIED: Final = (ApiError, OutcomeUnknown, RequestNotSent)


class Evictor:
    """Accepts evictions with `submit`, works while `run` runs. A pod is never evicted twice at once."""

    def __init__(
        self,
        context: WriteContext,
        *,
        objection: Callable[[Evict], str | None] = lambda _eviction: None,
        message: Callable[[Evict], str] = lambda eviction: eviction.message,
        when_recorded: Callable[[GangId, Callable[[], None]], None] = lambda _, resume: resume(),
        suspend: Callable[[Sequence[Evict], Callable[[bool], None]], None] = lambda _, done: done(False),
    ) -> None:
        """`objection` says before each attempt why an eviction is no longer valid, or None; `message` is the
        message for the condition. `when_recorded` calls a function when the record of a gang is stored.
        `suspend` calls a function with whether the workload of these pods is suspended."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._context = context
        self._client = context.client
        self._objection = objection
        self._message = message
        self._when_recorded = when_recorded
        self._suspend = suspend
        self._queue: FairQueue[_Eviction] = FairQueue(
            self._advance, workers=EVICT_CONCURRENCY, workers_per_tenant=EVICT_CONCURRENCY_PER_NAMESPACE
        )
        self._open: dict[PodUid, _Eviction] = {}

    def submit(self, evictions: Iterable[Evict]) -> None:
        """Accept the evictions of a gang and return at once.

        No pod is deleted before all of them have the condition, and the record of the gang is stored.
        """
        accepted = [eviction for eviction in evictions if eviction.pod not in self._open]
        if not accepted:
            return
        batch = _Batch(len(accepted) + 1)
        for evict in accepted:
            self._open[evict.pod] = eviction = _Eviction(evict, batch, self._new_backoff())
            self._put(eviction)
        self._report_open()
        self._when_recorded(accepted[0].gang, partial(self._step_counted, batch))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def stop(self, *, within: float) -> None:
        """Drop the evictions that have not started, and continue the others for so many seconds.

        The next leader recognises unfinished evictions by the condition of the pods.
        """
        for eviction in tuple(self._open.values()):
            if not eviction.batch.started:
                self._drop(eviction, "the scheduler stops")
        try:
            async with asyncio.timeout(within):
                await self.idle.wait()
        except TimeoutError:
            _log.info("evictions left to the next leader", pods=len(self._open))

    async def _advance(self, eviction: "_Eviction") -> None:
        """Take the next step of one eviction, unless it is finished meanwhile."""
        if self._open.get(eviction.evict.pod) is not eviction:
            return
        if not self._context.fence.may_write():
            self._finish(eviction, _Outcome.FENCED)
            return
        objection = self._objection(eviction.evict)
        if objection is not None:
            self._drop(eviction, objection)
        else:
            await self._send(eviction)

    async def _send(self, eviction: "_Eviction") -> None:
        eviction.batch.started = True
        eviction.attempts += 1
        evict = eviction.evict
        try:
            await (self._delete(evict) if eviction.has_condition else self._write_condition(evict))
        except _PERHAPS_GONE as error:
            if await self._is_gone(evict):
                self._finish(eviction, _Outcome.GONE)
            else:
                self._retry(eviction, error)
        except _RETRIED as error:
            self._retry(eviction, error)
        else:
            self._step_done(eviction)

    def _step_done(self, eviction: "_Eviction") -> None:
        if eviction.has_condition:
            self._evicted(eviction)
            return
        eviction.has_condition, eviction.attempts, eviction.backoff = True, 0, self._new_backoff()
        eviction.batch.with_condition.append(eviction)
        self._step_counted(eviction.batch)

    def _evicted(self, eviction: "_Eviction") -> None:
        _log_of(eviction.evict).info("pod evicted", message=eviction.evict.message)
        self._finish(eviction, _Outcome.WRITTEN)

    def _step_counted(self, batch: "_Batch") -> None:
        """Count the record, or a pod that has the condition or cannot get it; then the pods are ended."""
        batch.steps -= 1
        if not batch.steps and batch.with_condition:
            evictions = [eviction.evict for eviction in batch.with_condition]
            self._suspend(evictions, partial(self._suspension_tried, batch))

    def _suspension_tried(self, batch: "_Batch", is_suspended: bool) -> None:
        """The controller of a suspended workload deletes the pods. Otherwise they are deleted here."""
        for eviction in batch.with_condition:
            if self._open.get(eviction.evict.pod) is not eviction:
                continue
            if is_suspended:
                self._evicted(eviction)
            else:
                self._put(eviction)

    def _retry(self, eviction: "_Eviction", error: Exception) -> None:
        _log_of(eviction.evict).info("eviction failed, retrying", error=str(error))
        if eviction.attempts >= EVICT_ATTEMPTS_MAX:
            self._finish(eviction, _Outcome.GAVE_UP)
            return
        delay = eviction.backoff.next(at_least=retry_after(error))
        self._queue.put_later(eviction.evict.namespace, eviction, delay=delay)

    def _drop(self, eviction: "_Eviction", reason: str) -> None:
        _log_of(eviction.evict).info("eviction dropped", reason=reason)
        self._finish(eviction, _Outcome.DROPPED)

    def _finish(self, eviction: "_Eviction", outcome: "_Outcome") -> None:
        del self._open[eviction.evict.pod]
        reported = _Outcome.WRITTEN if outcome is _Outcome.GONE else outcome
        self._context.reports.write_finished("eviction", reported)
        if not eviction.has_condition:
            self._step_counted(eviction.batch)
        self._report_open()

    def _put(self, eviction: "_Eviction") -> None:
        self._queue.put(eviction.evict.namespace, eviction)

    def _report_open(self) -> None:
        self._context.reports.writes_pending("eviction", len(self._open))
        if self._open:
            self.idle.clear()
        else:
            self.idle.set()

    def _new_backoff(self) -> Backoff:
        return self._context.backoff(first=EVICT_BACKOFF_FIRST_S, longest=EVICT_BACKOFF_LONGEST_S)

    async def _write_condition(self, evict: Evict) -> None:
        now = format_time(self._context.clock.now_ms())
        body = _disruption_target(evict, message=self._message(evict), now=now)
        timeout = self._context.timeout()
        await self._client.patch(f"{_path(evict)}/status", body, how=Patch.STRATEGIC, timeout=timeout)

    async def _delete(self, evict: Evict) -> None:
        timeout = self._context.timeout()
        await self._client.delete(_path(evict), uid=evict.pod, timeout=timeout)

    async def _is_gone(self, evict: Evict) -> bool:
        try:
            found = await self._client.get(_path(evict), _decode, timeout=self._context.timeout())
        except NotFound:
            return True
        except (*_RETRIED, msgspec.MsgspecError):
            return False
        return found.metadata.uid != evict.pod


class _Outcome(StrEnum):
    WRITTEN = "written"
    GONE = "gone"
    DROPPED = "dropped"
    FENCED = "fenced"
    GAVE_UP = "gave-up"


class _Batch:
    """Evictions that were submitted together."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        """What has to be written before the deletes: the record, and the conditions of the pods."""
        self.with_condition: list[_Eviction] = []
        self.started = False
        """Whether a request was sent."""


class _Eviction:
    """The state of one eviction; attempts and backoff are those of the present step."""

    def __init__(self, evict: Evict, batch: _Batch, backoff: Backoff) -> None:
        self.evict = evict
        self.batch = batch
        self.backoff = backoff
        self.attempts = 0
        self.has_condition = False


def _log_of(evict: Evict) -> Any:
    return _log.bind(pod=f"{evict.namespace}/{evict.name}", cause=evict.reason)


def _path(evict: Evict) -> str:
    return KINDS["Pod"].path(namespace=evict.namespace, name=evict.name)


def _disruption_target(evict: Evict, *, message: str, now: str) -> bytes:
    """Encode the patch; its UID makes the API server refuse it when the name belongs to another pod."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": evict.reason,
        "message": message,
        "lastTransitionTime": now,
    }
    return _encode({"metadata": {"uid": evict.pod}, "status": {"conditions": [condition]}})
