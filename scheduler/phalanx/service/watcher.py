"""Keep the cluster state up to date: one reflector per kind, all restarted when leadership starts."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from phalanx.kube.reflector import Reflector, WatchContext
from phalanx.model.api.kinds import WATCHED_KINDS, kind_named
from phalanx.service.cluster_state import ClusterState

_SYNC_LOG_PERIOD_S: Final = 5.0
"""Seconds between two log lines about pending initial lists."""

_log = structlog.get_logger(__name__)


class ClusterWatcher:
    """Runs the reflectors as tasks of a task group, so that a failing one stops the scheduler."""

    def __init__(self, *, state: ClusterState, context: WatchContext, on_synced: Callable[[], None]) -> None:
        """`on_synced` is called when a new leader has listed the whole cluster."""
        self._state = state
        self._context = context
        self._on_synced = on_synced
        self._reflectors: list[Reflector] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._group: asyncio.TaskGroup | None = None
        state.on_workload_kinds = self._watch_more

    def sync_error(self) -> str | None:
        """Return a sentence about the first kind that is not listed; None when all are."""
        if not self._reflectors:
            return "the cluster is not watched yet"
        return next(filter(None, (reflector.sync_error for reflector in self._reflectors)), None)

    def version(self, kind: str) -> str:
        """Return the resourceVersion up to which objects of a kind are known; empty before the first list."""
        return next((reflector.version for reflector in self._reflectors if reflector.kind.name == kind), "")

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start to list and watch every kind that the cache reads, and the workloads that it needs."""
        self._group, self._reflectors, self._tasks = group, [], []
        cache = self._state.cache
        queues = [dialect.kind for dialect in cache.queue_dialects()]
        self._watch_more((*WATCHED_KINDS, *queues, *cache.workload_kinds()))

    def stop(self) -> None:
        """Stop all watches; the cache keeps its state."""
        for task in self._tasks:
            task.cancel()
        self._group = None

    def _watch_more(self, kinds: Iterable[str]) -> None:
        """Watch further kinds. While nothing is watched, the next start will."""
        if self._group is None:
            return
        known = self._state.cache.known_workloads
        watched = {reflector.kind.name for reflector in self._reflectors}
        for name in [name for name in kinds if name not in watched]:
            reflector = Reflector(kind_named(name, known), self._state.apply, self._context)
            self._reflectors.append(reflector)
            self._tasks.append(
                self._group.create_task(reflector.run(), name=f"reflect {reflector.kind.resource}")
            )

    async def restart_and_sync(self, group: asyncio.TaskGroup) -> None:
        """List all kinds again and wait for them: a bind of the last leader may not have been seen.

        Pods may add kinds of workloads meanwhile, whose objects may add more.
        """
        self.stop()
        self.start(group)
        for reflector in self._reflectors:
            await self._synced(reflector)
        self._on_synced()

    async def _synced(self, reflector: Reflector) -> None:
        while not reflector.synced.is_set():
            try:
                async with asyncio.timeout(_SYNC_LOG_PERIOD_S):
                    await reflector.synced.wait()
            except TimeoutError:
                _log.warning("waiting for the initial lists", error=reflector.sync_error)
