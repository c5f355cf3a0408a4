"""A transport as a context manager."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from phalanx.kube.transport import HttpTransport


@asynccontextmanager
async def closing(transport: HttpTransport) -> AsyncIterator[HttpTransport]:
    """Yield the transport and close it afterwards."""
    try:
        yield transport
    finally:
        await transport.close()
