"""Work for a few workers: that of one tenant in its order, tenants in turn.

No tenant has all workers: one whose requests hang holds up nobody else. What must wait before another attempt
waits outside the queue.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Takes pieces of work with `put`, does them while `run` runs."""

    def __init__(self, do: Callable[[T], Awaitable[None]], *, workers: int, of_tenant: int) -> None:
        """`of_tenant`: how many of the workers are busy with one tenant at most."""
        self._do = do
        self._workers = workers
        self._of_tenant = of_tenant
        self._waiting: dict[str, deque[T]] = {}
        self._busy: Counter[str] = Counter()
        self._wake = asyncio.Event()

    def put(self, tenant: str, work: T) -> None:
        """Behind all that this tenant has waiting."""
        self._waiting.setdefault(tenant, deque()).append(work)
        self._wake.set()

    def put_later(self, tenant: str, work: T, *, delay: float) -> None:
        """The same in so many seconds."""
        asyncio.get_running_loop().call_later(delay, self.put, tenant, work)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._workers):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            tenant, work = await self._take()
            try:
                await self._do(work)
            finally:
                self._busy -= Counter((tenant,))
                self._wake.set()

    async def _take(self) -> tuple[str, T]:
        """Of the tenant who has waited longest for a turn; it then goes to the end."""
        while True:
            for tenant, waiting in self._waiting.items():
                if self._busy[tenant] < self._of_tenant:
                    work = waiting.popleft()
                    del self._waiting[tenant]
                    if waiting:
                        self._waiting[tenant] = waiting
                    self._busy[tenant] += 1
                    return tenant, work
            self._wake.clear()
            await self._wake.wait()
