"""A Transport that calls the embedded API server directly, for tests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from phalanx.ports import OutcomeUnknown, RequestNotSent, Response
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.apiserver.watch_stream import WatchStream


class InMemoryTransport:
    """Answers each request within the call, after one turn of the event loop."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
    ) -> Response:
        """See phalanx.ports.Transport. It answers at once, so the timeout never expires."""
        if self._closed:
            raise RequestNotSent("the transport is closed")
        await asyncio.sleep(0)
        return self._server.handle(Request(method, path, query or {}, body or b"", content_type))

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """See phalanx.ports.Transport."""
        if self._closed:
            raise RequestNotSent("the transport is closed")
        stream = WatchStream()
        opened = stream.open(self._server, Request("GET", path, {**query, "watch": "true"}))
        if isinstance(opened, Response):
            yield opened.status, _lines_of(opened.body)
            return
        try:
            yield 200, _until_idle(stream.chunks(), idle_timeout)
        finally:
            stream.close()

    async def close(self) -> None:
        """Refuse further requests."""
        self._closed = True


async def _lines_of(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        yield line


async def _until_idle(chunks: AsyncIterator[bytes], idle_timeout: float) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(idle_timeout):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise OutcomeUnknown(f"the watch was silent for {idle_timeout} s") from None
        if chunk is None:
            return
        for line in chunk.splitlines():
            yield line
