"""Read the cluster again and again, and wake everybody who looks when there is something new."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from phalanx.cli.exits import BadInput
from phalanx.cli.verbs.runner import FAILURES
from phalanx.clock import Clock
from phalanx.kube.kubeconfig import NoCluster

from phalanx_dashboard.facts import EVERYTHING, Facts, Scope, restricted
from phalanx_dashboard.pages.queues import ShareHistory
from phalanx_dashboard.reading import Reader
from phalanx_dashboard.recordings import Recordings

_READ_SHARE: Final = 5
"""A reading that takes long is followed by a pause of so many times its length, so that a large cluster is
not read all the time."""

_IDLE_PERIOD_S: Final = 30.0
"""Seconds between two readings while nobody looks, for the shares over time."""

_SCOPES_KEPT: Final = 16
"""Different sets of rights for which the pages of one reading are kept."""


class Feed:
    """The last reading of the cluster."""

    def __init__(self, reader: Reader, recordings: Recordings, *, clock: Clock, period: float) -> None:
        """`period`: seconds between two readings while somebody looks."""
        self.history = ShareHistory()
        self.recordings = recordings
        self.number = 0
        """Grows with every reading, also with one that failed."""
        self.problem = ""
        """Why the last reading failed."""
        self._reader = reader
        self._clock = clock
        self._period = period
        self._facts: Facts | None = None
        self._restricted: OrderedDict[Scope, Facts] = OrderedDict()
        self._lookers = 0
        self._looked = asyncio.Event()
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Read until it is cancelled."""
        while True:
            begin = self._clock.monotonic()
            await self.read()
            took = self._clock.monotonic() - begin
            await self._pause(max(self._period, took * _READ_SHARE))

    async def read(self) -> None:
        """Read once. A failure is kept as the problem; the last good reading stays."""
        try:
            facts = await asyncio.to_thread(self._read)
            self._facts, self.problem = facts, ""
            self._restricted.clear()
            if "Queue" not in facts.seen.unread:
                self.history.add(facts.queues, now_ms=facts.seen.now_ms)
        except (NoCluster, BadInput, *FAILURES) as error:
            self.problem = str(error)
        async with self._changed:
            self.number += 1
            self._changed.notify_all()

    def _read(self) -> Facts:
        facts = self._reader.read()
        self.recordings.fetch()
        return facts

    def facts(self, scope: Scope) -> Facts | None:
        """What the last good reading says to somebody with these rights; None before the first one."""
        if self._facts is None or scope == EVERYTHING:
            return self._facts
        found = self._restricted.get(scope)
        if found is None:
            found = self._restricted[scope] = restricted(self._facts, scope)
            while len(self._restricted) > _SCOPES_KEPT:
                self._restricted.popitem(last=False)
        return found

    @property
    def has_facts(self) -> bool:
        """Whether there has been a good reading."""
        return self._facts is not None

    def namespaces(self) -> frozenset[str]:
        """The namespaces that have gangs, also those that nobody here may see."""
        if self._facts is None:
            return frozenset()
        return frozenset(entry.row.namespace for entry in self._facts.entries)

    async def newer(self, number: int) -> int:
        """Wait for a reading after this one; return its number."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.number > number)
            return self.number

    @property
    def lookers(self) -> int:
        """How many look now."""
        return self._lookers

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Somebody looks: the cluster is read often."""
        self._lookers += 1
        self._looked.set()
        try:
            yield
        finally:
            self._lookers -= 1
            if not self._lookers:
                self._looked.clear()

    async def _pause(self, busy: float) -> None:
        """A short pause while somebody looks, else a long one that ends when somebody looks."""
        begin = self._clock.monotonic()
        if not self._lookers:
            try:
                await asyncio.wait_for(self._looked.wait(), max(_IDLE_PERIOD_S, busy))
            except TimeoutError:
                return
        await asyncio.sleep(max(begin + busy - self._clock.monotonic(), 0))
