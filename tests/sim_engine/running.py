"""Runs a coroutine in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from phalanx.clock import Random
from phalanx_simulator.hosts.event_loop import VirtualLoop

T = TypeVar("T")


def in_virtual_time(program: Callable[[VirtualLoop], Coroutine[Any, Any, T]], *, seed: int = 1) -> T:
    loop = VirtualLoop(Random(seed))
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(program(loop))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
