"""The pages of a small cluster on the embedded API server."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest_asyncio
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.clock import SystemClock
from phalanx.web.server import serving
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import SecretLink
from phalanx_dashboard.reading import ClusterReader
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app

from tests.cli.verbs.conftest import World, tenants, world

__all__ = ["tenants", "world"]

SECRET = "the-secret-of-this-test"


class Site:
    """The pages as somebody sees them who opened the link."""

    def __init__(self, world: World, feed: Feed, port: int, browser: aiohttp.ClientSession) -> None:
        self.world = world
        self.feed = feed
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.browser = browser

    async def page(self, page: str, /, **query: Any) -> Any:
        """The data of a page."""
        answer = await self.answer(page, **query)
        assert answer["notes"] == []
        return answer["page"]

    async def answer(self, page: str, /, **query: Any) -> Any:
        async with self.browser.get(f"{self.url}/api/{page}", params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def status(self, path: str, **options: Any) -> tuple[int, str]:
        async with self.browser.get(self.url + path, **options) as answer:
            return answer.status, await answer.text()

    async def live(self) -> AsyncIterator[Any]:
        """The events of the stream."""
        async with self.browser.get(f"{self.url}/api/live") as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))


@pytest_asyncio.fixture
async def unread(tenants: World) -> AsyncIterator[Site]:
    """The pages before the first reading."""
    clock = SystemClock()
    reader = ClusterReader(ClusterOptions(kubeconfig=tenants.kubeconfig), clock=clock)
    feed = Feed(reader, Recordings(""), clock=clock, period=0.01)
    guard = SecretLink(SECRET)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(dashboard_app(feed, guard), host="127.0.0.1", port=0))
        guard.port = port
        jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses
        browser = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        site = Site(tenants, feed, port, browser)
        assert (await site.status(f"/?secret={SECRET}"))[0] == 200
        yield site
        reader.close()


@pytest_asyncio.fixture
async def site(unread: Site) -> Site:
    """The pages after it."""
    await unread.feed.read()
    assert unread.feed.problem == ""
    return unread
