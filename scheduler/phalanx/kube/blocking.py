"""Requests to an API server without an event loop, for commands that read once and end.

aiohttp takes 0.2 s of CPU to import, more than most of these commands need for everything else. This client
uses `http.client`; several threads may use it, each request on a connection of its own.
"""

import http.client
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from socket import SHUT_RDWR
from ssl import SSLContext
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit
from zlib import MAX_WBITS, decompress

import msgspec

from phalanx.kube.decode import continue_token
from phalanx.kube.errors import error_of
from phalanx.kube.kubeconfig import Access
from phalanx.limits import CONNECT_TIMEOUT_S, LIST_PAGE_OBJECTS, READ_TIMEOUT_S, WRITE_TIMEOUT_S
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

_GZIP: Final = 16 + MAX_WBITS
_MERGE_PATCH: Final = "application/merge-patch+json"


class BlockingClient:
    """The reading verbs of the API, reviews, and patches. Every status other than 2xx raises an ApiError."""

    def __init__(self, access: Access, *, timeout: float = READ_TIMEOUT_S) -> None:
        """`timeout`: seconds without an answer to a read."""
        self._access = access
        self._timeout = timeout
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._busy: set[http.client.HTTPConnection] = set()
        self._is_stopped = False
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "kubectl-phalanx",
        }
        if access.authorization:
            self._headers["Authorization"] = access.authorization

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of one answer. Raises ApiError, RequestNotSent or OutcomeUnknown."""
        return self._request("GET", path + (f"?{urlencode(query)}" if query else ""), None, {})

    def pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """The pages of a consistent list."""
        asked = {**(query or {}), "limit": str(LIST_PAGE_OBJECTS)}
        while True:
            body = self.get(path, asked)
            yield body
            token = continue_token(body)
            if not token:
                return
            asked["continue"] = token

    def create(self, path: str, body: object) -> bytes:
        """Create an object, or ask for a review, which is answered and not stored."""
        return self._request("POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"})

    def merge_patch(self, path: str, body: object) -> bytes:
        """Patch an object with a merge patch; return it as it is now."""
        return self._request("PATCH", path, msgspec.json.encode(body), {"Content-Type": _MERGE_PATCH})

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def stop(self) -> None:
        """End the requests of all threads, each with an error, and refuse new ones: nobody waits any more."""
        self._is_stopped = True
        for connection in tuple(self._busy):
            with suppress(OSError):  # it was closed by the server
                if connection.sock is not None:
                    connection.sock.shutdown(SHUT_RDWR)

    def _request(self, method: str, path: str, body: bytes | None, more: Mapping[str, str]) -> bytes:
        path = urlsplit(self._access.server).path + path
        while True:
            connection, is_new = self._connection(self._timeout if body is None else WRITE_TIMEOUT_S)
            self._busy.add(connection)
            try:
                if self._is_stopped:
                    raise ConnectionAbortedError("stopped")
                connection.request(method, path, body=body, headers={**self._headers, **more})
                answer = connection.getresponse()
                content = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if is_new or body is not None or self._is_stopped:
                    raise OutcomeUnknown(f"{self._access.server}: {error or type(error).__name__}") from error
            finally:
                self._busy.discard(connection)
        self._keep(connection)
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if headers.get("content-encoding") == "gzip":
            content = decompress(content, _GZIP)
        if answer.status >= 300:
            raise error_of(Response(status=answer.status, body=content, headers=headers))
        return content

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        """Keep it for the next request, unless there will be none."""
        if self._is_stopped:
            connection.close()
        else:
            self._idle.append(connection)

    def _connection(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        """An idle connection, which the server may have closed, or a new one; and whether it is new."""
        try:
            return self._idle.pop(), False
        except IndexError:
            pass
        connection = _new_connection(self._access)
        connection.timeout = CONNECT_TIMEOUT_S
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            raise RequestNotSent(f"{self._access.server}: {error or type(error).__name__}") from error
        connection.sock.settimeout(timeout)
        return connection, True


def _new_connection(access: Access) -> http.client.HTTPConnection:
    target = urlsplit(access.server)
    proxy = urlsplit(access.proxy) if access.proxy else None
    at = proxy or target
    host, port = at.hostname or "", at.port or _default_port(at)
    if access.tls is None:
        connection = http.client.HTTPConnection(host, port)
    else:
        connection = _Secure(host, port, context=access.tls, name=access.server_name or target.hostname or "")
    if proxy is not None:
        connection.set_tunnel(target.hostname or "", target.port or _default_port(target))
    return connection


def _default_port(address: SplitResult) -> int:
    return 443 if address.scheme == "https" else 80


class _Secure(http.client.HTTPSConnection):
    """A connection whose server must have a certificate for a name that may differ from its address."""

    def __init__(self, host: str, port: int, *, context: SSLContext, name: str) -> None:
        super().__init__(host, port, context=context)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        """Connect, through the proxy if there is one, and negotiate TLS."""
        http.client.HTTPConnection.connect(self)
        plain: Any = self.sock
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)
