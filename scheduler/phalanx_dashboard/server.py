"""The HTTP server of the pages: files, JSON, and a stream of events. It only reads."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from phalanx_dashboard.assets import Asset, asset, read_assets
from phalanx_dashboard.facts import Facts
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import HEADERS, Guard, guarding
from phalanx_dashboard.limits import GANGS_PER_PAGE
from phalanx_dashboard.pages.decisions import decisions
from phalanx_dashboard.pages.faults import faults
from phalanx_dashboard.pages.gang import gang_page
from phalanx_dashboard.pages.gangs import SORTS, GangQuery, gang_table
from phalanx_dashboard.pages.overview import overview
from phalanx_dashboard.pages.queues import queues_page
from phalanx_dashboard.pages.topology import node_page, topology_map

_KEEPALIVE_PERIOD_S: Final = 15.0
"""Seconds between two comments on a silent stream of events. Proxies end streams that are silent for a
minute."""

_STREAMS_MAX: Final = 200
"""Streams of events at the same time. Each holds a connection."""

_GANGS_PER_ANSWER_MAX: Final = 500
"""Gangs that a client of the JSON may ask for at once."""

_PAGES_KEPT: Final = 32
"""Pages of one reading that are kept as JSON. That of a topology of 10,000 nodes has half a MiB."""


class EncodedPages:
    """The pages of the last reading.

    A browser asks twice for the page that it opens: at once, and when its stream begins.
    """

    def __init__(self) -> None:
        self._number = -1
        self._made: OrderedDict[tuple[Facts, str], asyncio.Task[bytes | None]] = OrderedDict()

    async def get(
        self, number: int, facts: Facts, path: str, make: Callable[[], bytes | None]
    ) -> bytes | None:
        """The page of this path and query. `number`: that of the reading."""
        if number != self._number:
            self._made.clear()
            self._number = number
        key = (facts, path)
        task = self._made.get(key)
        if task is None:
            # In a thread: large pages take longer than the loop should wait.
            task = self._made[key] = asyncio.create_task(asyncio.to_thread(make))
            while len(self._made) > _PAGES_KEPT:
                self._made.popitem(last=False)
        return await asyncio.shield(task)  # others may wait for it too


PageOf = Callable[[Facts, web.Request], object]
"""Makes the data of a page; None if what was asked for does not exist."""


class Answer(Struct, frozen=True):
    """The envelope of the data of a page."""

    page: object
    notes: tuple[str, ...]
    """What is left out, and why."""


class Live(Struct, frozen=True):
    """One event of the stream."""

    number: int
    """Grows with every reading."""
    read: bool
    """Whether there has been a good one."""
    problem: str
    """Why the last one failed; empty if it did not."""


def dashboard_app(feed: Feed, guard: Guard, *, assets: Mapping[str, Asset] | None = None) -> web.Application:
    """All paths. `assets`: other files for the browser than those of the package, to compare versions."""
    app = web.Application(middlewares=[guarding(guard)])
    app.on_response_prepare.append(_add_headers)
    _add_files(app, guard, read_assets() if assets is None else assets)
    made = EncodedPages()
    for name, page in _pages(feed).items():
        app.router.add_get(f"/api/{name}", _json(feed, guard, page, made))
    app.router.add_get("/api/live", _live(feed, guard))
    app.router.add_get("/api/session", _session(guard))
    app.router.add_routes(guard.routes())
    app.router.add_get("/api/recording", _recording(feed, guard))
    return app


def _pages(feed: Feed) -> dict[str, PageOf]:
    recordings = feed.recordings
    return {
        "overview": lambda facts, _: overview(facts),
        "queues": lambda facts, request: queues_page(
            facts, feed.history.samples, resource=request.query.get("resource", "")
        ),
        "gangs": lambda facts, request: gang_table(facts, _gang_query(request)),
        "gang": lambda facts, request: gang_page(
            facts, **{name: _needed(request, name) for name in ("namespace", "kind", "name")}
        ),
        "topology": lambda facts, request: topology_map(
            facts, name=request.query.get("topology", ""), resource=request.query.get("resource", "")
        ),
        "node": lambda facts, request: node_page(facts, _needed(request, "name")),
        "decisions": lambda facts, _: decisions(
            facts, source=recordings.url, problem=recordings.problem, cycles=recordings.cycles
        ),
        "faults": lambda facts, _: faults(facts),
    }


def _json(
    feed: Feed, guard: Guard, page: PageOf, made: EncodedPages
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        facts = await _facts(feed, guard, request)

        def encoded() -> bytes | None:
            found = page(facts, request)
            return None if found is None else msgspec.json.encode(Answer(found, facts.seen.notes))

        body = await made.get(feed.number, facts, request.path_qs, encoded)
        if body is None:
            raise web.HTTPNotFound(text="there is no such object, or you may not see it\n")
        return _tagged(request, body, "application/json")

    return handler


def _live(feed: Feed, guard: Guard) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.StreamResponse:
        await guard.scope(request)
        if feed.lookers >= _STREAMS_MAX:
            raise web.HTTPServiceUnavailable(text="too many pages are open\n")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with feed.looking():
            await answer.prepare(request)
            # It ends when the browser goes, or when a right is taken away.
            with suppress(ConnectionError, web.HTTPException):
                number = feed.number
                while True:
                    event = Live(number, feed.has_facts, feed.problem)
                    await answer.write(b"data: " + msgspec.json.encode(event) + b"\n\n")
                    number = await _next(feed, number, answer)
                    await guard.scope(request)
        return answer

    return handler


async def _next(feed: Feed, number: int, answer: web.StreamResponse) -> int:
    """Wait for the next reading, and keep the stream alive meanwhile."""
    while True:
        try:
            return await asyncio.wait_for(feed.newer(number), _KEEPALIVE_PERIOD_S)
        except TimeoutError:
            await answer.write(b": still here\n\n")


def _session(guard: Guard) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Whether users sign in here: the page then has a form for it."""
    body = msgspec.json.encode({"signIn": bool(guard.routes())})

    async def handler(request: web.Request) -> web.Response:
        return _tagged(request, body, "application/json")

    return handler


