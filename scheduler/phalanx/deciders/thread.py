"""Runs cycles in a worker thread, which shares the interpreter's lock with the event loop."""

import asyncio
from typing import Final

from phalanx.deciders.inline import InlineDecider
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.snapshot import Snapshot

SWITCH_INTERVAL_S: Final = 0.0005
"""Switch interval for a process that uses this decider: with Python's default of 0.005 s the
event loop gets too little time.

The process sets it (`sys.setswitchinterval`), because it applies to all threads."""


class ThreadDecider(InlineDecider):
    """Takes the snapshot in the event loop, so that the cache needs no lock, and runs the cycle in a
    thread."""

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return await asyncio.to_thread(self._engine.decide, snapshot)

    async def _search(self) -> Advised | None:
        return await asyncio.to_thread(self._engine.advise)
