"""The protocol by which the running scheduler runs cycles."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.evictable_pods import is_selected
from phalanx.framework.registry import declared_reads, default_spread, reads_images
from phalanx.model.decisions import Advised, CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.model.workloads.known import workload_kinds

RecordedCycle = tuple[SchedulerConfig, Snapshot, CycleResult]
"""A cycle: the configuration that it used, its input and its result."""

OnSteps = Callable[[Mapping[str, float]], None]
"""Takes the seconds of the steps of a cycle, by name; called in the event loop."""


class Decider(Protocol):
    """Runs cycles, one at a time, and keeps the memory that is passed from one to the next."""

    def feed(self, events: tuple[Event, ...]) -> None:
        """Take the events that the scheduler's own cache has just applied, in the same order."""
        ...

    async def decide(self, *, now_ms: int) -> CycleResult:
        """Run one cycle on all events so far. Of the memory, which the decider keeps, the result may have the
        records only."""
        ...

    async def advise(self) -> Advised | None:
        """Search advice on one refusal of the last cycle, for the next cycle to show; None if all have some.
        The result may be without the memory."""
        ...

    def configure(self, config: SchedulerConfig) -> None:
        """Use this configuration from the next cycle on. The cache stays as it is: its settings are fixed."""
        ...

    async def last(self) -> RecordedCycle | None:
        """Return the last cycle, for the debug endpoint; None before the first one."""
        ...

    async def close(self) -> None:
        """End its thread or process."""
        ...


def new_cache(config: SchedulerConfig) -> Cache:
    """Create an empty cache that keeps what enabled plugins read. Raises ConfigError."""
    reads = declared_reads(config)
    return Cache(
        scheduler_name=config.scheduler_name,
        pod_annotations=reads.pod_annotations,
        node_annotations=reads.node_annotations,
        nominating_schedulers=config.nominating_schedulers,
        workload_kinds=workload_kinds(config.workloads),
        queue_dialects=config.queue_dialects,
        default_spread=default_spread(config),
        with_images=reads_images(config),
        state_taints=config.state_taints,
        gangs_move=ActionName.CONSOLIDATE in config.actions,
        is_evictable=partial(is_selected, config.evictable_pods),
    )
