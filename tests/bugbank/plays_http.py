"""Plays over real HTTP on the loopback: tokens that expire, connections that break."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiohttp
from phalanx.kube.connect import Cluster
from phalanx.kube.transport import Credential
from phalanx.ports import OutcomeUnknown, RequestNotSent

_REFUSED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
_LINE = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n"


class _Server:
    """Requires the token "new"; cuts the connection after the request for /cut, or within its response."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if b" /cut " in head:
                    return
                if b" /half " in head:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
                    return
                writer.write(_LINE if b": new\r\n" in head else _REFUSED)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def _with_cluster(play: Any) -> str | None:
    renewals: list[bool] = []

    async def renew(refused: bool) -> str:
        renewals.append(refused)
        return "new"

    server = await asyncio.start_server(_Server().serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster = Cluster(base_url=f"http://127.0.0.1:{port}", tls=None, credential=Credential("old", renew))
    transport = cluster.transport()
    try:
        async with asyncio.timeout(10):
            found: str | None = await play(transport)
    except (TimeoutError, aiohttp.ClientError) as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        await transport.close()
        server.close()
    return found


def _run(play: Coroutine[Any, Any, str | None]) -> str | None:
    return asyncio.run(play)


def token_has_expired() -> str | None:
    """A request is refused because its token has expired; a new one is available."""

    async def play(transport: Any) -> str | None:
        answer = await transport.request("GET", "/x", timeout=5)
        return (
            None if answer.status == 200 else f"a request with a token that can be renewed: {answer.status}"
        )

    return _run(_with_cluster(play))


def token_of_a_watch_has_expired() -> str | None:
    """A watch is refused because its token has expired: the next one has a new token."""

    async def play(transport: Any) -> str | None:
        found = []
        for _ in range(2):
            async with transport.stream("/x", query={}, idle_timeout=5) as (status, lines):
                found.append(status)
                _ = [line async for line in lines]
        return None if found[-1] == 200 else f"watches with a token that can be renewed: {found}"

    return _run(_with_cluster(play))


def connection_breaks() -> str | None:
    """A connection breaks after the request was sent, or within the response: the outcome is unknown."""

    async def play(transport: Any) -> str | None:
        for path in ("/cut", "/half"):
            try:
                answer = await transport.request("POST", path, body=b"{}", timeout=5)
            except OutcomeUnknown:
                continue
            except RequestNotSent:
                return f"{path}: a sent request counts as not sent"
            return f"{path}: a truncated response counts as complete: {answer.status}"
        return None

    return _run(_with_cluster(play))


PLAYS = (token_has_expired, token_of_a_watch_has_expired, connection_breaks)
