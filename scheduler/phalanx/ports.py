"""The protocol by which requests reach an API server. `kube/transport.py` and the simulator implement it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class Response(Struct, frozen=True):
    """A response of an API server. Header names are lower-case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class RequestNotSent(Exception):
    """The request did not reach the server: nothing was applied."""


class OutcomeUnknown(Exception):
    """The request may have reached the server. Only a read shows whether it was applied."""


class Transport(Protocol):
    """Requests and streams to one API server."""

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
        """Return a response of any status. Raises RequestNotSent or OutcomeUnknown. `timeout` is in
        seconds."""
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """Open a watch: status, then a line per event. Raises OutcomeUnknown after `idle_timeout` s without
        data."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
