"""Decides in a worker thread: the event loop goes on, sharing the interpreter's lock with the cycle."""

import asyncio
import sys
from typing import Final

from phalanx.cache.cache import Cache
from phalanx.cycle import decide
from phalanx.deciders.inline import InlineDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

SWITCH_INTERVAL_S: Final = 0.0005
"""Seconds until the cycle's thread gives way to the event loop; Python's default of 0.005 starves it."""


class ThreadDecider(InlineDecider):
    """The snapshot is taken in the event loop, so that the cache needs no lock."""

    def __init__(self, *, cache: Cache, config: SchedulerConfig) -> None:
        super().__init__(cache=cache, config=config)
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    async def _run(self, snapshot: Snapshot) -> CycleResult:
        return await asyncio.to_thread(decide, snapshot, self._config)
