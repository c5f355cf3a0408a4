"""The doors to the outside, as protocols: how requests reach an API server. The rim implements them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class Response(Struct, frozen=True):
    """An API server's answer. Header names are lower-case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class RequestNotSent(Exception):
    """The request certainly did not reach the server: nothing was applied."""


class OutcomeUnknown(Exception):
    """The request may have reached the server; only reading back tells whether it was applied."""


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
        """Any status is an answer; raises RequestNotSent or OutcomeUnknown. `timeout` is in seconds."""
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """Open a watch: status, then a line per event. OutcomeUnknown after `idle_timeout` s of silence."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...
