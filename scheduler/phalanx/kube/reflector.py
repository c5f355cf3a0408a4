"""Reflect one kind of objects into a sink: the initial list as one event, then every change in order.

A WatchList delivers both in one stream; where the server does not support it, a paged list comes first. A
stream that ends is opened again from the last resourceVersion. If the server does not know that
version any more (410), all objects are listed again. While the API is unreachable, the sink keeps its state.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, NoReturn

import structlog
from msgspec import Struct, field

from phalanx.kube.client import Client
from phalanx.kube.decode import Bookmark, KindDecoder, ObjectEvent, Undecodable, Unreadable, WatchFailed
from phalanx.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    error_of,
    retry_after,
)
from phalanx.kube.flow_control import Backoff
from phalanx.kube.garbage_collection import GarbageCollection
from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Deleted, NotListed, Relisted
from phalanx.observe.ports import WatchReports
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

WATCH_SECONDS_MIN: Final = 300
"""Minimum seconds of a watch; it requests up to twice as much, as client-go does."""

OPTIONAL_KIND_RETRY_S: Final = 60.0
"""Seconds between two requests for an optional kind that is not served. CRDs are rarely installed."""

_WATCH_IDLE_TIMEOUT_S: Final = 90.0
"""Seconds without data after which a watch counts as dead. The API server sends a bookmark each minute."""

_WATCH_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before the first retry of a failed list or watch."""

