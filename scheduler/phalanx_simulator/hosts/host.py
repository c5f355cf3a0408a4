"""Simulated hosts and their clocks: a host can freeze, resume or die between any two steps of its program."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from enum import Enum, auto
from typing import Any, Final


class State(Enum):
    """Whether a host runs the steps of its program."""

    RUNNING = auto()
    FROZEN = auto()
    DEAD = auto()


class Host:
    """Runs, holds back or drops each callback of its program; a callback is a step.

    `steps` counts those that ran. `before_step` is called with the number of each step before it runs, and
    may freeze or kill the host there.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.steps = 0
        self.before_step: Callable[[int], None] | None = None
        self._kept: list[asyncio.Handle] = []

    def spawn(self, program: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a program on this host.

        All tasks that it starts belong to the host.
        """
        context = copy_context()
        context.run(HOST.set, self)
        return asyncio.get_running_loop().create_task(program, name=self.name, context=context)

    def freeze(self) -> None:
        """Run no step while time goes on, as a long pause or a stopped machine does."""
        if self.state is State.RUNNING:
            self.state = State.FROZEN

    def thaw(self) -> None:
        """Resume with all steps that became ready meanwhile, unless the host is dead."""
        if self.state is State.FROZEN:
            self._go_on()

    def die(self) -> None:
        """Run no further step and no clean-up: kill -9, or power loss."""
        self.state = State.DEAD

    def bury(self) -> None:
        """After the simulation, let the rest of a dead program end, so that it is freed."""
        self._go_on()

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether this step may run now; otherwise it is held back."""
        if self.state is State.RUNNING and self.before_step is not None:
            self.before_step(self.steps)
        if self.state is State.RUNNING:
            self.steps += 1
            return True
        self._kept.append(handle)
        return False

    def _go_on(self) -> None:
        self.state = State.RUNNING
        kept, self._kept = self._kept, []
        loop = asyncio.get_running_loop()
        for handle in kept:
            handle._context.run(loop.call_soon, _run, handle)  # type: ignore[attr-defined]


def _run(handle: asyncio.Handle) -> None:
    if not handle.cancelled():
        handle._run()


HOST: ContextVar[Host] = ContextVar("HOST")
"""The host whose program is running, if any."""


EPOCH_MS: Final = 1_767_225_600_000
"""Wall time at which every simulation begins: 2026-01-01T00:00:00Z."""


class WorldClock:
    """True time, taken from the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return EPOCH_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.time()


class HostClock:
    """A host's clocks.

    The wall clock can jump; both can run fast or slow.
    """

    def __init__(self, world: WorldClock) -> None:
        self._world = world
        self._rate = 1.0
        self._since = world.monotonic()
        self._elapsed = 0.0
        self._offset_ms = 0

    def now_ms(self) -> int:
        """The host's wall time in milliseconds since the epoch."""
        return EPOCH_MS + round(self.monotonic() * 1000) + self._offset_ms

    def monotonic(self) -> float:
        """The host's seconds since the simulation began."""
        return self._elapsed + self._rate * (self._world.monotonic() - self._since)

    def jump(self, by_ms: int) -> None:
        """Shift the wall clock."""
        self._offset_ms += by_ms

    def run_at(self, rate: float) -> None:
        """1.1 is ten per cent too fast. The clock does not jump."""
        elapsed = self.monotonic()
        self._rate, self._since, self._elapsed = rate, self._world.monotonic(), elapsed
