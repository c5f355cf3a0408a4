"""Carries out evictions: says in each pod's status who evicts it and why, then deletes those very pods.

The order matters: a pod that is gone cannot be told any more. And of a gang all are told before the first one
is deleted: whoever leads next finds on the pods that are left what was begun (`actions/begun.py`). Both steps
may be repeated without harm, so an unknown outcome is simply tried again. Where an answer says that the pod
is gone, or is another one by now, the pod is read before that is believed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from phalanx.clock import Clock
from phalanx.kube.backoff import Backoff
from phalanx.kube.client import Client, Patch
from phalanx.kube.decode import Named
from phalanx.kube.errors import ApiError, Conflict, Invalid, NotFound
from phalanx.kube.fence import Fence, write_timeout
from phalanx.kube.timestamps import time_of
from phalanx.limits import (
    EVICT_ATTEMPTS_MAX,
    EVICT_BACKOFF_FIRST_S,
    EVICT_BACKOFF_LONGEST_S,
    EVICT_CONCURRENCY,
)
from phalanx.model.decisions import Evict
from phalanx.model.names import PodUid
from phalanx.model.wire.kinds import KINDS
from phalanx.observe.ports import WriteReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Named).decode
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
        self._client = client
        self._fence = fence
        self._reports = reports
        self._clock = clock
        self._jitter = jitter
        self._why_not = why_not
        self._queue: asyncio.Queue[_Step] = asyncio.Queue()
        self._open: set[PodUid] = set()

    def submit(self, evictions: Iterable[Evict]) -> None:
        """Take evictions of which none may be carried out before all are told; returns at once."""
        news = [eviction for eviction in evictions if eviction.pod not in self._open]
        together = _Together(len(news))
        for eviction in news:
            self._open.add(eviction.pod)
            self._queue.put_nowait(partial(self._tell, eviction, together))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(EVICT_CONCURRENCY):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            step = await self._queue.get()
            await step()

    async def _tell(self, eviction: Evict, together: "_Together") -> None:
        outcome = await self._persist(eviction, self._send_condition)
        if outcome is _Outcome.WRITTEN:
            together.told.append(eviction)
        else:
            self._settle(eviction, outcome)
        together.left -= 1
        if not together.left:
            for each in together.told:
                self._queue.put_nowait(partial(self._delete, each))

    async def _delete(self, eviction: Evict) -> None:
        outcome = await self._persist(eviction, self._send_delete)
        if outcome is _Outcome.WRITTEN:
            _log_of(eviction).info("evicted", message=eviction.message)
        self._settle(eviction, outcome)

    def _settle(self, eviction: Evict, outcome: "_Outcome") -> None:
        self._open.discard(eviction.pod)
        self._reports.written("eviction", _Outcome.WRITTEN if outcome is _Outcome.GONE else outcome)

    async def _persist(self, eviction: Evict, send: Callable[[Evict], Awaitable[None]]) -> "_Outcome":
        backoff = Backoff(first=EVICT_BACKOFF_FIRST_S, longest=EVICT_BACKOFF_LONGEST_S, jitter=self._jitter)
        for _ in range(EVICT_ATTEMPTS_MAX):
            if not self._fence.may_write():
                return _Outcome.FENCED
            objection = self._why_not(eviction)
            if objection is not None:
                _log_of(eviction).info("not evicted", why=objection)
                return _Outcome.DROPPED
            try:
                await send(eviction)
            except _PERHAPS_GONE:
                if await self._is_gone(eviction):
                    return _Outcome.GONE
                await asyncio.sleep(backoff.next())
            except _AGAIN as error:
                _log_of(eviction).info("evict again", why=str(error))
                asked = error.retry_after if isinstance(error, ApiError) else None
                await asyncio.sleep(backoff.next(at_least=asked))
            else:
                return _Outcome.WRITTEN
        return _Outcome.GAVE_UP

    async def _send_condition(self, eviction: Evict) -> None:
        body = _disruption_target(eviction, now=time_of(self._clock.now_ms()))
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


_Step = Callable[[], Awaitable[None]]


class _Outcome(StrEnum):
    WRITTEN = "written"
    GONE = "gone"
    DROPPED = "dropped"
    FENCED = "fenced"
    GAVE_UP = "gave-up"


class _Together:
    """Evictions that were submitted together: how many are still to be told, and who was."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.told: list[Evict] = []


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
