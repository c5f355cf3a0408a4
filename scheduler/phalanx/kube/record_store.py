"""Keep the records of gangs without a PodGroup of Phalanx in one ConfigMap, which only the scheduler writes.

The first bind of a gang waits until its record is stored. One write at a time sends all changes, so that the
gangs that start in one cycle wait for one write together. The content of the leader counts: only a write that
the last leader sent late can have changed the ConfigMap meanwhile, and no bind followed it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from phalanx.kube.binding import Resume
from phalanx.kube.decode import Undecodable
from phalanx.kube.errors import ApiError, retry_after
from phalanx.kube.own_config_map import OwnConfigMap
from phalanx.kube.writing import WriteContext
from phalanx.limits import BIND_BACKOFF_FIRST_S, BIND_BACKOFF_LONGEST_S
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord
from phalanx.model.stored_records import (
    RECORDS_NAME,
    Changes,
    RecordDocument,
    Records,
    changes_of_data,
    is_initialized,
    read_records,
)
from phalanx.ports import OutcomeUnknown, RequestNotSent

RECORDS_BYTES_MAX: Final = 512 << 10
"""Bytes of the ConfigMap with the records of gangs. Kubernetes allows 1 MiB. One entry takes about 100 bytes,
so that there is space for 5,000 gangs."""

RECORDS_WRITE_RATE: Final = 512 << 10
"""Bytes of that ConfigMap that are written per second: etcd keeps each version for about five minutes, and
150 MiB of them are little of its 2 GiB."""

RECORDS_DELAY_S: Final = 2.0
"""Seconds before a change of records is written that no bind waits for, so that one write serves many."""

_log = structlog.get_logger(__name__)

_FAILED: Final = (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError, Undecodable)


class LoadedRecords(Struct, frozen=True):
    """What a new leader has read. `is_first`: no scheduler has written records in this cluster before."""

    records: Records
    is_first: bool


class RecordStore:
    """Call `load` once, then `run`. All other methods return at once."""

    def __init__(
        self, context: WriteContext, *, namespace: str, on_stored: Callable[[Changes], None]
    ) -> None:
        """`on_stored` gets what each write has changed."""
        self._context = context
        self._clock = context.clock
        self._on_stored = on_stored
        self._map = OwnConfigMap(context, namespace=namespace, name=RECORDS_NAME)
        self._document = RecordDocument(RECORDS_BYTES_MAX)
        self._unsent: dict[GangId, None] = {}
        self._sending: dict[GangId, None] = {}
        self._waiting: list[tuple[GangId, Resume]] = []
        self._changed = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._next_write = 0.0
        self._backoff = context.backoff(first=BIND_BACKOFF_FIRST_S, longest=BIND_BACKOFF_LONGEST_S)

    # --- input ---------------------------------------------------------------------------------------------

    async def load(self) -> LoadedRecords:
        """Read the ConfigMap, as soon as the API server lets us."""
        while True:
            try:
                await self._map.read()
            except _FAILED as error:
                _log.warning("records not read, retrying", object=self._map.path, error=str(error))
                await asyncio.sleep(self._backoff.next(at_least=retry_after(error)))
            else:
                break
        self._backoff.reset()
        self._document = RecordDocument(RECORDS_BYTES_MAX, read_records(self._map.data))
        is_first = not is_initialized(self._map.data)
        if is_first:
            self._changed.set()
        return LoadedRecords(self._document.records(), is_first)

    def put(self, namespace: str, gang: GangId, record: GangRecord) -> None:
        if record != self._document.get(gang):
            self._document.put(namespace, gang, record)
            self._mark(gang)

    def change(self, gang: GangId, record: GangRecord) -> None:
        """Set the record of a gang without pods, if it has one."""
        namespace = self._document.namespace_of(gang)
        if namespace is not None:
            self.put(namespace, gang, record)

    def keep_age(self, gang: GangId) -> None:
        """Keep of the record of a gang what does not concern single members."""
        record = self._document.get(gang)
        if record is not None:
            self.change(gang, replace(record, placed=(), let_in=None, evicting=0))

    def remove(self, gang: GangId) -> None:
        if gang in self._document:
            self._document.remove(gang)
            self._mark(gang)

    def when_stored(self, gang: GangId, resume: Resume) -> None:
        """Call `resume` when the record of a gang is stored, at once if it is, or when a write has failed."""
        if gang not in self._unsent and gang not in self._sending:
            resume(None)
            return
        self._waiting.append((gang, resume))
        self._is_urgent.set()

    def _mark(self, gang: GangId) -> None:
        self._unsent[gang] = None
        self._idle.clear()
        self._changed.set()

    # --- writing -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self._changed.is_set():
                self._idle.set()
            await self._changed.wait()
            await self._wait_for_more()
            await asyncio.sleep(max(0.0, self._next_write - self._clock.monotonic()))
            self._changed.clear()
            self._is_urgent.clear()
            await self._flush()

    async def flush(self, *, within: float) -> None:
        """Write what is pending, for a short time."""
        self._is_urgent.set()
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            return

    async def _wait_for_more(self) -> None:
        """Let one write serve several changes, unless a bind waits."""
        try:
            async with asyncio.timeout(RECORDS_DELAY_S):
                await self._is_urgent.wait()
        except TimeoutError:
            return

    async def _flush(self) -> None:
        self._sending, self._unsent = self._unsent, {}
        try:
            await self._write()
        except _FAILED as error:
            self._unsent = self._sending | self._unsent
            self._sending = {}
            self._failed(error)
        else:
            self._sending = {}
            self._backoff.reset()
            self._answer(None)

    def _failed(self, error: Exception) -> None:
        self._context.reports.write_finished("records", "refused")
        _log.warning("records not written, retrying", object=self._map.path, error=str(error))
        delay = self._backoff.next(at_least=retry_after(error))
        self._next_write = self._clock.monotonic() + delay
        self._changed.set()
        self._answer(error)

    def _answer(self, error: Exception | None) -> None:
        waiting, self._waiting = self._waiting, []
        for gang, resume in waiting:
            if error is None and gang in self._unsent:
                self._waiting.append((gang, resume))
                self._is_urgent.set()
            else:
                resume(error)

    async def _write(self) -> None:
        await self._map.read_if_unknown()
        before, data = self._map.data, self._document.data()
        changes = {
            name: data.get(name)
            for name in sorted(data.keys() | before.keys())
            if data.get(name) != before.get(name)
        }
        if not changes:
            return
        await self._map.change(changes)
        size = sum(map(len, data.values()))
        self._next_write = self._clock.monotonic() + size / RECORDS_WRITE_RATE
        self._context.reports.write_finished("records", "written")
        self._on_stored(changes_of_data(before, data))
