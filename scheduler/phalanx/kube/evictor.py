"""Carries out evictions: says in each pod's status who evicts it and why, then deletes those very pods.

The order matters: a pod that is gone cannot be told any more. And of a gang all are told before the first one
is deleted: whoever leads next finds on the pods that are left what was begun. Both steps
may be repeated without harm, so an unknown outcome is simply tried again. Where an answer says that the pod
is gone, or is another one by now, the pod is read before that is believed. What fails waits for its next
attempt outside the queue, and namespaces have their turns, so that nobody's trouble holds up others.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec
import structlog

from phalanx.clock import Clock
from phalanx.kube.backoff import Backoff
from phalanx.kube.client import Client, Patch
from phalanx.kube.decode import PartialObject
from phalanx.kube.errors import ApiError, Conflict, Invalid, NotFound
from phalanx.kube.fair_queue import FairQueue
from phalanx.kube.fence import Fence, write_timeout
from phalanx.kube.limits import (
    EVICT_ATTEMPTS_MAX,
    EVICT_BACKOFF_FIRST_S,
    EVICT_BACKOFF_LONGEST_S,
    EVICT_CONCURRENCY,
    EVICT_CONCURRENCY_OF_NAMESPACE,
)
from phalanx.kube.timestamps import format_time
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Evict
from phalanx.model.names import PodUid
from phalanx.observe.ports import WriteReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(PartialObject).decode
_PERHAPS_GONE: Final = (NotFound, Conflict, Invalid)
"""A UID that is another one: a patch of the status answers 422, a delete 409, as conflicts of writers do."""
_AGAIN: Final = (ApiError, OutcomeUnknown, RequestNotSent)


class Evictor:
    """Takes evictions with `submit`, works while `run` runs. The same pod is never evicted twice at once."""

    def __init__(
        self,
        *,
        client: Client,
        fence: Fence,
        reports: WriteReports,
        clock: Clock,
        jitter: Callable[[], float],
        why_not: Callable[[Evict], str | None] = lambda _eviction: None,
    ) -> None:
        """`jitter` gives numbers in [0, 1). `why_not` says before each attempt what speaks against it."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._client = client
        self._fence = fence
        self._reports = reports
        self._clock = clock
        self._jitter = jitter
        self._why_not = why_not
        self._queue: FairQueue[_Eviction] = FairQueue(
            self._advance, workers=EVICT_CONCURRENCY, of_tenant=EVICT_CONCURRENCY_OF_NAMESPACE
        )
        self._open: dict[PodUid, _Eviction] = {}

    def submit(self, evictions: Iterable[Evict]) -> None:
        """Take evictions of which none may be carried out before all are told; returns at once."""
        news = [eviction for eviction in evictions if eviction.pod not in self._open]
        together = _Together(len(news))
        for eviction in news:
            self._open[eviction.pod] = each = _Eviction(eviction, together, self._new_backoff())
            self._put(each)
        self._note_open()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def stop(self, *, within: float) -> None:
        """Drop what was not begun, and let the rest go on for so many seconds.

        What is left then whoever leads next finds on the pods: those that were told say so.
        """
        for each in tuple(self._open.values()):
            if not each.together.begun:
                self._drop(each, "the scheduler stops")
        try:
            async with asyncio.timeout(within):
                await self.idle.wait()
        except TimeoutError:
            _log.info("evictions are left to the next leader", pods=len(self._open))

    async def _advance(self, each: "_Eviction") -> None:
        """The next step of one eviction, if it is not settled meanwhile."""
        if self._open.get(each.evict.pod) is not each:
            return
        if not self._fence.may_write():
            self._settle(each, _Outcome.FENCED)
            return
        objection = self._why_not(each.evict)
        if objection is not None:
            self._drop(each, objection)
        else:
            await self._send(each)

    async def _send(self, each: "_Eviction") -> None:
        each.together.begun = True
        each.attempts += 1
        try:
            await (self._send_delete(each.evict) if each.is_told else self._send_condition(each.evict))
        except _PERHAPS_GONE as error:
            if await self._is_gone(each.evict):
                self._settle(each, _Outcome.GONE)
            else:
                self._retry(each, error)
        except _AGAIN as error:
            self._retry(each, error)
        else:
            self._has_been_sent(each)

    def _has_been_sent(self, each: "_Eviction") -> None:
        if each.is_told:
            _log_of(each.evict).info("evicted", message=each.evict.message)
            self._settle(each, _Outcome.WRITTEN)
            return
        each.is_told, each.attempts, each.backoff = True, 0, self._new_backoff()
        each.together.told.append(each)
        self._count_told(each.together)

    def _count_told(self, together: "_Together") -> None:
        """One more was told, or cannot be."""
        together.left -= 1
        if not together.left:
            for each in together.told:
                self._put(each)

    def _retry(self, each: "_Eviction", error: Exception) -> None:
        _log_of(each.evict).info("evict again", why=str(error))
        if each.attempts >= EVICT_ATTEMPTS_MAX:
            self._settle(each, _Outcome.GAVE_UP)
            return
        asked = error.retry_after if isinstance(error, ApiError) else None
        self._queue.put_later(each.evict.namespace, each, delay=each.backoff.next(at_least=asked))

    def _drop(self, each: "_Eviction", why: str) -> None:
        _log_of(each.evict).info("not evicted", why=why)
        self._settle(each, _Outcome.DROPPED)

    def _settle(self, each: "_Eviction", outcome: "_Outcome") -> None:
        del self._open[each.evict.pod]
        self._reports.written("eviction", _Outcome.WRITTEN if outcome is _Outcome.GONE else outcome)
        if not each.is_told:
            self._count_told(each.together)
        self._note_open()

    def _put(self, each: "_Eviction") -> None:
        self._queue.put(each.evict.namespace, each)

    def _note_open(self) -> None:
        self._reports.waiting("eviction", len(self._open))
        if self._open:
            self.idle.clear()
        else:
            self.idle.set()

    def _new_backoff(self) -> Backoff:
        return Backoff(first=EVICT_BACKOFF_FIRST_S, longest=EVICT_BACKOFF_LONGEST_S, jitter=self._jitter)

    async def _send_condition(self, eviction: Evict) -> None:
        body = _disruption_target(eviction, now=format_time(self._clock.now_ms()))
        timeout = write_timeout(self._fence)
        await self._client.patch(f"{_path(eviction)}/status", body, how=Patch.STRATEGIC, timeout=timeout)

    async def _send_delete(self, eviction: Evict) -> None:
        timeout = write_timeout(self._fence)
        await self._client.delete(_path(eviction), uid=eviction.pod, timeout=timeout)

    async def _is_gone(self, eviction: Evict) -> bool:
        try:
            found = await self._client.get(_path(eviction), _decode, timeout=write_timeout(self._fence))
        except NotFound:
            return True
        except (*_AGAIN, msgspec.MsgspecError):
            return False
        return found.metadata.uid != eviction.pod


