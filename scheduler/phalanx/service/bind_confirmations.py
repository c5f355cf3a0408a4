"""Measures how far the cache is behind the API server: the time until the watch shows a bind."""

from collections.abc import Collection

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Event
from phalanx.clock import Clock
from phalanx.model.api.core import Pod
from phalanx.model.names import GangId, PodUid
from phalanx.observe.ports import StartReports


class BindConfirmations:
    """Remembers the pods that are bound and that the watch does not show with a node yet."""

    def __init__(self, cache: Cache, clock: Clock, reports: StartReports) -> None:
        self._cache = cache
        self._clock = clock
        self._reports = reports
        self._unseen: dict[PodUid, float] = {}

    def bound(self, uid: PodUid) -> None:
        """The API server has confirmed a bind. The watch may have been faster."""
        pod = self._cache.pod(uid)
        if pod is not None and pod.assumed:
            self._unseen[uid] = self._clock.monotonic()
        elif pod is not None:
            self._reports.bind_confirmed(seconds=0.0)

    def seen(self, event: Event, _gangs: Collection[GangId] = ()) -> None:
        """An event about pods was applied to the cache."""
        if not self._unseen:
            return
        if not isinstance(event, Applied):
            for uid in tuple(self._unseen):
                self._check(uid)
        elif isinstance(event.object, Pod):
            uid = PodUid(event.object.metadata.uid)
            if uid in self._unseen:
                self._check(uid)

    def _check(self, uid: PodUid) -> None:
        """A pod that is gone cannot be confirmed."""
        pod = self._cache.pod(uid)
        if pod is not None and pod.assumed:
            return
        since = self._unseen.pop(uid)
        if pod is not None:
            self._reports.bind_confirmed(seconds=self._clock.monotonic() - since)
