"""Requests and watches over HTTP with aiohttp: the Transport of a real cluster.

The meaning of a failed request is decided here: an error before the connection is established is
RequestNotSent, every later error is OutcomeUnknown. Only DELETE may be sent twice by aiohttp itself (when a
pooled connection turns out to be closed); with a UID precondition its second answer, 404 or 409, is correct.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from phalanx.limits import CONNECT_TIMEOUT_S, WATCH_LINE_MAX_BYTES
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

_HTTP_READ_BUFFER_BYTES: Final = 1 << 20
"""Bytes of a watch to buffer before reading from the socket pauses. One wake-up then takes many events."""

_TIMEOUT_OBJECTS_KEPT: Final = 16
"""Timeouts whose aiohttp form is cached. Callers use a handful of constants."""

USER_AGENT: Final = f"phalanx/{version('phalanx-scheduler')}"

_UNAUTHORIZED: Final = 401
_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_UNKNOWN: Final = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class Credential:
    """The authorization header and its renewal: one renewal at a time for all requests.

    The callable receives whether the present header was refused, and returns the header to use from now on.
    """

    def __init__(self, header: str = "", renew: Callable[[bool], Awaitable[str]] | None = None) -> None:
        self.header = header
        self._renew = renew
        self._lock = asyncio.Lock()

    async def renew(self, *, refused: str | None = None) -> None:
        """Get a new header; where `refused` is given, only if that header is still in use."""
        if self._renew is None:
            return
        async with self._lock:
            if refused is None or refused == self.header:
                self.header = await self._renew(refused is not None)


class HttpTransport:
    """Requests over one pool of connections to one API server; `close` closes the pool."""

    def __init__(
        self,
        *,
        base_url: str,
        session: aiohttp.ClientSession,
        credential: Credential,
        request_options: Mapping[str, Any],
    ) -> None:
        """`request_options` go to aiohttp with every request: proxy, server_hostname."""
        self._base_url = base_url.rstrip("/")
        self._session = session
        self._credential = credential
        self._options = request_options
        self._headers: dict[tuple[str, str], CIMultiDict[str]] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

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
        """See Transport. A 401 renews the credential and repeats the request if the credential changed."""
        used = self._credential.header
        response = await self._send(method, path, query, body, content_type, timeout)
        if response.status != _UNAUTHORIZED:
            return response
        await self._credential.renew(refused=used)
        if self._credential.header == used:
            return response
        return await self._send(method, path, query, body, content_type, timeout)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        timeout: float,
    ) -> Response:
        try:
            async with self._session.request(
                method,
                self._url(path, query),
                data=body,
                headers=self._headers_for(content_type if body is not None else ""),
                timeout=self._timeout_of(timeout),
                allow_redirects=False,
                **self._options,
            ) as answer:
                return Response(status=answer.status, body=await answer.read(), headers=answer.headers)
        except _NOT_SENT as error:
            raise RequestNotSent(f"{method} {path}: {error}") from error
        except _UNKNOWN as error:
            raise OutcomeUnknown(f"{method} {path}: {type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """See Transport. Raises RequestNotSent when no connection was established."""
        used = self._credential.header
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout)
        try:
            answer = await self._session.get(
                self._url(path, query),
                headers=self._headers_for(""),
                timeout=timeout,
                allow_redirects=False,
                read_bufsize=_HTTP_READ_BUFFER_BYTES,
                **self._options,
            )
        except _NOT_SENT as error:
            raise RequestNotSent(f"watch {path}: {error}") from error
        except _UNKNOWN as error:
            raise OutcomeUnknown(f"watch {path}: {type(error).__name__}: {error}") from error
        try:
            if answer.status == _UNAUTHORIZED:
                await self._credential.renew(refused=used)
            async with aclosing(_lines(answer.content, path)) as lines:
                yield answer.status, lines
        finally:
            answer.close()

    async def close(self) -> None:
        await self._session.close()

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = f"{self._base_url}{path}?{urlencode(query)}" if query else f"{self._base_url}{path}"
        return URL(text, encoded=True)

    def _headers_for(self, content_type: str) -> CIMultiDict[str]:
        """Return the headers, built once per credential and content type."""
        key = (self._credential.header, content_type)
        headers = self._headers.get(key)
        if headers is None:
            headers = CIMultiDict({"user-agent": USER_AGENT, "accept": "application/json"})
            if content_type:
                headers["content-type"] = content_type
            if key[0]:
                headers["authorization"] = key[0]
            self._headers = {old: value for old, value in self._headers.items() if old[0] == key[0]}
            self._headers[key] = headers
        return headers

    def _timeout_of(self, seconds: float) -> aiohttp.ClientTimeout:
        """Return the aiohttp timeout; connecting gets at most half, so that a hang counts as not sent."""
        timeout = self._timeouts.get(seconds)
        if timeout is None:
            timeout = aiohttp.ClientTimeout(total=seconds, connect=min(CONNECT_TIMEOUT_S, seconds / 2))
            if len(self._timeouts) < _TIMEOUT_OBJECTS_KEPT:
                self._timeouts[seconds] = timeout
        return timeout


async def _lines(content: aiohttp.StreamReader, path: str) -> AsyncGenerator[bytes, None]:
    """Yield whole lines without their newline, all lines of a chunk in one wake-up."""
    rest = b""
    try:
        while chunk := await content.readany():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield line
            if len(rest) > WATCH_LINE_MAX_BYTES:
                raise OutcomeUnknown(f"watch {path}: a line of more than {WATCH_LINE_MAX_BYTES} bytes")
    except _UNKNOWN as error:
        raise OutcomeUnknown(f"watch {path}: {type(error).__name__}: {error}") from error
    if rest:
        yield rest