class _Outcome(StrEnum):
    WRITTEN = "written"
    GONE = "gone"
    DROPPED = "dropped"
    FENCED = "fenced"
    GAVE_UP = "gave-up"


class _Together:
    """Evictions that were submitted together: who was told, and how many are still to be told.

    `begun`: whether some pod may have been told.
    """

    def __init__(self, left: int) -> None:
        self.left = left
        self.told: list[_Eviction] = []
        self.begun = False


class _Eviction:
    """One on its way. Once it `is_told`, its pod is deleted as soon as all of `together` are; attempts and
    backoff are those of the present step.
    """

    def __init__(self, evict: Evict, together: _Together, backoff: Backoff) -> None:
        self.evict = evict
        self.together = together
        self.backoff = backoff
        self.attempts = 0
        self.is_told = False


def _log_of(eviction: Evict) -> Any:
    return _log.bind(pod=f"{eviction.namespace}/{eviction.name}", cause=eviction.reason)


def _path(eviction: Evict) -> str:
    return KINDS["Pod"].path(namespace=eviction.namespace, name=eviction.name)


def _disruption_target(eviction: Evict, *, now: str) -> bytes:
    """With the UID in it the API server refuses the patch when the name belongs to another pod by now."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": eviction.reason,
        "message": eviction.message,
        "lastTransitionTime": now,
    }
    return _encode({"metadata": {"uid": eviction.pod}, "status": {"conditions": [condition]}})
