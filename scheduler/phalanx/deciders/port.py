"""The door between the running scheduler and its pure decisions."""

from typing import Protocol

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.registry import declared_reads
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


def new_cache(config: SchedulerConfig) -> Cache:
    """An empty cache that keeps the annotations that enabled plugins read. Raises ConfigError."""
    reads = declared_reads(config)
    return Cache(
        scheduler_name=config.scheduler_name,
        pod_annotations=reads.pod_annotations,
        node_annotations=reads.node_annotations,
    )
