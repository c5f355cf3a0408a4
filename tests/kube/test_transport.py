"""Each failed request is classified by what its failure means: not sent, refused, or unknown."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from phalanx.kube.connect import Cluster
from phalanx.kube.transport import USER_AGENT, Credential, HttpTransport
from phalanx.ports import OutcomeUnknown, RequestNotSent

from tests.kube.world import World

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[Cluster]:
    """A TCP peer that misbehaves in ways in which no API server can be made to."""
    tasks: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(handle(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Cluster(base_url=f"http://127.0.0.1:{port}", tls=None, credential=Credential())
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_error_statuses_are_responses(world: World, cluster: Cluster) -> None:
    transport = cluster.transport()
    found = await transport.request("GET", f"/api/v1/namespaces/{world.namespace}", timeout=10)
    missing = await transport.request("GET", "/api/v1/namespaces/nothing-here", timeout=10)
    assert (found.status, missing.status) == (200, 404)
    assert b'"reason":"NotFound"' in missing.body
    assert found.headers["content-type"].startswith("application/json")
    await transport.close()


async def test_no_connection_means_not_sent() -> None:
    async with listening(_close) as cluster:
        pass
    transport = cluster.transport()
    with pytest.raises(RequestNotSent):
        await transport.request("POST", "/x", body=b"{}", timeout=5)
    with pytest.raises(RequestNotSent):
        async with transport.stream("/x", query={}, idle_timeout=5):
            pass
    await transport.close()


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    return


async def _read_then_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def _read_then_say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _half_an_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":\n')
    await writer.drain()


@pytest.mark.parametrize("serve", [_close, _read_then_close, _half_an_answer])
async def test_a_cut_connection_means_unknown(serve: Serve) -> None:
    async with listening(serve) as cluster:
        transport = cluster.transport()
        with pytest.raises(OutcomeUnknown):
            await transport.request("POST", "/x", body=b"{}", timeout=5)
        await transport.close()


async def test_no_answer_in_time_means_unknown() -> None:
    async with listening(_read_then_say_nothing) as cluster:
        transport = cluster.transport()
        with pytest.raises(OutcomeUnknown):
            await transport.request("POST", "/x", body=b"{}", timeout=0.05)
        await transport.close()


async def _read(transport: HttpTransport, lines: list[bytes], *, idle_timeout: float) -> None:
    async with transport.stream("/x", query={}, idle_timeout=idle_timeout) as (status, stream):
        assert status == 200
        async for line in stream:
            lines.append(line)  # noqa: PERF401 what came before a failure counts


async def test_a_silent_watch_is_noticed() -> None:
    async def one_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{}\n{}\n\r\n")
        await reader.read()

    async with listening(one_line) as cluster:
        transport = cluster.transport()
        lines: list[bytes] = []
        with pytest.raises(OutcomeUnknown):
            await _read(transport, lines, idle_timeout=0.05)
        assert lines == [b"{}", b"{}"]
        await transport.close()


async def test_lines_are_complete_however_the_bytes_arrive() -> None:
    parts = [b'{"a"', b":1}\n", b'{"b":2}\n{"c":', b"3}\n\n{", b"}"]

    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.005)

    async with listening(dribble) as cluster:
        transport = cluster.transport()
        lines: list[bytes] = []
        await _read(transport, lines, idle_timeout=5)
        assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b"{}"]
        await transport.close()


async def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.kube.transport.WATCH_LINE_MAX_BYTES", 1000)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"x" * 100_000)
        await reader.read()

    async with listening(flood) as cluster:
        transport = cluster.transport()
        with pytest.raises(OutcomeUnknown, match="1000 bytes"):
            await _read(transport, [], idle_timeout=5)
        await transport.close()


class _TokenServer:
    """Accepts requests with the right token, and records their headers."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        known = f"authorization: {self.token}".encode() in self.heads[-1].lower()
        status = b"200 OK" if known else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}" % status)
        await writer.drain()


async def test_concurrent_requests_with_a_refused_token_renew_it_once() -> None:
    server = _TokenServer("new")
    renewals: list[bool] = []

    async def renew(refused: bool) -> str:
        renewals.append(refused)
        await asyncio.sleep(0)
        return "new"

    async with listening(server) as plain:
        cluster = Cluster(base_url=plain.base_url, tls=None, credential=Credential("old", renew))
        transport = cluster.transport()
        answers = await asyncio.gather(*(transport.request("GET", "/x", timeout=5) for _ in range(4)))
        assert [answer.status for answer in answers] == [200] * 4
        assert renewals == [True]
        assert f"user-agent: {USER_AGENT}".encode() in server.heads[0].lower()
        await transport.close()


async def test_a_token_that_stays_refused_is_an_error() -> None:
    async with listening(_TokenServer("other")) as plain:
        cluster = Cluster(base_url=plain.base_url, tls=None, credential=Credential("old"))
        transport = cluster.transport()
        assert (await transport.request("GET", "/x", timeout=5)).status == 401
        await transport.close()
