"""One watch as an asynchronous stream of chunks, with bookmarks and a timeout."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from phalanx.ports import Response

from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.apiserver.watches import Watch

SIM_WATCH_QUEUE_LINES: Final = 1 << 16
"""Lines that are buffered for a slow watcher before its stream is closed: all events of a demo fit."""

SIM_BOOKMARK_PERIOD_S: Final = 60.0
"""Seconds between two bookmarks of a watch: about the API server's own."""

SIM_BOOKMARK_BEFORE_END_S: Final = 2.0
"""Seconds before the end of a watch with a timeout when it gets its last bookmark, as in the API server."""


class WatchStream:
    """Buffers the lines of a watch for the task that sends them."""

    def __init__(self, *, queue_limit: int = SIM_WATCH_QUEUE_LINES) -> None:
        self._queue: deque[bytes] = deque()
        self._queue_limit = queue_limit
        self._filled = asyncio.Event()
        self._ended = False
        self._timers: list[asyncio.TimerHandle] = []
        self._watch: Watch | None = None

    def open(self, server: ApiServer, request: Request) -> Watch | Response:
        """Start the watch; the Response is a refusal."""
        opened = server.watch(request, self._put)
        if isinstance(opened, Response):
            return opened
        self._watch = opened
        if not opened.is_open:
            self._end()
            return opened
        loop = asyncio.get_running_loop()
        timeout_s = request.number("timeoutSeconds")
        if timeout_s:
            self._timers.append(loop.call_later(timeout_s, self._end))
        if request.flag("allowWatchBookmarks"):
            self._schedule_bookmarks(timeout_s)
        return opened

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole lines in batches, until the watch ends or the queue overflows."""
        while True:
            await self._filled.wait()
            if self._queue:
                chunk = b"".join(self._queue)
                self._queue.clear()
                if not self._ended:
                    self._filled.clear()
                yield chunk
            elif self._ended:
                return

    def bookmark(self) -> None:
        """Send a bookmark now."""
        self._send_bookmark()

    def close(self) -> None:
        """End the stream and its watch."""
        self._end()

    def _put(self, lines: bytes) -> None:
        if len(self._queue) >= self._queue_limit:
            self._queue.clear()
            self._end()
        elif not self._ended:
            self._queue.append(lines)
            self._filled.set()

    def _end(self) -> None:
        self._ended = True
        self._filled.set()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._watch is not None:
            self._watch.close()

    def _schedule_bookmarks(self, timeout_s: int | None) -> None:
        if timeout_s and timeout_s > SIM_BOOKMARK_BEFORE_END_S:
            self._call_later(timeout_s - SIM_BOOKMARK_BEFORE_END_S, self._send_bookmark)
        self._call_later(SIM_BOOKMARK_PERIOD_S, self._send_periodic_bookmark)

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, callback))

    def _send_bookmark(self) -> None:
        if self._watch is not None and not self._ended:
            self._watch.bookmark()

    def _send_periodic_bookmark(self) -> None:
        self._send_bookmark()
        self._call_later(SIM_BOOKMARK_PERIOD_S, self._send_periodic_bookmark)
