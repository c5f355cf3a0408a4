"""Flow control of requests: token bucket, exponential backoff, work queue with fairness between tenants."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from phalanx.clock import Clock

T = TypeVar("T")


class RateLimiter:
    """Token bucket: `per_second` requests on average, at most `burst` at once, first come, first served."""

    def __init__(self, *, per_second: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / per_second
        self._burst_seconds = burst * self._interval
        self._clock = clock
        self._next = clock.monotonic() - self._burst_seconds

    async def acquire(self) -> None:
        """Wait until the next request may be sent."""
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._burst_seconds) + self._interval
        if self._next > now:
            await asyncio.sleep(self._next - now)

    def pause(self, seconds: float) -> None:
        """Delay all requests for so many seconds; afterwards the bucket is empty."""
        self._next = max(self._next, self._clock.monotonic() + seconds)


class Backoff:
    """Exponential backoff with jitter, in seconds: the delay doubles with each attempt up to `longest`."""

    def __init__(self, *, first: float, longest: float, jitter: Callable[[], float]) -> None:
        """`jitter` returns random numbers in [0, 1)."""
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._delay = first

    def next(self, *, at_least: float | None = None) -> float:
        """Return between half of the delay and all of it, but `at_least` what the server asked for."""
        delay = self._delay * (0.5 + 0.5 * self._jitter())
        self._delay = min(self._delay * 2, self._longest)
        return max(delay, at_least or 0.0)

    def reset(self) -> None:
        """Start with the first delay again, after a success."""
        self._delay = self._first


class FairQueue(Generic[T]):
    """A work queue with workers: FIFO for each tenant, round-robin between tenants.

    No tenant occupies all workers, so that a tenant whose requests hang does not block the others. Work that
    waits for another attempt waits outside the queue.
    """

    def __init__(
        self, process: Callable[[T], Awaitable[None]], *, workers: int, workers_per_tenant: int
    ) -> None:
        self._process = process
        self._workers = workers
        self._workers_per_tenant = workers_per_tenant
        self._pending: dict[str, deque[T]] = {}
        self._busy: Counter[str] = Counter()
        self._wake = asyncio.Event()

    def put(self, tenant: str, work: T) -> None:
        """Append work to the queue of a tenant."""
        self._pending.setdefault(tenant, deque()).append(work)
        self._wake.set()

    def put_later(self, tenant: str, work: T, *, delay: float) -> None:
        """Append work after so many seconds."""
        asyncio.get_running_loop().call_later(delay, self.put, tenant, work)

    async def run(self) -> None:
        """Process work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._workers):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            tenant, work = await self._take()
            try:
                await self._process(work)
            finally:
                self._busy -= Counter((tenant,))
                self._wake.set()

    async def _take(self) -> tuple[str, T]:
        """Take from the tenant that has waited longest for a turn, and move it to the end."""
        while True:
            for tenant, pending in self._pending.items():
                if self._busy[tenant] < self._workers_per_tenant:
                    work = pending.popleft()
                    del self._pending[tenant]
                    if pending:
                        self._pending[tenant] = pending
                    self._busy[tenant] += 1
                    return tenant, work
            self._wake.clear()
            await self._wake.wait()
