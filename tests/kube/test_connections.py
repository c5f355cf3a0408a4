"""A pool of connections that is closed leaves no socket open, whatever the server does."""

import asyncio
import gc
import ssl
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
from phalanx.kube.connect import Cluster
from phalanx.kube.transport import Credential
from phalanx_controlplane.controlplane import ControlPlane

_LINE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n"


class _Deaf(asyncio.Protocol):
    """Answers one message of a client, or none, and reads no more: it does not see the end of TLS."""

    def __init__(self, transports: list[asyncio.Transport], *, answers: bool) -> None:
        self._transports = transports
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transports.append(transport)
        if not self._answers:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._transports[-1].write(_LINE)
        self._transports[-1].pause_reading()


@asynccontextmanager
async def deaf_server(plane: ControlPlane, *, answers: bool) -> AsyncIterator[int]:
    """The port of a server that notices nothing that its client does after its request."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(plane.certificate, plane.certificate_key)
    tls.num_tickets = 0  # one that comes after the client has ended TLS closes the connection
    transports: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Deaf(transports, answers=answers), "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for transport in transports:
            transport.abort()
        await server.wait_closed()


async def _end_a_watch(cluster: Cluster) -> None:
    """End a watch after its first line, and close the pool."""
    transport = cluster.transport()
    async with transport.stream("/x", query={}, idle_timeout=30) as (_, lines):
        assert await anext(lines) == b"{}"
    await transport.close()


async def _cancel_a_request(cluster: Cluster) -> None:
    """Cancel a request at the moment when TLS is established, and close the pool."""
    transport = cluster.transport()
    request = asyncio.create_task(transport.request("GET", "/x", timeout=30))

    class Interrupted(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            request.cancel()

    assert cluster.tls is not None
    cluster.tls.sslobject_class = Interrupted
    await asyncio.wait([request])
    cluster.tls.sslobject_class = ssl.SSLObject  # else it keeps the request, and with it the socket
    await transport.close()


@pytest.mark.controlplane
@pytest.mark.parametrize(("use", "answers"), [(_end_a_watch, True), (_cancel_a_request, False)])
async def test_no_socket_outlives_its_pool(
    control_plane: ControlPlane, use: Callable[[Cluster], Coroutine[None, None, None]], answers: bool
) -> None:
    async with deaf_server(control_plane, answers=answers) as port:
        trust = ssl.create_default_context(cafile=str(control_plane.certificate))
        cluster = Cluster(base_url=f"https://127.0.0.1:{port}", tls=trust, credential=Credential())
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            await asyncio.to_thread(asyncio.run, use(cluster))
            gc.collect()
    client_side = f"raddr=('127.0.0.1', {port})"
    assert [str(warning.message) for warning in seen if client_side in str(warning.message)] == []
