"""A transport as a context: closed at its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from phalanx.kube.transport import HttpTransport


@asynccontextmanager
async def closing(transport: HttpTransport) -> AsyncIterator[HttpTransport]:
    """Give the transport, close it afterwards."""
    try:
        yield transport
    finally:
        await transport.close()
