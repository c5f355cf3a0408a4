"""Decides in a process of its own, with a cache of its own that is fed with the same events.

The event loop then keeps its interpreter to itself, at the price of a second cache and of every event being
pickled once. Messages go over a pipe in order: events and questions one way, answers the other.
"""

import asyncio
import contextlib
import multiprocessing
import pickle
import signal
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from phalanx.cache.events import Event
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.limits import DECIDER_STOP_TIMEOUT_S
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot


class _Ask(Enum):
    """What the parent may ask, besides sending events."""

    DECIDE = "decide"
    LAST = "last"


class DeciderDied(Exception):
    """The deciding process has ended; the scheduler cannot go on without it."""


class ProcessDecider:
    """The parent's end. One question at a time; events in between are sent with the next question."""

    def __init__(self, *, config: SchedulerConfig) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, config), daemon=True)
        self._process.start()
        theirs.close()
        self._unsent: list[Event] = []
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """The other process's id."""
        return self._process.pid or 0

    def feed(self, events: tuple[Event, ...]) -> None:
        """Kept until the next question."""
        self._unsent.extend(events)

    async def decide(self, *, now_ms: int) -> CycleResult:
        """One cycle in the other process. Raises DeciderDied."""
        result: CycleResult = await self._ask(_Ask.DECIDE, now_ms)
        return result

    async def last(self) -> tuple[Snapshot, CycleResult] | None:
        """What the last cycle saw and decided, fetched from the other process. Raises DeciderDied."""
        seen: tuple[Snapshot, CycleResult] | None = await self._ask(_Ask.LAST, 0)
        return seen

    async def close(self) -> None:
        """Closing the pipe ends the other process."""
        self._pipe.close()
        await asyncio.to_thread(self._process.join, DECIDER_STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()

    async def _ask(self, ask: _Ask, now_ms: int) -> Any:
        async with self._turn:
            events, self._unsent = self._unsent, []
            try:
                return pickle.loads(await asyncio.to_thread(self._exchange, (events, ask, now_ms)))
            except (EOFError, OSError) as ended:
                raise DeciderDied("the deciding process has ended") from ended

    def _exchange(self, message: tuple[list[Event], _Ask, int]) -> bytes:
        self._pipe.send(message)
        return self._pipe.recv_bytes()


def _serve(pipe: Connection, config: SchedulerConfig) -> None:
    """The other process: applies events and answers questions until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        _answer(pipe, config)


def _answer(pipe: Connection, config: SchedulerConfig) -> NoReturn:
    cache, memory = new_cache(config), Memory()
    engine = Engine(config)
    last: tuple[Snapshot, CycleResult] | None = None
    while True:
        events, ask, now_ms = pipe.recv()
        cache.apply_all(events)
        if ask is _Ask.DECIDE:
            snapshot = cache.snapshot(now=now_ms, seed=config.seed, memory=memory)
            result = engine.decide(snapshot)
            memory, last = result.memory, (snapshot, result)
            pipe.send(result)
        else:
            pipe.send(last)
