"""A pool of connections that is closed leaves no socket open, whatever the server does."""

import asyncio
import gc
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from phalanx.kube.connect import Cluster
from phalanx.kube.transport import Credential
from phalanx_controlplane.controlplane import ControlPlane

_LINE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n"


@asynccontextmanager
async def answering_once(plane: ControlPlane) -> AsyncIterator[int]:
    """The port of a server that sends one line to each client, and does not notice the end of TLS."""
    transports: list[asyncio.Transport] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_LINE)
        await writer.drain()
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transports.append(transport)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(plane.certificate, plane.certificate_key)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for transport in transports:
            transport.abort()
        await server.wait_closed()


async def _watch_and_ask(cluster: Cluster) -> None:
    """End a watch after its first line and a request before its answer; then close the pool."""
    transport = cluster.transport()
    async with transport.stream("/x", query={}, idle_timeout=30) as (_, lines):
        assert await anext(lines) == b"{}"
    request = asyncio.create_task(transport.request("GET", "/x", timeout=30))
    async with transport.stream("/x", query={}, idle_timeout=30) as (_, lines):
        await anext(lines)
        request.cancel()
        await asyncio.wait([request])
    await transport.close()


@pytest.mark.controlplane
async def test_no_socket_outlives_its_pool(control_plane: ControlPlane) -> None:
    async with answering_once(control_plane) as port:
        trust = ssl.create_default_context(cafile=str(control_plane.certificate))
        cluster = Cluster(base_url=f"https://127.0.0.1:{port}", tls=trust, credential=Credential())
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            await asyncio.to_thread(asyncio.run, _watch_and_ask(cluster))
            gc.collect()
    assert [
        str(warning.message) for warning in seen if f"raddr=('127.0.0.1', {port})" in str(warning.message)
    ] == []
