"""Records what the observer saw of each pod, and decides when a run is over. Times are arguments."""

from typing import Final

from msgspec import Struct

from bench.harness.gangs import GANG_LABEL
from bench.harness.workloads import Until

QUIET_S: Final = 3.0
"""When every pod has an answer and no bind came for this time, no more binds are expected."""
RUNNING_WAIT_S: Final = 10.0
"""The wait after the last bind, since KWOK starts pods with a delay."""

GATED: Final = "SchedulingGated"


class Meta(Struct, rename="camel", frozen=True):
    """The required fields of an object's metadata."""

    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class Spec(Struct, rename="camel", frozen=True):
    """The required fields of a pod's spec."""

    node_name: str = ""


class Condition(Struct, frozen=True):
    """The required fields of a condition."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Status(Struct, frozen=True):
    """The required fields of a pod's status."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Seen(Struct, frozen=True):
    """The required fields of a pod."""

    metadata: Meta = Meta()
    spec: Spec = Spec()
    status: Status | str = Status()
    """A string in Status objects of the API server, which end a watch."""


class Line(Struct, frozen=True):
    """One event of the watch."""

    type: str
    object: Seen


class PodTimes(Struct):
    """When the watch first showed each state of a pod, in monotonic seconds; 0 for never.

    `refused`: its condition PodScheduled was False. `ended`: succeeded, failed or deleted.
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

    `watches` is the number of watches: the API server closes the watch of a slow reader.
    """

    pods: list[PodTimes]
    watches: int = 1


class Record:
    """Collects the events of the watch."""

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
        """Whether every pod was observed."""
        return len(self._pods) >= self._expected

    def note(self, line: Line, *, now: float) -> None:
        """Record one event of the watch."""
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
        """Whether the run is over."""
        if self._until is Until.BOUND:
            return self._bound >= self._expected
        return self._answered >= self._expected and now - self._news_at >= QUIET_S

    def is_complete(self, *, now: float) -> bool:
        """Whether the run is over and all bound pods were observed running, or had enough time."""
        everyone_runs = self._running >= self._bound or now - self._news_at >= RUNNING_WAIT_S
        return self.is_met(now=now) and everyone_runs


def _refuses(condition: Condition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "False" and condition.reason != GATED
