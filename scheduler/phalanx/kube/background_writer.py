"""Deferrable writes (events, status): at most one per object in flight, only the newest kept, binds first.

A write that fails permanently is counted and dropped. Its caller is notified and may put it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

import structlog
from msgspec import Struct

from phalanx.kube.errors import TRANSIENT, ApiError, Conflict, TooManyRequests, retry_after
from phalanx.kube.flow_control import Backoff, RateLimiter
from phalanx.kube.writing import WriteContext
from phalanx.limits import THROTTLED_WAIT_S

BACKGROUND_ATTEMPTS_MAX: Final = 5
"""Attempts of one write. Its caller compares with the cluster and requests it again."""

BACKGROUND_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before the second attempt of a write."""

BACKGROUND_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds at most between two attempts of a write."""

_BACKGROUND_WRITES_PER_SECOND: Final = 300.0
"""Events per second, and status writes per second. 10,000 verdicts take half a minute and do not overload the
server."""

_BACKGROUND_BURST: Final = 50
"""Such writes that may be sent at once after a pause. Effects of manual changes appear immediately."""

_BACKGROUND_YIELD_MAX_S: Final = 2.0
"""Seconds that such a write waits for a pause between binds. Then it is sent in any case."""

_log = structlog.get_logger(__name__)

Write = Callable[[], Awaitable[None]]
"""Sends one request and may be called again. Raises ApiError, OutcomeUnknown or RequestNotSent."""


class WriteQueue(Struct, frozen=True):
    """The bounds of one background writer."""

    type: str
    """What is written, for metrics and logs: event or status."""
    concurrency: int
    """Requests in flight at once."""
    pending_max: int
    """Writes that wait, including those that wait for another attempt."""
    limit_name: str
    """The constant in limits.py that sets `pending_max`."""
    per_second: float = _BACKGROUND_WRITES_PER_SECOND
    burst: int = _BACKGROUND_BURST


class _Item:
    def __init__(self, key: Hashable, write: Write, on_lost: Callable[[], None], backoff: Backoff) -> None:
        self.key = key
        self.write = write
        self.on_lost = on_lost
        self.backoff = backoff
        self.attempts = 0
        self.sent = False
        """Whether a request is or may be in flight; before that the write can still be dropped."""
        self.dropped = False


class BackgroundWriter:
    """Accepts writes with `put`, works while `run` runs."""

    def __init__(self, context: WriteContext, queue: WriteQueue, *, none_due: asyncio.Event) -> None:
        """`none_due` is set while no bind can be sent."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._context = context
        self._queue = queue
        self._reports = context.reports
        self._rate_limiter = RateLimiter(per_second=queue.per_second, burst=queue.burst, clock=context.clock)
        self._none_due = none_due
        self._pending: dict[Hashable, _Item] = {}
        self._in_flight: dict[Hashable, _Item] = {}
        self._backing_off: dict[Hashable, _Item] = {}
        self._wake = asyncio.Event()

    def put(self, key: Hashable, write: Write, *, on_lost: Callable[[], None] = lambda: None) -> None:
        """Queue a write about `key`; it replaces one that is still pending.

        `on_lost` is called when the write is abandoned, but not when it is replaced or dropped by `drop`.
        """
        backoff = self._context.backoff(
            first=BACKGROUND_BACKOFF_FIRST_S, longest=BACKGROUND_BACKOFF_LONGEST_S
        )
        self._enqueue(_Item(key, write, on_lost, backoff))
        if len(self._pending) + len(self._backing_off) > self._queue.pending_max:
            self._drop_oldest()

    def drop(self, key: Hashable) -> bool:
        """Drop a pending write; False when a request about `key` is in flight.

        A write that has its turn but still yields to binds is dropped too: a bind may wait for this.
        """
        self._pending.pop(key, None)
        self._backing_off.pop(key, None)
        taken = self._in_flight.get(key)
        if taken is not None and not taken.sent:
            taken.dropped = True
        self._update_idle()
        return taken is None or taken.dropped

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._queue.concurrency):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            item = await self._take()
            try:
                await self._process(item)
            finally:
                self._in_flight.pop(item.key, None)
                self._update_idle()
                self._wake.set()

    async def _take(self) -> _Item:
        """Take the oldest pending write about an object that is not being written."""
        while True:
            for key, item in self._pending.items():
                if key not in self._in_flight:
                    del self._pending[key]
                    self._in_flight[key] = item
                    return item
            self._wake.clear()
            await self._wake.wait()

    async def _process(self, item: _Item) -> None:
        item.sent = False
        await self._yield_to_binds()
        await self._rate_limiter.acquire()
        if item.dropped:
            return
        item.sent = True
        if not self._context.fence.may_write():
            self._abandon(item, "fenced", "leadership has ended")
            return
        try:
            await item.write()
        except TRANSIENT as error:
            self._retry(item, error)
        except ApiError as error:
            self._abandon(item, "refused", str(error), is_repeated=isinstance(error, Conflict))
        else:
            self._reports.write_finished(self._queue.type, "written")

    async def _yield_to_binds(self) -> None:
        """Wait until no bind is pending, but not for ever: users read events and status meanwhile."""
        if self._none_due.is_set():
            return
        try:
            async with asyncio.timeout(_BACKGROUND_YIELD_MAX_S):
                await self._none_due.wait()
        except TimeoutError:
            return

    def _retry(self, item: _Item, error: Exception) -> None:
        item.attempts += 1
        if item.attempts >= BACKGROUND_ATTEMPTS_MAX:
            self._abandon(item, "gave-up", str(error))
            return
        wait = retry_after(error)
        if isinstance(error, TooManyRequests):
            wait = wait or THROTTLED_WAIT_S
        if item.key not in self._pending:
            self._backing_off[item.key] = item
            asyncio.get_running_loop().call_later(item.backoff.next(at_least=wait), self._put_again, item)

    def _abandon(self, item: _Item, outcome: str, error: str, *, is_repeated: bool = False) -> None:
        """`is_repeated`: what is written now follows from the object that changed meanwhile."""
        self._reports.write_finished(self._queue.type, outcome)
        log = _log.debug if is_repeated else _log.info
        log("write abandoned", type=self._queue.type, key=str(item.key), outcome=outcome, error=error)
        item.on_lost()

    def _drop_oldest(self) -> None:
        """Drop one that waits for another attempt first: it is older than most others and has failed once."""
        table = self._backing_off or self._pending
        table.pop(next(iter(table))).on_lost()
        self._reports.limit_hit(self._queue.limit_name)

    def _put_again(self, item: _Item) -> None:
        """Queue a failed write again, unless it was dropped or replaced by a newer one meanwhile."""
        if self._backing_off.get(item.key) is item:
            self._enqueue(item)

    def _enqueue(self, item: _Item) -> None:
        self._pending[item.key] = item
        self._backing_off.pop(item.key, None)
        self.idle.clear()
        self._wake.set()
        self._update_idle()

    def _update_idle(self) -> None:
        count = len(self._pending) + len(self._in_flight) + len(self._backing_off)
        self._reports.writes_pending(self._queue.type, count)
        if count == 0:
            self.idle.set()
