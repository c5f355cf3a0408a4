"""Keeps the view up to date: one reflector for each kind, all of them anew when leadership begins."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from phalanx.kube.client import Client
from phalanx.kube.reflector import Reflector
from phalanx.limits import SYNC_LOG_PERIOD_S
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.observe.ports import WatchReports
from phalanx.service.cluster_state import ClusterState

_log = structlog.get_logger(__name__)


class ClusterWatcher:
    """Reflectors as tasks of a group, so that one that fails ends the scheduler."""

    def __init__(
        self,
        *,
        view: ClusterState,
        client: Client,
        reports: WatchReports,
        jitter: Callable[[], float],
        on_synced: Callable[[], None],
    ) -> None:
        self._view = view
        self._client = client
        self._reports = reports
        self._jitter = jitter
        self._on_listed = on_synced
        self._reflectors: list[Reflector] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def sync_error(self) -> str | None:
        """The first kind that was not listed yet, as a plain sentence; None when all were."""
        if not self._reflectors:
            return "the cluster is not followed yet"
        return next(filter(None, (reflector.sync_error for reflector in self._reflectors)), None)

    def version(self, kind: str) -> str:
        """The resourceVersion up to which the view knows the objects of a kind; empty while it knows none."""
        return next((each.version for each in self._reflectors if each.kind.name == kind), "")

    def start(self, group: asyncio.TaskGroup) -> None:
        """Follow every kind that the cache takes."""
        self._reflectors = [self._reflector(name) for name in WATCHED_KINDS]
        self._tasks = [
            group.create_task(reflector.run(), name=f"reflect {reflector.kind.plural}")
            for reflector in self._reflectors
        ]

    def stop(self) -> None:
        """Follow nothing any more; what the cache knows stays."""
        for task in self._tasks:
            task.cancel()

    async def restart_and_sync(self, group: asyncio.TaskGroup) -> None:
        """List everything again and wait for it: a bind of the last leader may have landed unseen."""
        self.stop()
        self.start(group)
        for reflector in self._reflectors:
            await self._synced(reflector)
        self._on_listed()

    async def _synced(self, reflector: Reflector) -> None:
        while not reflector.synced.is_set():
            try:
                async with asyncio.timeout(SYNC_LOG_PERIOD_S):
                    await reflector.synced.wait()
            except TimeoutError:
                _log.warning("still waiting", why=reflector.sync_error)

    def _reflector(self, name: str) -> Reflector:
        return Reflector(
            kind=KINDS[name],
            client=self._client,
            sink=self._view.take,
            reports=self._reports,
            jitter=self._jitter,
        )
