"""A pool of connections that leaves none open when it is closed."""

import asyncio
from typing import Any
from weakref import WeakSet

import aiohttp


class Connector(aiohttp.TCPConnector):
    """aiohttp's pool of connections, which also closes those that it has given up.

    A connection is given up when its request ends before its answer, as that of a watch does. asyncio then
    waits up to 30 s for the server to end TLS, and aiohttp does not know of it: the socket would outlive the
    pool, and the event loop.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._transports: WeakSet[asyncio.Transport] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """An idle or new connection for a request."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._transports.add(connection.transport)
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections. What was not sent by now is not sent."""
        await super().close(abort_ssl=abort_ssl)
        for transport in tuple(self._transports):
            transport.abort()
        await asyncio.sleep(0)  # asyncio closes the sockets in the next turn of the loop
