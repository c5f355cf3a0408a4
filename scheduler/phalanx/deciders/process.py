"""Runs cycles in a separate process, with a second cache that gets the same events.

The cycles then do not block the interpreter of the event loop. The costs are a second cache, and pickling of
every event. Messages are sent over a pipe in order: events and requests one way, responses the other.
"""

import asyncio
import contextlib
import multiprocessing
import pickle
import signal
from array import array
from collections.abc import Sequence
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cache.events import Event
from phalanx.clock import SystemClock
from phalanx.cycle import Engine
from phalanx.deciders.port import OnSteps, RecordedCycle, new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.memory import Memory
from phalanx.model.reasons import Verdict
from phalanx.model.stored_records import Records, changes_of_records, with_changes

_DECIDER_STOP_TIMEOUT_S: Final = 2.0
"""Seconds that the decider process may take to end after its pipe is closed. Then it is killed."""


class VerdictChanges(Struct, frozen=True):
    """Verdicts in order, each new or at a position among the last ones."""

    new: tuple[Verdict, ...]
    positions: bytes | None = None
    """64-bit integers: the position of a verdict among the last ones; -1 for the next new one. None if all
    stay the same."""


def changes_of(before: Sequence[Verdict], verdicts: tuple[Verdict, ...]) -> VerdictChanges:
    """The changes between the verdicts of two cycles.

    Most of thousands stay the same: these are the same objects.
    """
    if verdicts == before:
        return VerdictChanges(())
    known = {id(verdict): position for position, verdict in enumerate(before)}
    positions = [known.get(id(verdict), -1) for verdict in verdicts]
    new = tuple([verdict for verdict, at in zip(verdicts, positions, strict=True) if at < 0])
    return VerdictChanges(new, array("q", positions).tobytes())


def apply_changes(before: Sequence[Verdict], changes: VerdictChanges) -> tuple[Verdict, ...]:
    """The verdicts of the second cycle."""
    if changes.positions is None:
        return tuple(before)
    positions, new = array("q"), iter(changes.new)
    positions.frombytes(changes.positions)
    return tuple([before[at] if at >= 0 else next(new) for at in positions])


class _Request(Enum):
    """Requests of the parent process."""

    DECIDE = "decide"
    ADVISE = "advise"
    LAST = "last"


class _Message(Struct, frozen=True):
    """A request, and what happened since the last one."""

    events: tuple[Event, ...]
    config: SchedulerConfig | None
    """The configuration to use from now on, if it has changed."""
    request: _Request
    now_ms: int


class DeciderDied(Exception):
    """The decider process has ended. The scheduler cannot continue without it."""


class _Failure(Struct, frozen=True):
    """The last message of a decider process that ends with an error."""

    error: str


class _ParentEnded(Exception):
    """The parent has closed its end of the pipe."""


class ProcessDecider:
    """The parent's side. One request at a time; events are sent with the next request."""

    def __init__(self, *, config: SchedulerConfig, on_steps: OnSteps = lambda _: None) -> None:
        """`on_steps` gets the durations of the steps of each cycle."""
        self._on_steps = on_steps
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, config), daemon=True)
        self._process.start()
        theirs.close()
        self._unsent: list[Event] = []
        self._new_config: SchedulerConfig | None = None
        self._verdicts: tuple[Verdict, ...] = ()
        self._records: Records = {}
        self._may_advise = False
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def feed(self, events: tuple[Event, ...]) -> None:
        """Keep the events until the next request."""
        self._unsent.extend(events)

    def configure(self, config: SchedulerConfig) -> None:
        """Keep the configuration until the next request."""
        self._new_config = config

    async def decide(self, *, now_ms: int) -> CycleResult:
        """Run one cycle in the other process, which keeps the memory but the records. Raises DeciderDied."""
        result: CycleResult
        result, changes, records, steps, self._may_advise = await self._call(_Request.DECIDE, now_ms)
        self._on_steps(steps)
        self._verdicts = apply_changes(self._verdicts, changes)
        self._records = with_changes(self._records, records)
        return replace(result, verdicts=self._verdicts, memory=Memory(records=self._records))

    async def advise(self) -> Advised | None:
        """Search in the other process, which is not asked if no gang is refused. Raises DeciderDied."""
        advised: Advised | None = await self._call(_Request.ADVISE, 0) if self._may_advise else None
        return advised

    async def last(self) -> RecordedCycle | None:
        """Fetch the last cycle from the other process. Raises DeciderDied."""
        seen: RecordedCycle | None = await self._call(_Request.LAST, 0)
        return seen

    async def close(self) -> None:
        """Close the pipe, which ends the other process."""
        self._pipe.close()
        await asyncio.to_thread(self._process.join, _DECIDER_STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()

    async def _call(self, request: _Request, now_ms: int) -> Any:
        async with self._turn:
            message = _Message(tuple(self._unsent), self._new_config, request, now_ms)
            self._unsent, self._new_config = [], None
            try:
                response = pickle.loads(await asyncio.to_thread(self._exchange, message))
            except (EOFError, OSError) as ended:
                raise DeciderDied("the decider process has ended") from ended
            if isinstance(response, _Failure):
                raise DeciderDied(f"the decider process has ended: {response.error}")
            return response

    def _exchange(self, message: _Message) -> bytes:
        with contextlib.suppress(OSError):  # a process that has ended may have sent its error before
            self._pipe.send(message)
        return self._pipe.recv_bytes()


def _serve(pipe: Connection, config: SchedulerConfig) -> None:
    """Run in the other process: apply events and answer requests until the parent closes the pipe.

    Any other end is an error: its text is sent to the parent, and multiprocessing prints the traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _answer(pipe, config)
    except _ParentEnded:
        return
    except Exception as error:
        with contextlib.suppress(_ParentEnded):
            _send(pipe, _Failure(f"{type(error).__name__}: {error}"))
        raise


def _answer(pipe: Connection, config: SchedulerConfig) -> NoReturn:
    cache, memory, seconds = new_cache(config), Memory(), SystemClock().monotonic
    engine = Engine(config, seconds=seconds, defers_advice=True)
    last: RecordedCycle | None = None
    while True:
        message = _receive(pipe)
        cache.apply_all(message.events)
        if message.config is not None:
            engine = Engine(message.config, seconds=seconds, defers_advice=True)
        if message.request is _Request.DECIDE:
            began = seconds()
            snapshot = cache.snapshot(now=message.now_ms, seed=engine.config.seed, memory=memory)
            steps = {"snapshot": seconds() - began}
            result = engine.decide(snapshot)
            before = last[2].verdicts if last is not None else ()
            records = changes_of_records(memory.records, result.memory.records)
            memory, last = result.memory, (engine.config, snapshot, result)
            reply = replace(result, verdicts=(), memory=Memory())
            changes, seconds_of_steps = changes_of(before, result.verdicts), steps | engine.step_seconds
            _send(pipe, (reply, changes, records, seconds_of_steps, engine.may_advise))
        elif message.request is _Request.ADVISE:
            advised = engine.advise()
            if advised is not None:
                memory, advised = advised.memory, replace(advised, memory=Memory())
            _send(pipe, advised)
        else:
            _send(pipe, last)


def _receive(pipe: Connection) -> _Message:
    try:
        message = pipe.recv_bytes()
    except (EOFError, OSError) as ended:
        raise _ParentEnded from ended
    received: _Message = pickle.loads(message)
    return received


def _send(pipe: Connection, message: object) -> None:
    pickled = pickle.dumps(message)
    try:
        pipe.send_bytes(pickled)
    except OSError as ended:
        raise _ParentEnded from ended
