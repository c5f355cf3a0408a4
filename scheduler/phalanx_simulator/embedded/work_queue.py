"""Work queue of a controller: keys in order of arrival, each once."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Key

SIM_WORK_PER_TURN: Final = 256
"""Objects that one embedded controller handles before the event loop turns again: about 20 ms."""


class WorkQueue:
    """A queue of object keys.

    The handler reads the current state, so one call covers many changes.
    """

    def __init__(self, handle: Callable[[Key], None]) -> None:
        self._handle = handle
        self._keys: dict[Key, None] = {}
        self._turn: asyncio.Handle | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._numbers = itertools.count()
        self._closed = False
        self._unsubscribe: list[Callable[[], None]] = []

    def follow(self, client: Client, *resources: str) -> None:
        """Add every object of these kinds, now and at each change."""
        for resource in resources:
            self._unsubscribe.append(client.subscribe(resource, lambda change: self.add(change.entry.key)))
        for resource in resources:
            for key in client.keys(resource):
                self.add(key)

    def add(self, key: Key) -> None:
        """Handle the object soon."""
        if self._closed:
            return
        self._keys[key] = None
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._work)

    def call_later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Call `act` after a delay, unless the queue is closed by then."""
        number = next(self._numbers)

        def fire() -> None:
            del self._timers[number]
            act()

        self._timers[number] = asyncio.get_running_loop().call_later(delay_s, fire)

    def close(self) -> None:
        """Stop handling."""
        self._closed = True
        self._keys.clear()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        for handle in (self._turn, *self._timers.values()):
            if handle is not None:
                handle.cancel()

    def _work(self) -> None:
        self._turn = None
        batch = list(itertools.islice(self._keys, SIM_WORK_PER_TURN))
        for key in batch:
            del self._keys[key]
        for key in batch:
            # A refused write (in a terminating namespace, for instance) is retried at the next change.
            with suppress(ApiError):
                self._handle(key)
        if self._keys and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._work)
