"""Writes that may wait: at most one per object under way, only the newest kept, binds go first.

Events and status go through here. A write that fails for good is counted and forgotten; whoever wanted it is
told and may ask again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

import structlog
from msgspec import Struct

from phalanx.kube.backoff import Backoff
from phalanx.kube.errors import ApiError, ServerError, TooManyRequests, Unauthorized
from phalanx.kube.fence import Fence
from phalanx.kube.pace import RateLimiter
from phalanx.limits import (
    BACKGROUND_ATTEMPTS_MAX,
    BACKGROUND_BACKOFF_FIRST_S,
    BACKGROUND_BACKOFF_LONGEST_S,
    BACKGROUND_YIELD_MAX_S,
    THROTTLED_WAIT_S,
)
from phalanx.observe.ports import WriteReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_TRANSIENT = (TooManyRequests, ServerError, Unauthorized, OutcomeUnknown, RequestNotSent)

Write = Callable[[], Awaitable[None]]
"""Sends one request; raises ApiError, OutcomeUnknown or RequestNotSent. It may be called again."""


class Bounds(Struct, frozen=True):
    """How much at once. `waiting` counts writes that rest before another attempt too.

    `limit` names the constant in limits.py that bounds `waiting`.
    """

    concurrency: int
    waiting: int
    limit: str


class _Item:
    def __init__(self, key: Hashable, write: Write, on_lost: Callable[[], None], backoff: Backoff) -> None:
        self.key = key
        self.write = write
        self.on_lost = on_lost
        self.backoff = backoff
        self.attempts = 0
        self.begun = False
        """Whether a request about it is, or may be, on its way; before that it can still be dropped."""
        self.dropped = False


class BackgroundWriter:
    """Takes writes with `put`, works while `run` runs."""

    def __init__(
        self,
        *,
        what: str,
        bounds: Bounds,
        pace: RateLimiter,
        fence: Fence,
        binds_idle: asyncio.Event,
        reports: WriteReports,
        jitter: Callable[[], float],
    ) -> None:
        """`what` is for reports. `binds_idle` is set while no bind waits."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._what = what
        self._bounds = bounds
        self._pace = pace
        self._fence = fence
        self._binds_idle = binds_idle
        self._reports = reports
        self._jitter = jitter
        self._waiting: dict[Hashable, _Item] = {}
        self._under_way: dict[Hashable, _Item] = {}
        self._resting: dict[Hashable, _Item] = {}
        self._wake = asyncio.Event()

    def put(self, key: Hashable, write: Write, *, on_lost: Callable[[], None] = lambda: None) -> None:
        """Ask for a write about `key`; it takes the place of one that still waits.

        `on_lost` is called when the write is given up, but not when it is replaced or dropped by `drop`.
        """
        backoff = Backoff(
            first=BACKGROUND_BACKOFF_FIRST_S, longest=BACKGROUND_BACKOFF_LONGEST_S, jitter=self._jitter
        )
        self._enqueue(_Item(key, write, on_lost, backoff))
        if len(self._waiting) + len(self._resting) > self._bounds.waiting:
            self._lose_oldest()

    def drop(self, key: Hashable) -> bool:
        """Forget a write that waits; False when one about `key` is being sent just now.

        One that has its turn but still yields to binds is forgotten too: a bind may be waiting for this.
        """
        self._waiting.pop(key, None)
        self._resting.pop(key, None)
        taken = self._under_way.get(key)
        if taken is not None and not taken.begun:
            taken.dropped = True
        self._note_idle()
        return taken is None or taken.dropped

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._bounds.concurrency):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            item = await self._take()
            try:
                await self._do(item)
            finally:
                self._under_way.pop(item.key, None)
                self._note_idle()
                self._wake.set()

    async def _take(self) -> _Item:
        """The oldest waiting write whose object is not being written."""
        while True:
            for key, item in self._waiting.items():
                if key not in self._under_way:
                    del self._waiting[key]
                    self._under_way[key] = item
                    return item
            self._wake.clear()
            await self._wake.wait()

    async def _do(self, item: _Item) -> None:
        item.begun = False
        await self._yield_to_binds()
        await self._pace.turn()
        if item.dropped:
            return
        item.begun = True
        if not self._fence.may_write():
            self._lose(item, "fenced", "not leading")
            return
        try:
            await item.write()
        except _TRANSIENT as error:
            self._retry(item, error)
        except ApiError as error:
            self._lose(item, "refused", str(error))
        else:
            self._reports.written(self._what, "written")

    async def _yield_to_binds(self) -> None:
        """Wait for a pause in binding, but not for ever: users look at events and status meanwhile."""
        if self._binds_idle.is_set():
            return
        try:
            async with asyncio.timeout(BACKGROUND_YIELD_MAX_S):
                await self._binds_idle.wait()
        except TimeoutError:
            return

    def _retry(self, item: _Item, error: Exception) -> None:
        item.attempts += 1
        if item.attempts >= BACKGROUND_ATTEMPTS_MAX:
            self._lose(item, "gave-up", str(error))
            return
        wait = error.retry_after if isinstance(error, ApiError) else None
        if isinstance(error, TooManyRequests):
            wait = wait or THROTTLED_WAIT_S
        if item.key not in self._waiting:
            self._resting[item.key] = item
            asyncio.get_running_loop().call_later(item.backoff.next(at_least=wait), self._again, item)

    def _lose(self, item: _Item, outcome: str, why: str) -> None:
        self._reports.written(self._what, outcome)
        _log.info("write lost", what=self._what, key=str(item.key), outcome=outcome, why=why)
        item.on_lost()

    def _lose_oldest(self) -> None:
        """One that rests was asked for before most that wait, and has failed already."""
        table = self._resting or self._waiting
        table.pop(next(iter(table))).on_lost()
        self._reports.limit_hit(self._bounds.limit)

    def _again(self, item: _Item) -> None:
        """Unless it was dropped or a newer write took its place meanwhile."""
        if self._resting.get(item.key) is item:
            self._enqueue(item)

    def _enqueue(self, item: _Item) -> None:
        self._waiting[item.key] = item
        self._resting.pop(item.key, None)
        self.idle.clear()
        self._wake.set()
        self._note_idle()

    def _note_idle(self) -> None:
        count = len(self._waiting) + len(self._under_way) + len(self._resting)
        self._reports.waiting(self._what, count)
        if count == 0:
            self.idle.set()