_WATCH_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds at most between two retries. A kind whose CRD was just installed is found that soon."""

_FAILURES_LOGGED: Final = 3
"""Failures in a row from which on they are logged. Quiet watches end now and then, and so do busy ones."""

_log = structlog.get_logger(__name__)

Sink = Callable[[Applied | Deleted | Relisted | NotListed], None]

_NO_WATCH_LIST: Final = (BadRequest, Invalid)
_RETRIED: Final = (ApiError, OutcomeUnknown, RequestNotSent, Undecodable)
_VERSION_FROM_THE_FUTURE: Final = "Too large resource version"
"""The message of an API server whose storage was restored to an earlier state."""


class WatchContext(Struct, frozen=True):
    """What all reflectors of a process share."""

    client: Client
    reports: WatchReports
    jitter: Callable[[], float]
    """Random numbers in [0, 1)."""
    garbage_collection: GarbageCollection = field(default_factory=GarbageCollection)
    idle_timeout: float = _WATCH_IDLE_TIMEOUT_S
    """Seconds without an event or a bookmark after which a watch counts as dead."""
    use_watch_list: bool = True
    """Whether to try a WatchList; otherwise every list is paged."""


class Reflector:
    """Lists and watches one kind for ever.

    For an optional kind that is not served the list is empty, and the kind is requested again periodically.
    """

    def __init__(self, kind: Kind, sink: Sink, context: WatchContext) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once the sink has received a complete list."""
        self.sync_error: str | None = f"{kind.plural} are not listed yet"
        """A sentence while there is no complete list, and again when the kind is no longer served."""
        self._context = context
        self._client = context.client
        self._sink = sink
        self._reports = context.reports
        self._use_watch_list = context.use_watch_list
        self._initial_list_was_cut = False
        self._decode = KindDecoder(kind)
        self._failures = 0
        """In a row."""
        self._backoff = Backoff(
            first=_WATCH_BACKOFF_FIRST_S, longest=_WATCH_BACKOFF_LONGEST_S, jitter=context.jitter
        )
        self._version = ""
        self._undecodable_after: str | None = None
        self._reported: dict[tuple[str, str], str] = {}

    @property
    def version(self) -> str:
        """The resourceVersion up to which the sink is complete; empty before the first list."""
        return self._version

    async def run(self) -> NoReturn:
        """Reflect until cancelled. Raises only errors of the sink."""
        while True:
            try:
                received = await self._follow()
                error: Exception | None = None if received else OutcomeUnknown("the watch delivered no event")
            except _RETRIED as failure:
                error = failure
            if error is not None and not await self._does_without(error):
                await self._pause(error)

    async def _follow(self) -> bool:
        """Read one stream to its end; True if it delivered any event."""
        if self._version:
            return await self._watch()
        if self._initial_list_was_cut or not self._use_watch_list:
            await self._list()
            self._initial_list_was_cut = False
            return await self._watch()
        try:
            return await self._watch_list()
        except _NO_WATCH_LIST as error:
            _log.info("WatchList not supported, listing in pages", kind=self.kind.name, error=str(error))
            self._use_watch_list = False
            return True

    async def _list(self) -> None:
        objects: list[KubeObject] = []
        unreadable: list[Unreadable] = []
        version = ""
        with self._context.garbage_collection.paused():
            async for body in self._client.pages(self.kind.path()):
                page = self._decode.page(body)
                objects.extend(page.objects)
                unreadable.extend(page.unreadable)
                version = page.version
        self._deliver(objects, unreadable, version)

    async def _watch_list(self) -> bool:
        extra = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        async with self._stream(extra) as lines:
            with self._context.garbage_collection.paused():
                await self._read_initial_list(lines)
            if self._version:
                await self._apply(lines)
        return True

    async def _watch(self) -> bool:
        async with self._stream({"resourceVersion": self._version}) as lines:
            return await self._apply(lines)

    async def _read_initial_list(self, lines: AsyncIterator[bytes]) -> None:
        """Read the initial events of a WatchList, up to the bookmark that ends them.

        An API server closes a watch that is read more slowly than the cluster changes, and would do so again
        with another WatchList; a paged list always completes.
        """
        objects: dict[tuple[str, str], KubeObject] = {}
        unreadable: dict[tuple[str, str], Unreadable] = {}
        async for raw in lines:
            line = self._decode.line(raw)
            match line:
                case ObjectEvent(event=Applied(object=present)):
                    objects[line.namespace, line.name] = present
                case ObjectEvent():
                    objects.pop((line.namespace, line.name), None)
                case Unreadable():
                    unreadable[line.namespace, line.name] = line
                case WatchFailed(error=error):
                    raise error
                case Bookmark(ends_initial=True):
                    self._deliver(objects.values(), unreadable.values(), line.version)
                    return
                case Bookmark():
                    raise BadRequest(code=400, reason="", message="bookmark before the initial list's end")
        self._initial_list_was_cut = True
        raise OutcomeUnknown("the initial list is incomplete")

    async def _apply(self, lines: AsyncIterator[bytes]) -> bool:
        received = False
        async for raw in lines:
            line = self._decode.line(raw)
            if isinstance(line, WatchFailed):
                raise line.error
            if isinstance(line, ObjectEvent):
                self._sink(line.event)
                self._reported.pop((line.namespace, line.name), None)
            elif isinstance(line, Unreadable):
                self._report(line)
            self._version = line.version or self._version
            self._reports.watch_event_received(self.kind.name)
            self._backoff.reset()
            self._failures = 0
            received = True
        return received

    @asynccontextmanager
    async def _stream(self, extra: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch. Raises an ApiError when it is refused."""
        seconds = int(WATCH_SECONDS_MIN * (1 + self._context.jitter()))
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **extra}
        idle_timeout = self._context.idle_timeout
        async with self._client.watch(self.kind.path(), query=query, idle_timeout=idle_timeout) as (
            status,
            lines,
        ):
            if status >= 300:
                raise error_of(Response(status=status, body=b"\n".join([line async for line in lines])))
            yield lines

    def _deliver(self, objects: Iterable[KubeObject], unreadable: Iterable[Unreadable], version: str) -> None:
        names: dict[tuple[str, str], None] = {}
        for line in unreadable:
            self._report(line)
            names[line.namespace, line.name] = None
        self._reported = {name: self._reported[name] for name in names}
        event = Relisted(self.kind.name, tuple(objects), tuple(names))
        self._sink(event)
        self._version = version
        self._reports.relisted(self.kind.name, objects=len(event.objects))
        self._reports.watch_event_received(self.kind.name)
        self._backoff.reset()
        self._failures = 0
        self.sync_error = None
        self.synced.set()

    def _report(self, line: Unreadable) -> None:
        """Report an object that cannot be decoded, once per version."""
        namespace, name = line.namespace, line.name
        if self._reported.get((namespace, name)) == line.version:
            return
        self._reported[namespace, name] = line.version
        self._reports.object_unreadable(self.kind.name)
        _log.warning("object skipped", kind=self.kind.name, namespace=namespace, name=name, error=line.error)

    async def _does_without(self, error: Exception) -> bool:
        """Whether the kind is optional and not available; returns after some time then.

        If the kind is not served, no such objects exist. If permissions are missing, the sink keeps its
        state, so that the scheduler works with roles of versions that did not read this kind.
        """
        if not self.kind.optional or not isinstance(error, NotFound | Forbidden):
            return False
        if isinstance(error, NotFound):
            if self._version or not self.synced.is_set():
                _log.info("optional kind not served", kind=self.kind.name)
            self._deliver((), (), "")
        else:
            _log.warning("no permission to list an optional kind", kind=self.kind.name, error=str(error))
            self._reports.watch_failed(self.kind.name, error=type(error).__name__)
            self._sink(NotListed(self.kind.name, str(error)))
            self._version, self.sync_error = "", None
            self.synced.set()
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S)
        return True

    async def _pause(self, error: Exception) -> None:
        if self._needs_new_list(error):
            self._version = ""
        if isinstance(error, NotFound):
            self.sync_error = _not_served(self.kind)
        elif not self.synced.is_set():
            self.sync_error = f"{self.kind.plural} cannot be listed: {error}"
        delay = self._backoff.next(at_least=retry_after(error))
        self._reports.watch_failed(self.kind.name, error=type(error).__name__)
        self._failures += 1
        log = _log.warning if self._failures >= _FAILURES_LOGGED else _log.debug
        log("watch failed, retrying", kind=self.kind.name, error=str(error), delay_s=round(delay, 2))
        await asyncio.sleep(delay)

    def _needs_new_list(self, error: Exception) -> bool:
        """Whether the same watch would fail again; a malformed line counts when it is malformed twice."""
        if isinstance(error, Undecodable):
            again, self._undecodable_after = self._undecodable_after == self._version, self._version
            return again
        return isinstance(error, (Gone, NotFound, BadRequest)) or _VERSION_FROM_THE_FUTURE in str(error)


def _not_served(kind: Kind) -> str:
    advice = "; run `phalanx install --crds`" if kind.group.startswith("scheduling.phalanx") else ""
    return f"the API server does not serve {kind.plural} of {kind.api_version}{advice}"
