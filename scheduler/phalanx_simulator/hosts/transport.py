"""The Transport port over a simulated network, with injected error responses."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from phalanx.kube.decode import INITIAL_EVENTS_END
from phalanx.limits import CONNECT_TIMEOUT_S
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.apiserver.watch_stream import WatchStream
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.network import WATCH, Effect, Exchange, Network, Rule, resource_of

_INITIAL_EVENTS_END = INITIAL_EVENTS_END.encode()

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refusal(status: int, retry_after_s: int | None) -> Response:
    """A response with this status, and Retry-After in seconds if given."""
    headers = {"content-type": "application/json"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"injected {status}",
        "reason": _REASONS.get(status, "InternalError"),
        "code": status,
    }
    return Response(status, msgspec.json.encode(body), headers)


class SimTransport:
    """The Transport port over a Network.

    Each process opens one, and another one for the Lease.
    """

    def __init__(self, *, network: Network, server: ApiServer, loop: VirtualLoop) -> None:
        self._network = network
        self._server = server
        self._loop = loop

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
        """See phalanx.ports.Transport."""
        network = self._network
        exchange = network.new_exchange(method, path, body or b"")
        answer: asyncio.Future[Response] = self._loop.create_future()
        rule = network.pick(method, path)
        if network.partitioned:
            await self._no_connection(exchange, timeout)
        if rule is not None and rule.effect is Effect.NOT_SENT:
            network.report_outcome(exchange, "not sent")
            raise RequestNotSent("connection refused")
        request = Request(method, path, query or {}, body or b"", content_type)
        self._send(exchange, request, rule, answer)
        try:
            async with asyncio.timeout(timeout):
                response = await answer
        except (TimeoutError, ConnectionResetError) as error:
            network.report_outcome(exchange, "unknown")
            raise OutcomeUnknown(f"{method} {path}: {type(error).__name__}") from None
        network.report_outcome(exchange, str(response.status))
        return response

    async def _no_connection(self, exchange: Exchange, timeout: float) -> None:
        if self._network.coin():
            await asyncio.sleep(min(CONNECT_TIMEOUT_S, timeout / 2))
            self._network.report_outcome(exchange, "not sent")
            raise RequestNotSent("no route to the server")
        await asyncio.sleep(timeout)
        self._network.report_outcome(exchange, "unknown")
        raise OutcomeUnknown("no answer")

    def _send(
        self, exchange: Exchange, request: Request, rule: Rule | None, answer: asyncio.Future[Response]
    ) -> None:
        effect = rule.effect if rule is not None else None
        slow_s = rule.slow_s if rule is not None else 0.0
        there = self._network.latency() + (slow_s if effect is Effect.SLOW else 0.0)

        def arrive() -> None:
            if effect is Effect.REFUSED and rule is not None:
                self._later(lambda: _settle(answer, refusal(rule.status, rule.retry_after_s)), 0.0)
                return
            response = self._network.land(exchange, request)
            if effect is Effect.APPLIED_BUT_REFUSED and rule is not None:
                response = refusal(rule.status, rule.retry_after_s)
            if effect is Effect.APPLIED_BUT_LOST:
                self._later(lambda: _reset(answer), slow_s)
            elif not self._network.partitioned:
                self._later(lambda: _settle(answer, response), 0.0)

        if effect is Effect.LOST:
            self._later(lambda: _reset(answer), slow_s)
        else:
            self._loop.outside(self._loop.call_later, there, arrive)

    def _later(self, act: Callable[[], None], more_s: float) -> None:
        self._loop.outside(self._loop.call_later, self._network.latency() + more_s, act)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """See phalanx.ports.Transport."""
        network = self._network
        if network.partitioned:
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise RequestNotSent("no route to the server")
        rule = network.pick(WATCH, path)
        if rule is not None and rule.effect is not Effect.SLOW:
            await asyncio.sleep(network.latency())
            if rule.effect is Effect.REFUSED:
                answer = refusal(rule.status, rule.retry_after_s)
                yield answer.status, _lines_of(answer.body)
                return
            raise OutcomeUnknown(f"watch {path}: reset")
        await asyncio.sleep(network.latency() + (rule.slow_s if rule is not None else 0.0))
        watch = _Watch(path, network, self._loop)
        refused = self._loop.outside(watch.open, self._server, query)
        if refused is not None:
            yield refused.status, _lines_of(refused.body)
            return
        network.open(watch)
        try:
            yield 200, watch.lines(idle_timeout)
        finally:
            watch.close()
            network.closed(watch)

    async def close(self) -> None:
        """Do nothing: no connection outlives its request."""


class _Watch:
    """One watch: lines arrive in order, each some time after it was written."""

    def __init__(self, path: str, network: Network, loop: VirtualLoop) -> None:
        self.path = path
        self.silent = False
        self._network = network
        self._loop = loop
        self._source = WatchStream()
        self._arrived: list[bytes] = []
        self._wake = asyncio.Event()
        self._end: str | None = None
        self._last_arrival = 0.0
        self._on_the_way: deque[Callable[[], None]] = deque()
        self._is_initial = False
        self._pump: asyncio.Task[None] | None = None

    def open(self, server: ApiServer, query: Mapping[str, str]) -> Response | None:
        """Open the watch at the server; returns the error response if it is refused."""
        self._is_initial = query.get("sendInitialEvents") == "true"
        opened = self._source.open(server, Request("GET", self.path, {**query, "watch": "true"}))
        if isinstance(opened, Response):
            return opened
        self._pump = self._loop.create_task(self._pump_lines())
        return None

    def cut(self, why: str) -> None:
        """Break the connection."""
        self._end = why
        self._wake.set()

    def is_disturbed(self, now: float) -> bool:
        """Whether it is silent or delayed by more than a second."""
        return self.silent or self._last_arrival > now + 1.0

    def bookmark(self) -> None:
        """Send a bookmark."""
        self._loop.outside(self._source.bookmark)

    def close(self) -> None:
        """Close the watch."""
        self._source.close()

    async def lines(self, idle_timeout: float) -> AsyncIterator[bytes]:
        """Lines that have arrived, until the end.

        Raises OutcomeUnknown when it was cut or silent for too long.
        """
        while True:
            try:
                async with asyncio.timeout(idle_timeout):
                    await self._wake.wait()
            except TimeoutError:
                raise OutcomeUnknown(f"the watch was silent for {idle_timeout} s") from None
            self._wake.clear()
            arrived, self._arrived = self._arrived, []
            for line in arrived:
                self._note(line)
                yield line
            if self._end is not None and not self._arrived:
                if self._end:
                    raise OutcomeUnknown(self._end)
                return

    def _note(self, line: bytes) -> None:
        """Record a line.

        Initial events count from their end on: until then the reader ignores them.
        """
        if self._is_initial and _INITIAL_EVENTS_END in line:
            self._is_initial = False
            self._network.received.note_list(resource_of(self.path))
        if not self._is_initial:
            self._network.line_arrived(self.path, line)

    async def _pump_lines(self) -> None:
        async for chunk in self._source.chunks():
            lines = chunk.splitlines()
            if self._network.doubled():
                lines = [*lines, lines[-1]]
            self._arrive_later(lambda lines=lines: self._take(lines))  # type: ignore[misc]
        self._arrive_later(lambda: self._finish())

    def _arrive_later(self, act: Callable[[], None]) -> None:
        due = max(self._last_arrival, self._loop.time() + self._network.watch_delay(self.path))
        self._last_arrival = due
        self._on_the_way.append(act)
        self._loop.call_at(due, self._arrive)

    def _arrive(self) -> None:
        """Deliver the oldest line.

        Timers of one moment fire in any order; the lines stay in order.
        """
        self._on_the_way.popleft()()

    def _take(self, lines: list[bytes]) -> None:
        if self.silent or self._network.partitioned:
            return
        self._arrived.extend(lines)
        self._wake.set()

    def _finish(self) -> None:
        if not self.silent and not self._network.partitioned and self._end is None:
            self.cut("")


def _settle(answer: asyncio.Future[Response], response: Response) -> None:
    if not answer.done():
        answer.set_result(response)


def _reset(answer: asyncio.Future[Response]) -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError())


async def _lines_of(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        yield line
