"""One kind of the cluster, reflected into a sink: the initial list as one event, then every change in order.

A WatchList gives both in one stream; where the server does not serve it, a paged list comes first. The stream
is cut and opened again for many reasons; the resourceVersion last heard carries over, and only when the
server has forgotten it (410) everything is listed again. What the sink knows stays while the API cannot be
reached.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, NoReturn

import structlog

from phalanx.kube.backoff import Backoff
from phalanx.kube.client import Client
from phalanx.kube.decode import Bookmark, KindDecoder, ObjectEvent, Unreadable, WatchFailed
from phalanx.kube.errors import ApiError, BadRequest, Forbidden, Gone, Invalid, NotFound, error_of
from phalanx.kube.garbage_collection import gc_paused
from phalanx.kube.mend import Undecodable
from phalanx.limits import (
    OPTIONAL_KIND_RETRY_S,
    WATCH_BACKOFF_FIRST_S,
    WATCH_BACKOFF_LONGEST_S,
    WATCH_IDLE_TIMEOUT_S,
    WATCH_SECONDS_MIN,
)
from phalanx.model.api.kinds import Kind, KubeObject
from phalanx.model.events import Applied, Deleted, Relisted
from phalanx.observe.ports import WatchReports
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

_log = structlog.get_logger(__name__)

Sink = Callable[[Applied | Deleted | Relisted], None]

_NO_WATCH_LIST: Final = (BadRequest, Invalid)
_AGAIN: Final = (ApiError, OutcomeUnknown, RequestNotSent, Undecodable)
_FROM_THE_FUTURE: Final = "Too large resource version"
"""An API server says so whose storage was put back to an earlier state."""


class Reflector:
    """Lists and watches one kind for ever. `synced` is set once the sink has had a complete list.

    Of an optional kind that is not served that list is empty, and the kind is asked for again now and then.

    `sync_error` is a plain sentence until then, and again when the kind is not served any more.
    """

    def __init__(
        self,
        *,
        kind: Kind,
        client: Client,
        sink: Sink,
        reports: WatchReports,
        jitter: Callable[[], float],
        idle_timeout: float = WATCH_IDLE_TIMEOUT_S,
        watch_list: bool = True,
    ) -> None:
        """`jitter` gives numbers in [0, 1). `idle_timeout` is in seconds. `watch_list` False: pages only."""
        self.kind = kind
        self.synced = asyncio.Event()
        self.sync_error: str | None = f"{kind.plural} are not listed yet"
        self._client = client
        self._sink = sink
        self._reports = reports
        self._jitter = jitter
        self._idle_timeout = idle_timeout
        self._watch_list_served = watch_list
        self._initial_was_cut = False
        self._decode = KindDecoder(kind)
        self._backoff = Backoff(first=WATCH_BACKOFF_FIRST_S, longest=WATCH_BACKOFF_LONGEST_S, jitter=jitter)
        self._version = ""
        self._undecodable_after: str | None = None
        self._reported: dict[tuple[str, str], str] = {}

    @property
    def version(self) -> str:
        """The resourceVersion up to which the sink knows everything; empty before the first list."""
        return self._version

    async def run(self) -> NoReturn:
        """Reflect until cancelled. Only the sink's own errors come out."""
        while True:
            try:
                heard = await self._follow()
                problem: Exception | None = None if heard else OutcomeUnknown("the watch brought nothing")
            except _AGAIN as error:
                problem = error
            if problem is not None and not await self._does_without(problem):
                await self._pause(problem)

    async def _follow(self) -> bool:
        """One stream from its beginning to its end; True when it brought anything."""
        if self._version:
            return await self._watch()
        if self._initial_was_cut or not self._watch_list_served:
            await self._list()
            self._initial_was_cut = False
            return await self._watch()
        try:
            return await self._watch_list()
        except _NO_WATCH_LIST as error:
            _log.info("no WatchList, listing pages instead", kind=self.kind.name, why=str(error))
            self._watch_list_served = False
            return True

    async def _list(self) -> None:
        objects: list[KubeObject] = []
        unreadable: list[Unreadable] = []
        version = ""
        with gc_paused():
            async for body in self._client.pages(self.kind.path()):
                page = self._decode.page(body)
                objects.extend(page.objects)
                unreadable.extend(page.unreadable)
                version = page.version
        self._deliver(objects, unreadable, version)

    async def _watch_list(self) -> bool:
        extra = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        async with self._stream(extra) as lines:
            with gc_paused():
                await self._initial(lines)
            if self._version:
                await self._apply(lines)
        return True

    async def _watch(self) -> bool:
        async with self._stream({"resourceVersion": self._version}) as lines:
            return await self._apply(lines)

    async def _initial(self, lines: AsyncIterator[bytes]) -> None:
        """The initial events of a WatchList, up to the bookmark that ends them.

        An API server closes a watch that reads more slowly than the cluster changes, and would do so again;
        pages are always finished.
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
        self._initial_was_cut = True
        raise OutcomeUnknown("the initial list was cut")

    async def _apply(self, lines: AsyncIterator[bytes]) -> bool:
        heard = False
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
            heard = True
        return heard

    @asynccontextmanager
    async def _stream(self, extra: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Raises an ApiError when the watch is refused."""
        seconds = int(WATCH_SECONDS_MIN * (1 + self._jitter()))
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **extra}
        async with self._client.watch(self.kind.path(), query=query, idle_timeout=self._idle_timeout) as (
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
        self.sync_error = None
        self.synced.set()

    def _report(self, line: Unreadable) -> None:
        """Once per version of an object."""
        name = (line.namespace, line.name)
        if self._reported.get(name) == line.version:
            return
        self._reported[name] = line.version
        self._reports.object_unreadable(self.kind.name)
        _log.warning("object skipped", kind=self.kind.name, namespace=name[0], name=name[1], why=line.why)

    async def _does_without(self, problem: Exception) -> bool:
        """Whether the kind is optional and cannot be had; then some time has passed.

        Where it is not served nobody has such objects. Where rights are missing the sink keeps what it knows:
        an installation from before the kind was read goes on without it.
        """
        if not self.kind.optional or not isinstance(problem, NotFound | Forbidden):
            return False
        if isinstance(problem, NotFound):
            if self._version or not self.synced.is_set():
                _log.info("not served", kind=self.kind.name)
            self._deliver((), (), "")
        else:
            _log.warning("no right to list an optional kind", kind=self.kind.name, why=str(problem))
            self._reports.watch_failed(self.kind.name, why=type(problem).__name__)
            self._version, self.sync_error = "", None
            self.synced.set()
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S)
        return True

    async def _pause(self, problem: Exception) -> None:
        retry_after = problem.retry_after if isinstance(problem, ApiError) else None
        if self._must_list_anew(problem):
            self._version = ""
        if isinstance(problem, NotFound):
            self.sync_error = _not_served(self.kind)
        elif not self.synced.is_set():
            self.sync_error = f"{self.kind.plural} cannot be listed: {problem}"
        delay = self._backoff.next(at_least=retry_after)
        self._reports.watch_failed(self.kind.name, why=type(problem).__name__)
        _log.info("watch again", kind=self.kind.name, why=str(problem), delay_s=round(delay, 2))
        await asyncio.sleep(delay)

    def _must_list_anew(self, problem: Exception) -> bool:
        """Whether the same watch would fail again: a line that was no JSON twice is no cut connection."""
        if isinstance(problem, Undecodable):
            again, self._undecodable_after = self._undecodable_after == self._version, self._version
            return again
        return isinstance(problem, (Gone, NotFound, BadRequest)) or _FROM_THE_FUTURE in str(problem)


def _not_served(kind: Kind) -> str:
    advice = "; run `phalanx install --crds`" if kind.group.startswith("scheduling.phalanx") else ""
    return f"the API server does not serve {kind.plural} of {kind.api_version}{advice}"
