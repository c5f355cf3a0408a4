"""What an observer saw of each pod, and when it has seen enough. Pure: times come in as arguments."""

from typing import Final

from msgspec import Struct

from bench.harness.gangs import GANG_LABEL
from bench.harness.workloads import Until

QUIET_S: Final = 3.0
"""Without a bind for so long, once every pod has an answer, nobody will be bound any more."""
RUNNING_WAIT_S: Final = 10.0
"""After the last bind: KWOK plays the kubelets beside everything else and lags behind."""

GATED: Final = "SchedulingGated"


class Meta(Struct, rename="camel", frozen=True):
    """As much of an object's metadata as is needed."""

    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class Spec(Struct, rename="camel", frozen=True):
    """As much of a pod's spec as is needed."""

    node_name: str = ""


class Condition(Struct, frozen=True):
    """As much of a condition as is needed."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Status(Struct, frozen=True):
    """As much of a pod's status as is needed."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Seen(Struct, frozen=True):
    """As much of a pod as is needed."""

    metadata: Meta = Meta()
    spec: Spec = Spec()
    status: Status | str = Status()
    """A string in the API server's own Status objects, which end a watch."""


class Line(Struct, frozen=True):
    """One line of the watch."""

    type: str
    object: Seen


class PodTimes(Struct):
    """When (monotonic seconds, 0 for never) a pod was first seen so, on the watch.

    `refused`: told by its condition PodScheduled that it cannot be placed. `ended`: succeeded, failed or
    deleted.
    """

    name: str
    gang: str
    created: float
    bound: float = 0.0
    node: str = ""
    running: float = 0.0
    refused: float = 0.0
    ended: float = 0.0


class Observation(Struct, frozen=True):
    """All pods in the order in which they were created.

    `watches` is how many watches it took: the API server closes those of a reader that it finds too slow.
    """

    pods: list[PodTimes]
    watches: int = 1


class Record:
    """Takes the lines of the watch."""

    def __init__(self, *, expected: int, until: Until) -> None:
        self._expected = expected
        self._until = until
        self._pods: dict[str, PodTimes] = {}
        self._bound = 0
        self._running = 0
        self._answered = 0
        self._news_at = 0.0

    @property
    def pods(self) -> list[PodTimes]:
        """In the order of their creation."""
        return list(self._pods.values())

    @property
    def all_created(self) -> bool:
        """Whether every pod was seen."""
        return len(self._pods) >= self._expected

    def note(self, line: Line, *, now: float) -> None:
        """One line of the watch."""
        seen = line.object
        name = seen.metadata.name
        if not name or isinstance(seen.status, str):
            return
        pod = self._pods.get(name)
        if pod is None:
            pod = self._pods[name] = PodTimes(name, seen.metadata.labels.get(GANG_LABEL, ""), created=now)
        self._note_answers(pod, seen.spec.node_name, seen.status, now)
        if seen.status.phase == "Running" and not pod.running:
            pod.running = now
            self._running += 1
        if not pod.ended and (line.type == "DELETED" or seen.status.phase in ("Succeeded", "Failed")):
            pod.ended = now

    def _note_answers(self, pod: PodTimes, node: str, status: Status, now: float) -> None:
        if node and not pod.bound:
            pod.bound, pod.node = now, node
            self._bound += 1
            self._answered += not pod.refused
            self._news_at = now
        elif not node and not pod.refused and any(map(_refuses, status.conditions)):
            pod.refused = now
            self._answered += not pod.bound
            self._news_at = now

    def is_met(self, *, now: float) -> bool:
        """Whether what the run waits for has come to pass."""
        if self._until is Until.BOUND:
            return self._bound >= self._expected
        return self._answered >= self._expected and now - self._news_at >= QUIET_S

    def is_complete(self, *, now: float) -> bool:
        """Whether, beyond that, all bound pods were seen to run, or were given enough time."""
        everyone_runs = self._running >= self._bound or now - self._news_at >= RUNNING_WAIT_S
        return self.is_met(now=now) and everyone_runs


def _refuses(condition: Condition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "False" and condition.reason != GATED
