"""Faults at the Transport port: real requests that are lost, delayed or answered with an error."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from phalanx.ports import OutcomeUnknown, RequestNotSent, Response, Transport

Send = Callable[[], Any]


class Fault(Protocol):
    """What happens to one request; `send` really sends it."""

    async def __call__(self, send: Send) -> Response: ...


async def not_sent(send: Send) -> Response:
    raise RequestNotSent("fault")


async def lost(send: Send) -> Response:
    """Never arrives, and the caller does not know."""
    raise OutcomeUnknown("fault")


async def applied_but_lost(send: Send) -> Response:
    await send()
    raise OutcomeUnknown("fault")


def answer(status: int, body: bytes = b"{}", **headers: str) -> Fault:
    async def fault(send: Send) -> Response:
        return Response(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return fault


def held_until(event: asyncio.Event) -> Fault:
    """Sent, but the answer is late."""

    async def fault(send: Send) -> Response:
        response: Response = await send()
        await event.wait()
        return response

    return fault


class FaultyTransport:
    """Wraps a transport. Queued faults each apply to the first request that matches them."""

    def __init__(self, inner: Transport) -> None:
        self.sent: list[tuple[str, str, bytes]] = []
        self.timeouts: list[float] = []
        self.stream_queries: list[Mapping[str, str]] = []
        self.rewrite_line: Callable[[bytes], bytes] = lambda line: line
        self.rewrite_query: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda query: query
        self._inner = inner
        self._faults: list[tuple[str, str, Fault]] = []
        self._cut = asyncio.Event()

    def fault(self, method: str, path_part: str, *faults: Fault) -> None:
        """Apply these faults to the next requests of this kind, one each."""
        self._faults.extend((method, path_part, fault) for fault in faults)

    def cut_streams(self) -> None:
        """Break every watch that is open now."""
        self._cut.set()
        self._cut = asyncio.Event()

    def count(self, method: str, path_part: str) -> int:
        """How many such requests were made."""
        return sum(1 for sent, path, _ in self.sent if sent == method and path_part in path)

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        self.sent.append((method, path, rest.get("body") or b""))
        self.timeouts.append(rest["timeout"])

        async def send() -> Response:
            return await self._inner.request(method, path, **rest)

        for item in self._faults:
            if item[0] == method and item[1] in path:
                self._faults.remove(item)
                return await item[2](send)
        return await send()

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        self.stream_queries.append(query)
        cut = self._cut
        for item in self._faults:
            if item[0] == "WATCH" and item[1] in path:
                self._faults.remove(item)
                response = await item[2](lambda: None)
                yield response.status, _one(response.body)
                return
        query = self.rewrite_query(query)
        async with self._inner.stream(path, query=query, idle_timeout=idle_timeout) as (status, lines):
            yield status, self._until_cut(lines, cut)

    async def _until_cut(self, lines: AsyncIterator[bytes], cut: asyncio.Event) -> AsyncIterator[bytes]:
        while True:
            waiting = asyncio.ensure_future(anext(lines, None))
            ending = asyncio.ensure_future(cut.wait())
            try:
                await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    raise OutcomeUnknown("cut")
                line = waiting.result()
            finally:
                for task in (waiting, ending):
                    task.cancel()
                await asyncio.gather(waiting, ending, return_exceptions=True)
            if line is None:
                return
            yield self.rewrite_line(line)

    async def close(self) -> None:
        await self._inner.close()


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
