"""A proxy on loopback between the scheduler and the API server that can lose or delay requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from msgspec import Struct
from phalanx.web.server import serving
from phalanx_controlplane.controlplane import ControlPlane

OF_ONE_CONNECTION = {
    "connection",
    "host",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "accept-encoding",
}
REQUEST_BYTES_MAX = 1 << 24


class Delivery(Enum):
    """What the client receives for one request; all requests reach the API server."""

    DELIVERED = "delivered"
    LOST = "lost"
    """The connection breaks before the response."""
    HELD = "held"
    """The response does not arrive before the client's timeout."""


class Request(Struct, frozen=True):
    """The properties of a request that a rule can check."""

    method: str
    path: str
    body: bytes


Rule = Callable[[Request], Awaitable[Delivery | None]]
"""Called before a request is forwarded, which waits for it. None: the next rule decides."""


class Proxy:
    """Listens at `url`; `rules` may change at any time."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.rules: list[Rule] = []
        self.url = ""
        self._session = session

    def kubeconfig(self, original: Path, folder: Path) -> Path:
        """A kubeconfig of the same user that leads through this proxy."""
        document = yaml.safe_load(original.read_text())
        document["clusters"][0]["cluster"] = {"server": self.url}
        path = folder / "proxied.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward one request and stream the response."""
        body = await request.read()
        delivery = await self._delivery(Request(request.method, request.path, body))
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OF_ONE_CONNECTION}
        try:
            async with self._session.request(
                request.method,
                request.path_qs,
                headers=headers,
                data=body or None,
                skip_auto_headers=("Accept-Encoding",),
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                return await _answer(request, answer, delivery)
        except aiohttp.ClientError:
            return _break(request)

    async def _delivery(self, request: Request) -> Delivery:
        for rule in self.rules:
            delivery = await rule(request)
            if delivery is not None:
                return delivery
        return Delivery.DELIVERED


async def _answer(
    request: web.Request, answer: aiohttp.ClientResponse, delivery: Delivery
) -> web.StreamResponse:
    if delivery is not Delivery.DELIVERED:
        await answer.read()
        while delivery is Delivery.HELD and request.transport is not None:
            await asyncio.sleep(0.1)
        return _break(request)
    headers = {k: v for k, v in answer.headers.items() if k.lower() not in OF_ONE_CONNECTION}
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _break(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


@asynccontextmanager
async def proxying(plane: ControlPlane) -> AsyncIterator[Proxy]:
    """A proxy for this control plane on a free port."""
    async with plane.session() as session:
        proxy = Proxy(session)
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        async with serving(app, host="127.0.0.1", port=0) as port:
            proxy.url = f"http://127.0.0.1:{port}"
            yield proxy
