"""The network between one host and the API server: latency and injected faults.

A request that has left its host arrives and is applied even if the host dies or the answer is lost: that is
how a write can be applied late, or without the knowledge of its sender.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from phalanx.clock import Random
from phalanx.ports import Response

from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.hosts.event_loop import VirtualLoop

WATCH = "WATCH"
"""The method of requests that open a watch, in rules."""


class Effect(StrEnum):
    """What happens to a request."""

    REFUSED = "refused"
    """Not applied, answered with an error."""
    APPLIED_BUT_REFUSED = "applied-but-refused"
    """Applied, but answered with an error."""
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

    Empty `methods` and `path_part` match all. Of the matching requests, the first `skip` pass, and `permille`
    of the others are affected; `met` counts them. `slow_s` delays the request for SLOW, and the loss of the
    response for the other effects.
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

    `outcome` is the result for the sender: a status, "unknown" or "not sent"; None while it waits.
    """

    host: str
    method: str
    path: str
    body: bytes
    sent_at: float
    landed_at: float | None = None
    response: Response | None = None
    outcome: str | None = None


Observer = Callable[[Exchange], None]
"""Called when a request is sent, when it is applied, and when its sender gets the outcome."""


_STEP_S: Final = 0.05
_STEPS_KEPT: Final = 64


def resource_of(path: str) -> str:
    """The plural of a collection, with the API group if it has one."""
    parts = path.strip("/").split("/")
    return f"{parts[-1]}.{parts[1]}" if parts[0] == "apis" else parts[-1]


class ReceivedVersions:
    """Received resource versions by kind (plural and API group)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.versions: dict[str, int] = {}
        """The latest version of each kind that has arrived."""
        self.listed_at: dict[str, float] = {}
        """When a complete list of each kind last arrived, in simulated seconds."""
        self._now = now
        self._arrivals: dict[str, deque[tuple[float, int]]] = {}

    def update(self, kind: str, version: int) -> None:
        """All changes of a kind up to this version have arrived."""
        newest = self.versions[kind] = max(version, self.versions.get(kind, 0))
        arrivals = self._arrivals.setdefault(kind, deque(maxlen=_STEPS_KEPT))
        now = self._now()
        if arrivals and now // _STEP_S == arrivals[-1][0] // _STEP_S:
            arrivals.pop()
        arrivals.append((now, newest))

    def note_list(self, kind: str) -> None:
        """A complete list of a kind has arrived."""
        self.listed_at[kind] = self._now()

    def version_at(self, kind: str, at_s: float) -> int:
        """The version of a kind that had arrived by then, or an earlier one; 0 if unknown."""
        arrivals = self._arrivals.get(kind, ())
        return next((version for since, version in reversed(arrivals) if since <= at_s), 0)


class WatchConnection(Protocol):
    """An open watch, as faults of the network use it."""

    path: str
    silent: bool

    def cut(self, why: str) -> None:
        """Break the connection."""

    def is_disturbed(self, now: float) -> bool:
        """Whether it is silent or delayed by more than a second."""
        ...

    def bookmark(self) -> None:
        """Send a bookmark."""


class Network:
    """One host's connection to the API server."""

    def __init__(self, *, host: str, server: ApiServer, loop: VirtualLoop, random: Random) -> None:
        self.rules: list[Rule] = []
        self._slow_until = 0.0
        self.partitioned = False
        self.severed = False
        self.duplicates_permille = 0
        self.observer: Observer = lambda _exchange: None
        self.received = ReceivedVersions(loop.time)
        self._host = host
        self._server = server
        self._loop = loop
        self._random = random
        self._watches: dict[WatchConnection, None] = {}
        self._delays: dict[str, float] = {}

    def cut_watches(self, path_part: str = "") -> None:
        """Break the matching watches, as a restarting proxy does."""
        for watch in self._matching(path_part):
            watch.cut("the connection was reset")

    def watches(self, path_part: str = "") -> bool:
        """Whether a matching watch is open."""
        return bool(self._matching(path_part))

    def silence_watches(self, path_part: str = "") -> None:
        """Half-open: nothing arrives on these watches, and no side notices."""
        for watch in self._matching(path_part):
            watch.silent = True

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
        for watch in self._matching(path_part):
            watch.bookmark()

    @property
    def has_silent_watch(self) -> bool:
        """Whether a watch is half-open: the host waits for lines that never arrive."""
        return any(watch.silent for watch in self._watches)

    @property
    def is_faulty(self) -> bool:
        """Whether an injected fault disturbs the connection."""
        now = self._loop.time()
        rules = any(rule.times > 0 and rule.until_s > now for rule in self.rules)
        return (
            rules
            or self._slow_until > now
            or any(self._delays.values())
            or any(watch.is_disturbed(now) for watch in self._watches)
        )

    def coin(self) -> bool:
        """A random boolean."""
        return self._random.random() < 0.5

    def sever(self) -> None:
        """Drop all connections permanently: the host is dead."""
        self.partitioned = self.severed = True
        for watch in list(self._watches):
            watch.cut("the host is gone")

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
            self.received.update(resource_of(path), version)

    def open(self, watch: WatchConnection) -> None:
        """Register a watch."""
        self._watches[watch] = None

    def closed(self, watch: WatchConnection) -> None:
        """Unregister a watch."""
        self._watches.pop(watch, None)

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

    def report_outcome(self, exchange: Exchange, outcome: str) -> None:
        """The sender learns the outcome."""
        exchange.outcome = outcome
        self.observer(exchange)

    def _matching(self, path_part: str) -> list[WatchConnection]:
        return [watch for watch in self._watches if path_part in watch.path]


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
