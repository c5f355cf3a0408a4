"""The network between one host and the API server: latency and injected faults.

A request that has left its host arrives and is applied even if the host dies or the answer is lost: that is
how a write can land late, or land without anybody knowing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum

import msgspec
from msgspec import Struct
from phalanx.clock import Random
from phalanx.kube.decode import INITIAL_EVENTS_END
from phalanx.limits import CONNECT_TIMEOUT_S
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.apiserver.watch_stream import WatchStream
from phalanx_simulator.hosts.delivery import ReceivedVersions
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.refusals import refusal

WATCH = "WATCH"
"""The method by which rules name the opening of a watch."""

_INITIAL_EVENTS_END = INITIAL_EVENTS_END.encode()


class Effect(StrEnum):
    """Fate of a request."""

    REFUSED = "refused"
    """Answered with an error, not applied."""
    APPLIED_BUT_REFUSED = "applied-but-refused"
    """Applied, answered with an error all the same."""
    NOT_SENT = "not-sent"
    """The connection is refused at once."""
    LOST = "lost"
    """Never arrives, and the sender does not know."""
    APPLIED_BUT_LOST = "applied-but-lost"
    """Applied, and the sender does not know."""
    SLOW = "slow"
    """Arrives late; so does the answer."""


class Rule(Struct):
    """Applies to matching requests until it is used up or expires.

    Empty `methods` and `path_part` fit all. `permille` of the fitting requests meet it; `skip` of them pass
    first. `slow_s` delays the request for SLOW, the answer's loss for the others. `met` counts.
    """

    effect: Effect
    methods: tuple[str, ...] = ()
    path_part: str = ""
    status: int = 500
    retry_after_s: int | None = None
    slow_s: float = 0.0
    skip: int = 0
    times: int = 1 << 60
    permille: int = 1000
    until_s: float = float("inf")
    met: int = 0


class Exchange(Struct):
    """One request as observers see it.

    Times are simulated seconds.

    `told` is what the sender learned: a status, "unknown" or "not sent"; None while it waits.
    """

    host: str
    method: str
    path: str
    body: bytes
    sent_at: float
    landed_at: float | None = None
    response: Response | None = None
    told: str | None = None


Observer = Callable[[Exchange], None]
"""Called when a request leaves, when it lands, and when its sender learns what became of it."""


class Network:
    """One host's connection to the API server."""

    def __init__(self, *, host: str, server: ApiServer, loop: VirtualLoop, random: Random) -> None:
        self.rules: list[Rule] = []
        self._slow_until = 0.0
        self.partitioned = False
        self.severed = False
        self.duplicates_permille = 0
        self.observer: Observer = lambda _exchange: None
        self.hearing = ReceivedVersions(loop.time)
        self._host = host
        self._server = server
        self._loop = loop
        self._random = random
        self._pipes: dict[_Pipe, None] = {}
        self._delays: dict[str, float] = {}

    def cut_watches(self, path_part: str = "") -> None:
        """Break the matching watches, as a restarting proxy does."""
        for pipe in self._fitting(path_part):
            pipe.cut("the connection was reset")

    def watches(self, path_part: str = "") -> bool:
        """Whether a matching watch is open."""
        return bool(self._fitting(path_part))

    def silence_watches(self, path_part: str = "") -> None:
        """Half-open: nothing arrives on these watches, and no side notices."""
        for pipe in self._fitting(path_part):
            pipe.silent = True

    def delay_watches(self, seconds: float, path_part: str = "") -> None:
        """Delay lines of these kinds by `seconds`; 0 ends the delay."""
        self._delays[path_part] = seconds

    def partition(self) -> None:
        """Nothing passes in either direction from now on."""
        self.partitioned = True

    def heal(self) -> None:
        """Let requests pass again, unless the host is gone.

        Open watches are cut.
        """
        self.partitioned = self.severed
        self.cut_watches()

    def bookmark_watches(self, path_part: str = "") -> None:
        """Send an early bookmark on these watches."""
        for pipe in self._fitting(path_part):
            pipe.bookmark()

    @property
    def has_silent_watch(self) -> bool:
        """Whether a watch is half-open: the host waits for lines that never arrive."""
        return any(pipe.silent for pipe in self._pipes)

    @property
    def is_faulty(self) -> bool:
        """Whether an injected fault disturbs the connection."""
        now = self._loop.time()
        rules = any(rule.times > 0 and rule.until_s > now for rule in self.rules)
        return (
            rules
            or self._slow_until > now
            or any(self._delays.values())
            or any(pipe.is_disturbed(now) for pipe in self._pipes)
        )

    def coin(self) -> bool:
        """A random boolean."""
        return self._random.random() < 0.5

    def sever(self) -> None:
        """Drop all connections for good: the host is dead."""
        self.partitioned = self.severed = True
        for pipe in list(self._pipes):
            pipe.cut("the host is gone")

    def pick(self, method: str, path: str) -> Rule | None:
        """The first rule that applies to this request."""
        now = self._loop.time()
        self.rules = [rule for rule in self.rules if rule.times > 0 and rule.until_s > now]
        for rule in self.rules:
            if (rule.methods and method not in rule.methods) or rule.path_part not in path:
                continue
            if rule.skip > 0:
                rule.skip -= 1
            elif self._random.randrange(1000) < rule.permille:
                rule.times -= 1
                rule.met += 1
                self._slow_until = max(self._slow_until, now + rule.slow_s)
                return rule
        return None

    def latency(self) -> float:
        """Seconds for one way: about one millisecond, sometimes much more."""
        base = 0.0003 + self._random.random() * 0.002
        return base * 30 if self._random.randrange(50) == 0 else base

    def watch_delay(self, path: str) -> float:
        """Delay of a line of this watch in seconds."""
        extra = max((delay for part, delay in self._delays.items() if part in path), default=0.0)
        return self.latency() + extra

    def line_arrived(self, path: str, line: bytes) -> None:
        """Record the received version of a kind."""
        version = _version_of(line)
        if version is not None:
            self.hearing.up_to(path.rsplit("/", 1)[-1], version)

    def open(self, pipe: "_Pipe") -> None:
        """Register a watch."""
        self._pipes[pipe] = None

    def closed(self, pipe: "_Pipe") -> None:
        """Unregister a watch."""
        self._pipes.pop(pipe, None)

    def doubled(self) -> bool:
        """Whether the next line arrives twice."""
        return self.duplicates_permille > 0 and self._random.randrange(1000) < self.duplicates_permille

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after a delay, whatever happens to the host."""
        self._loop.outside(self._loop.call_later, seconds, act)

    def new_exchange(self, method: str, path: str, body: bytes) -> Exchange:
        """A request is sent."""
        exchange = Exchange(host=self._host, method=method, path=path, body=body, sent_at=self._loop.time())
        self.observer(exchange)
        return exchange

    def land(self, exchange: Exchange, request: Request) -> Response:
        """The server handles a request."""
        exchange.landed_at = self._loop.time()
        exchange.response = self._server.handle(request)
        self.observer(exchange)
        return exchange.response

    def tell(self, exchange: Exchange, told: str) -> None:
        """The sender learns the outcome."""
        exchange.told = told
        self.observer(exchange)

    def _fitting(self, path_part: str) -> list["_Pipe"]:
        return [pipe for pipe in self._pipes if path_part in pipe.path]


class SimTransport:
    """The Transport port over a Network.

    Every host opens its own, and another one for the Lease.
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
            network.tell(exchange, "not sent")
            raise RequestNotSent("connection refused")
        request = Request(method, path, query or {}, body or b"", content_type)
        self._send(exchange, request, rule, answer)
        try:
            async with asyncio.timeout(timeout):
                response = await answer
        except (TimeoutError, ConnectionResetError) as error:
            network.tell(exchange, "unknown")
            raise OutcomeUnknown(f"{method} {path}: {type(error).__name__}") from None
        network.tell(exchange, str(response.status))
        return response

    async def _no_connection(self, exchange: Exchange, timeout: float) -> None:
        if self._network.coin():
            await asyncio.sleep(min(CONNECT_TIMEOUT_S, timeout / 2))
            self._network.tell(exchange, "not sent")
            raise RequestNotSent("no route to the server")
        await asyncio.sleep(timeout)
        self._network.tell(exchange, "unknown")
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
        pipe = _Pipe(path, network, self._loop)
        refused = self._loop.outside(pipe.open, self._server, query)
        if refused is not None:
            yield refused.status, _lines_of(refused.body)
            return
        network.open(pipe)
        try:
            yield 200, pipe.lines(idle_timeout)
        finally:
            pipe.close()
            network.closed(pipe)

    async def close(self) -> None:
        """Nothing to close: no connection outlives its request."""


class _Pipe:
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
            self._network.hearing.listed(self.path.rsplit("/", 1)[-1])
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


class _Version(Struct):
    resourceVersion: str = ""  # noqa: N815 a field of the API


class _Metadata(Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)


class _Line(Struct):
    object: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_line = msgspec.json.Decoder(_Line).decode


def _version_of(line: bytes) -> int | None:
    try:
        written = _decode_line(line).object.metadata.resourceVersion
    except msgspec.MsgspecError:
        return None
    return int(written) if written.isdecimal() else None


def _settle(answer: asyncio.Future[Response], response: Response) -> None:
    if not answer.done():
        answer.set_result(response)


def _reset(answer: asyncio.Future[Response]) -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError())


async def _lines_of(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        yield line
