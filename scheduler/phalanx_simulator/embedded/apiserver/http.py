"""The embedded API server over HTTP on loopback, with a kubeconfig for any client.

Plain HTTP, an optional fixed bearer token. A watch is a chunked stream of JSON lines; a watcher that falls
too far behind is cut off, as a real server does.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct
from phalanx.limits import HTTP_SHUTDOWN_TIMEOUT_S
from phalanx.ports import Response

from phalanx_simulator.embedded.apiserver.errors import unauthorized
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer, json_response
from phalanx_simulator.embedded.apiserver.watch_stream import WatchStream

SIM_REQUEST_BYTES_MAX: Final = 3 << 20
"""Bytes of one request's body: the API server's own limit."""

_LOOPBACK = "127.0.0.1"


class Endpoint(Struct, frozen=True):
    """Address of the server; `token` is empty if none is required."""

    url: str
    token: str = ""

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the file that --kubeconfig takes; only its owner may read it."""
        user = {"token": self.token} if self.token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "embedded", "user": user}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
        }
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(config))
        return path


@asynccontextmanager
async def serving(server: ApiServer, *, token: str = "") -> AsyncIterator[Endpoint]:
    """Serve on a free port while the context lasts; open watches are closed at the end."""
    handler = _Handler(server, token)
    http = web.Server(handler.handle, handler_cancellation=True, request_factory=_request_factory)
    runner = web.ServerRunner(http, access_log=None, shutdown_timeout=HTTP_SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, _LOOPBACK, 0).start()
        yield Endpoint(f"http://{_LOOPBACK}:{runner.addresses[0][1]}", token)
    finally:
        handler.close()
        await runner.cleanup()


def _request_factory(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = task.get_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=SIM_REQUEST_BYTES_MAX
    )


class _Handler:
    """Handles requests and ends open streams on shutdown."""

    def __init__(self, server: ApiServer, token: str) -> None:
        self._server = server
        self._authorization = f"Bearer {token}" if token else ""
        self._streams: dict[int, WatchStream] = {}
        self._closed = False

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if self._authorization and http.headers.get("Authorization") != self._authorization:
            return _http_response(json_response(unauthorized().status, status=401))
        body = await http.read() if http.can_read_body else b""
        request = Request(http.method, http.path, http.query, body, http.content_type)
        if request.is_watch:
            return await self._stream(http, request)
        return _http_response(self._server.handle(request))

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for stream in list(self._streams.values()):
            stream.close()

    async def _stream(self, http: web.BaseRequest, request: Request) -> web.StreamResponse:
        stream = WatchStream()
        opened = stream.open(self._server, request)
        if isinstance(opened, Response):
            return _http_response(opened)
        self._streams[id(stream)] = stream
        if self._closed:
            stream.close()
        try:
            return await _send(http, stream)
        finally:
            stream.close()
            del self._streams[id(stream)]


async def _send(http: web.BaseRequest, stream: WatchStream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(http)
    async for chunk in stream.chunks():
        await response.write(chunk)
    await response.write_eof()
    return response


def _http_response(response: Response) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=response.headers)
