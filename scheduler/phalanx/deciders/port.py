"""The door between the running scheduler and its pure decisions."""

from typing import Protocol

from phalanx.cache.events import Event
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot


class Decider(Protocol):
    """Runs cycles, one at a time, and keeps the memory that one hands to the next."""

    def feed(self, events: tuple[Event, ...]) -> None:
        """The events that the scheduler's own cache has just taken, in the same order."""
        ...

    async def decide(self, *, now_ms: int) -> CycleResult:
        """One cycle over all that was fed so far."""
        ...

    async def last(self) -> tuple[Snapshot, CycleResult] | None:
        """What the last cycle saw and decided, for the debug endpoint; None before the first one."""
        ...

    async def close(self) -> None:
        """End whatever it runs in."""
        ...
