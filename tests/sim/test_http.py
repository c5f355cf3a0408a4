"""The embedded API server over HTTP: token, kubeconfig, streams that end, slow watchers."""

import asyncio
import json

import aiohttp
import pytest
from phalanx.clock import SystemClock
from phalanx.ports import Response
from phalanx_simulator.embedded.apiserver import watch_stream
from phalanx_simulator.embedded.apiserver.http import serving
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.apiserver.watch_stream import WatchStream

from tests.embedded_fixture import EmbeddedApi


def namespace(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name}}).encode()


async def test_a_wrong_token_is_unauthorized(embedded_api: EmbeddedApi) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{embedded_api.url}/api/v1/pods") as answer:
        assert answer.status == 401
        assert (await answer.json())["reason"] == "Unauthorized"


async def test_the_kubeconfig_names_server_and_token(embedded_api: EmbeddedApi) -> None:
    config = json.loads(embedded_api.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == embedded_api.url
    assert config["users"][0]["user"]["token"] == embedded_api.endpoint.token
    assert embedded_api.kubeconfig.stat().st_mode & 0o077 == 0


async def test_open_watches_end_when_the_server_stops() -> None:
    server = ApiServer(clock=SystemClock())
    async with aiohttp.ClientSession() as session:
        async with serving(server) as endpoint:
            answer = await session.get(f"{endpoint.url}/api/v1/pods?watch=true&resourceVersion=0")
        assert await answer.read() == b""
        answer.close()


async def test_a_watch_closed_by_its_client_is_unsubscribed(embedded_api: EmbeddedApi) -> None:
    async with embedded_api.session() as session:
        answer = await session.get("/api/v1/namespaces?watch=true&resourceVersion=0")
        await answer.content.readline()
        assert _subscribers(embedded_api.server) == 1
        answer.close()
    while _subscribers(embedded_api.server):
        await asyncio.sleep(0)


def _subscribers(server: ApiServer) -> int:
    return len(server.store._of("namespaces").subscribers)


async def test_the_stream_of_a_slow_watcher_is_closed() -> None:
    server = ApiServer(clock=SystemClock())
    stream = WatchStream(queue_limit=2)
    stream.open(server, Request("GET", "/api/v1/namespaces", {"watch": "true", "resourceVersion": "10"}))
    for name in ("a", "b", "c"):
        server.handle(Request("POST", "/api/v1/namespaces", body=namespace(name)))
    assert [chunk async for chunk in stream.chunks()] == []
    assert _subscribers(server) == 0


async def test_bookmarks_are_sent_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stream, "SIM_BOOKMARK_PERIOD_S", 0.001)
    server, stream = ApiServer(clock=SystemClock()), WatchStream()
    query = {"watch": "true", "resourceVersion": "10", "allowWatchBookmarks": "true"}
    opened = stream.open(server, Request("GET", "/api/v1/pods", query))
    assert not isinstance(opened, Response)
    chunk = await anext(stream.chunks())
    stream.close()
    assert json.loads(chunk.splitlines()[0])["type"] == "BOOKMARK"
