"""Carries out evictions: says in the pod's status who evicts it and why, then deletes that very pod.

The order matters: a pod that is gone cannot be told any more. Both steps may be repeated without harm, so an
unknown outcome is simply tried again; a pod that is gone, or is another one by now, is done.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from phalanx.clock import Clock
from phalanx.kube.backoff import Backoff
from phalanx.kube.client import Client, Patch
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
_GONE: Final = (NotFound, Conflict, Invalid)
"""A UID that is another one: a patch of the status answers 422, a delete 409."""
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
        self._queue: asyncio.Queue[Evict] = asyncio.Queue()
        self._open: set[PodUid] = set()

    def submit(self, eviction: Evict) -> None:
        """Take one eviction; returns at once."""
        if eviction.pod not in self._open:
            self._open.add(eviction.pod)
            self._queue.put_nowait(eviction)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(EVICT_CONCURRENCY):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            eviction = await self._queue.get()
            outcome = await self._evict(eviction)
            self._open.discard(eviction.pod)
            self._reports.written("eviction", outcome)

    async def _evict(self, eviction: Evict) -> str:
        log = _log.bind(pod=f"{eviction.namespace}/{eviction.name}", cause=eviction.reason)
        backoff = Backoff(first=EVICT_BACKOFF_FIRST_S, longest=EVICT_BACKOFF_LONGEST_S, jitter=self._jitter)
        for _ in range(EVICT_ATTEMPTS_MAX):
            if not self._fence.may_write():
                return "fenced"
            objection = self._why_not(eviction)
            if objection is not None:
                log.info("not evicted", why=objection)
                return "dropped"
            try:
                await self._tell_and_delete(eviction)
            except _GONE:
                return "written"
            except _AGAIN as error:
                log.info("evict again", why=str(error))
                asked = error.retry_after if isinstance(error, ApiError) else None
                await asyncio.sleep(backoff.next(at_least=asked))
            else:
                log.info("evicted", message=eviction.message)
                return "written"
        return "gave-up"

    async def _tell_and_delete(self, eviction: Evict) -> None:
        pod = KINDS["Pod"].path(namespace=eviction.namespace, name=eviction.name)
        body = _disruption_target(eviction, now=time_of(self._clock.now_ms()))
        timeout = write_timeout(self._fence)
        await self._client.patch(f"{pod}/status", body, how=Patch.STRATEGIC, timeout=timeout)
        await self._client.delete(pod, uid=eviction.pod, timeout=write_timeout(self._fence))


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
