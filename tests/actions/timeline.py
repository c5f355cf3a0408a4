"""A small cluster in simulated time: work arrives, is scheduled, runs for its run time, and ends."""

from collections.abc import Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.memory import ReservedStart
from phalanx.model.names import GangId
from phalanx.model.queues import Backfill
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario

MINUTE = 60_000
BEGIN = 1_000_000 * MINUTE


class Work(Struct, frozen=True):
    """`count` pods of `gpu` devices each; times in minutes.

    `runs`: the true run time, None for ever; `max` and `estimate`: the declared ones. `arrives` negative: the
    work runs since then, on the nodes `on`.
    """

    name: str
    count: int
    gpu: int
    arrives: int = 0
    runs: int | None = None
    max: int | None = None
    estimate: int | None = None
    on: tuple[str, ...] = ()
    queue: str = "q"
    priority: int = 0


WITHOUT_EVICTIONS = SchedulerConfig(actions=())
"""Evicted gangs would start again, which these tests of backfill do not cover."""


class Timeline:
    """`started`: the minute in which each work started. `reserved_starts`: those of each cycle."""

    def __init__(
        self, nodes: int, gpu: int, mode: Backfill | None, config: SchedulerConfig = WITHOUT_EVICTIONS
    ) -> None:
        self._config = config
        self.scenario = Scenario().nodes("n", nodes, gpu=gpu)
        self.scenario.queue("q", backfill=mode)
        self.started: dict[str, int] = {}
        self.reserved_starts: dict[str, list[int]] = {}
        self._coming: list[Work] = []
        self._here: dict[str, Work] = {}
        self.minute = 0

    def add(self, *works: Work) -> Self:
        """Add works, which arrive in their minute."""
        self._coming = sorted([*self._coming, *works], key=lambda work: work.arrives)
        return self

    def run(self, until: int) -> Self:
        """Run a cycle whenever a work arrives or ends, or at the time that the last cycle requested."""
        wake: int | None = 0
        while self.minute <= until:
            decided = self.step()
            at = decided.result.wake_at
            wake = None if at is None else -(-(at - BEGIN) // MINUTE)
            times = [
                *self._ends(),
                *(work.arrives for work in self._coming),
                *([] if wake is None else [wake]),
            ]
            later = [time for time in times if time > self.minute]
            if not later:
                break
            self.minute = min(later)
        return self

    def step(self) -> Decided:
        """Run one cycle in this minute and apply its decisions."""
        for name in [name for name, end in self._ending().items() if end <= self.minute]:
            self.scenario.remove(name)
            del self._here[name]
        while self._coming and self._coming[0].arrives <= self.minute:
            self._arrive(self._coming.pop(0))
        self.scenario.now = BEGIN + self.minute * MINUTE
        decided = self.scenario.decide(self._config)
        self.scenario.take(decided)
        for name in decided.placed():
            self.started[name] = self.minute
            self._begin(name, self.minute)
        for gang, reserved in decided.result.memory.reserved_starts.items():
            self.reserved_starts.setdefault(gang.removeprefix("gang-"), []).append(minute_of(reserved))
        return decided

    def _arrive(self, work: Work) -> None:
        declared = Runtime(
            estimate=f"{work.estimate}m" if work.estimate else None,
            max=f"{work.max}m" if work.max else None,
        )
        self.scenario.gang(
            work.name,
            work.count,
            gpu=work.gpu,
            cpu=0,
            memory=0,
            on=list(work.on),
            containers=[{GPU: work.gpu}] if work.gpu else [],
            queue=work.queue,
            priority=work.priority,
            created=BEGIN // 1000 + work.arrives * 60,
            runtime=declared,
        )
        self._here[work.name] = work
        if work.on:
            self.started[work.name] = work.arrives
            self._begin(work.name, work.arrives)

    def _begin(self, name: str, minute: int) -> None:
        since = BEGIN // 1000 + minute * 60
        members = tuple(replace(pod, running_since=since) for pod in self.scenario.members(name))
        self.scenario.change(name, members=members)

    def _ending(self) -> dict[str, int]:
        runs = {name: self._here[name].runs for name in self._here if name in self.started}
        return {name: self.started[name] + long for name, long in runs.items() if long is not None}

    def _ends(self) -> Sequence[int]:
        return list(self._ending().values())

    def reservation(self, name: str) -> ReservedStart:
        """The start that the last cycle reserved for this work."""
        return self.scenario.memory.reserved_starts[GangId(f"gang-{name}")]


def minute_of(reserved: ReservedStart) -> int:
    """The minute of a reserved start."""
    return (reserved.start - BEGIN) // MINUTE
