"""A deterministic asyncio event loop in virtual time.

The loop never sleeps: when no callback is ready, time jumps to the next timer. Callbacks that are ready at
the same time run in a seeded random order, since on a real loop the order depends on sockets. It has no
sockets and no threads: what a program gives to a thread runs at once, and takes no virtual time.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from phalanx.clock import Random

from phalanx_simulator.hosts.host import HOST, Host

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Deadlock(RuntimeError):
    """The program waits and no timer will wake it."""


class _Task(asyncio.Task[Any]):
    """A task with a stable hash.

    asyncio keeps tasks in sets; these iterate in order of creation.
    """

    def __init__(self, *arguments: Any, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        return self._number


class _Timer(asyncio.TimerHandle):
    """A timer with a faster comparison.

    asyncio's own checks the other's type; in long runs this call dominates.
    """

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        return self._when < other._when  # type: ignore[attr-defined,no-any-return]


class VirtualLoop(asyncio.BaseEventLoop):
    """Run a coroutine with `run_until_complete`.

    Time begins at 0 s.
    """

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 0.0
        self._tasks_made = 0
        self._abandoned: list[AsyncGenerator[Any, Any]] = []
        self.set_task_factory(self._new_task)
        self._ready: deque[asyncio.Handle]
        self._scheduled: list[asyncio.TimerHandle]

    def time(self) -> float:
        """Simulated seconds since the loop was created."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback at this simulated second."""
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def timers_of(self, host: Host) -> int:
        """Number of pending timers that the host's program has set."""
        return sum(
            handle._context.get(HOST) is host  # type: ignore[attr-defined]
            for handle in self._scheduled
            if not handle.cancelled()
        )

    def outside(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function outside of any host: its timers survive the caller's host."""
        return Context().run(act, *arguments)

    async def close_abandoned(self) -> None:
        """At the end, close generators that were not exhausted."""
        while self._abandoned:
            await self._abandoned.pop().aclose()

    def _new_task(self, loop: asyncio.AbstractEventLoop, program: Any, **options: Any) -> _Task:
        self._tasks_made += 1
        return _Task(program, loop=loop, number=self._tasks_made, **options)

    def _asyncgen_finalizer_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Keep generators, since the time of garbage collection does not depend on the seed."""
        self._abandoned.append(generator)

    def _run_once(self) -> None:
        self._drop_cancelled_timers()
        if not self._ready and not self._stopping:  # type: ignore[attr-defined]
            self._jump()
        self._take_due_timers()
        batch = list(self._ready)
        self._ready.clear()
        if len(batch) > 1:
            self._random.shuffle(batch)
        for handle in batch:
            if handle.cancelled():
                continue
            host = handle._context.get(HOST)  # type: ignore[attr-defined]
            if host is None or host.admits(handle):
                handle._run()

    def _jump(self) -> None:
        if not self._scheduled:
            raise Deadlock("everything waits and no timer is set")
        self._now = max(self._now, self._scheduled[0].when())

    def _take_due_timers(self) -> None:
        while self._scheduled and self._scheduled[0].when() <= self._now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(handle)

    def _drop_cancelled_timers(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
        if self._timer_cancelled_count * 2 > len(self._scheduled) + 100:
            for handle in self._scheduled:
                if handle.cancelled():
                    handle._scheduled = False  # type: ignore[attr-defined]
            self._scheduled[:] = [handle for handle in self._scheduled if not handle.cancelled()]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0

    _timer_cancelled_count: int

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[_Arguments]], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        """Call it now: virtual time does not wait for threads."""
        future: asyncio.Future[_Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing to do: there is no I/O."""

    def _write_to_self(self) -> None:
        """Nothing to do: no other thread wakes this loop."""