def _recording(feed: Feed, guard: Guard) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        facts = await _facts(feed, guard, request)
        number = _number(request, "cycle", least=0, most=None, default=0)
        content = feed.recordings.file(number) if not facts.is_restricted else None
        if content is None:
            raise web.HTTPNotFound(text="this cycle is not kept\n")
        disposition = f'attachment; filename="cycle-{number}.json.gz"'
        return web.Response(
            body=content, content_type="application/gzip", headers={"Content-Disposition": disposition}
        )

    return handler


async def _facts(feed: Feed, guard: Guard, request: web.Request) -> Facts:
    facts = feed.facts(await guard.scope(request))
    if facts is None:
        raise web.HTTPServiceUnavailable(text=feed.problem or "the cluster is being read\n")
    return facts


def _gang_query(request: web.Request) -> GangQuery:
    query = request.query
    sort = query.get("sort", "")
    return GangQuery(
        states=frozenset(query.getall("state", ())),
        queue=query.get("queue", ""),
        text=query.get("text", ""),
        sort=sort if sort in SORTS else "",
        descending=query.get("order") == "descending",
        offset=_number(request, "offset", least=0, most=None, default=0),
        limit=_number(request, "limit", least=1, most=_GANGS_PER_ANSWER_MAX, default=GANGS_PER_PAGE),
    )


def _number(request: web.Request, name: str, *, least: int, most: int | None, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        raise web.HTTPBadRequest(text=f"{name}: expected a number\n")
    number = max(int(text), least)
    return number if most is None else min(number, most)


_DIGITS_MAX: Final = 12


def _needed(request: web.Request, name: str) -> str:
    value = request.query.get(name)
    if value is None:
        raise web.HTTPBadRequest(text=f"{name} is missing\n")
    return value


def _add_files(app: web.Application, guard: Guard, assets: Mapping[str, Asset]) -> None:
    start = assets["index.html"]

    async def index(request: web.Request) -> web.StreamResponse:
        entered = await guard.enter(request)
        return entered or _tagged(request, start.content, start.content_type)

    async def file(request: web.Request) -> web.Response:
        found = assets.get(request.match_info["path"])
        if found is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return _tagged(request, found.content, found.content_type)

    app.router.add_get("/", index)
    app.router.add_get("/assets/{path:.+}", file)


def _tagged(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """The answer, or that it is the one which the browser has."""
    tag = f'"{asset(body, content_type).etag}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    return web.Response(body=body, content_type=content_type, charset="utf-8", headers={"ETag": tag})


async def _add_headers(_: web.Request, answer: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
