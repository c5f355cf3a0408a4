"""Decides in a worker thread: the event loop goes on, sharing the interpreter's lock with the cycle."""

import asyncio
from typing import Final

from phalanx.deciders.inline import InlineDecider
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

SWITCH_INTERVAL_S: Final = 0.0005
"""Switch interval for a process that uses this decider: Python's default of 0.005 s starves the event loop.

The process sets it (`sys.setswitchinterval`), since it holds for all threads."""


class ThreadDecider(InlineDecider):
    """Takes the snapshot in the event loop, so that the cache needs no lock, and decides in a thread."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return await asyncio.to_thread(self._engine.decide, snapshot)
