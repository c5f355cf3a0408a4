"""A pool of connections that leaves none open when it is closed."""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

import aiohttp

_TCP_KEEPALIVE_IDLE_S: Final = 15
"""Seconds without data before TCP probes the peer."""

_TCP_KEEPALIVE_INTERVAL_S: Final = 5
"""Seconds between two probes."""

_TCP_KEEPALIVE_PROBES: Final = 3
"""Unanswered probes after which a connection counts as dead: 30 s without data in all."""

_POOL_CLOSE_TURNS_MAX: Final = 100
"""Turns of the event loop in which the connections of a closed pool end: at most four were seen."""

_KEEPALIVE: Final = {
    "TCP_KEEPIDLE": _TCP_KEEPALIVE_IDLE_S,
    "TCP_KEEPINTVL": _TCP_KEEPALIVE_INTERVAL_S,
    "TCP_KEEPCNT": _TCP_KEEPALIVE_PROBES,
}


class Connector(aiohttp.TCPConnector):
    """aiohttp's pool of connections, which also closes those that it has given up.

    A connection is given up when its request ends before its answer, as that of a watch does, or while it is
    made. asyncio then waits up to 30 s for the server to end TLS, and aiohttp does not know of it: the socket
    would outlive the pool, and the event loop.

    Sockets have TCP keepalive, which detects a dead peer in half a minute on an idle watch.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(socket_factory=self._new_socket, **options)
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections. What was not sent by now is not sent."""
        await super().close(abort_ssl=abort_ssl)
        for open_socket in self._open_sockets():
            with suppress(OSError):  # it is not connected
                open_socket.shutdown(socket.SHUT_RDWR)
        for _ in range(_POOL_CLOSE_TURNS_MAX):
            if not self._open_sockets():
                return
            await asyncio.sleep(0)

    def _open_sockets(self) -> list[socket.socket]:
        return [made for made in self._sockets if made.fileno() >= 0]

    def _new_socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family=family, type=kind, proto=protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._sockets.add(made)
        return made
