"""Passes connections on to one address: the only way into the network namespace of a cluster.

A socket stays in the network namespace in which it was created. So a socket that listens on loopback outside
accepts connections in a process inside.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from phalanx_controlplane.nodes import limits


@asynccontextmanager
async def relay(listeners: Sequence[socket.socket], *, port: int) -> AsyncIterator[None]:
    """Pass connections on to `port` on loopback while the context lasts."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))

    servers = [await asyncio.start_server(accepted, sock=listener) for listener in listeners]
    try:
        yield
    finally:
        for server in servers:
            server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(limits.RELAY_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.close()
