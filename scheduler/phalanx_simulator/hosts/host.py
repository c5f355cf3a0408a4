"""The machines on which schedulers run: one can freeze, go on, or die between any two steps of a program."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from enum import Enum, auto
from typing import Any


class State(Enum):
    """What a host does with the steps of its program."""

    RUNNING = auto()
    FROZEN = auto()
    DEAD = auto()


class Host:
    """Every callback that was set up by its program is a step: run, kept for later, or never run.

    `steps` counts those that ran. `before_step` is told the number of each before it runs, and may freeze or
    kill the host there.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.steps = 0
        self.before_step: Callable[[int], None] | None = None
        self._kept: list[asyncio.Handle] = []

    def spawn(self, program: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a program on this host; all that it starts is part of it."""
        context = copy_context()
        context.run(HOST.set, self)
        return asyncio.get_running_loop().create_task(program, name=self.name, context=context)

    def freeze(self) -> None:
        """No step runs from now on, while the world's time goes on: a long pause, a stopped machine."""
        if self.state is State.RUNNING:
            self.state = State.FROZEN

    def thaw(self) -> None:
        """Go on with all that became ready in between, unless the host is dead."""
        if self.state is State.FROZEN:
            self._go_on()

    def die(self) -> None:
        """No step ever runs again, no clean-up either: kill -9, or power loss."""
        self.state = State.DEAD

    def bury(self) -> None:
        """After the simulation: let what is left of a dead program come to its end, so that it is freed."""
        self._go_on()

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether this step may run now; one that may not is kept."""
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
