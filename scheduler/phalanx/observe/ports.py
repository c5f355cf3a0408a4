"""What other packages report while they work, as protocols; `Metrics` implements all of them."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from phalanx.model.decisions import CycleResult, Placement


class LimitReports(Protocol):
    """Reports of reached bounds."""

    def limit_hit(self, limit: str) -> None:
        """Report a bound that was reached. `limit` is the name of the constant in limits.py."""
        ...


class WatchReports(Protocol):
    """Reports of lists and watches. `kind` is the name of the kind."""

    def watch_event_received(self, kind: str) -> None:
        """Report that an event or a bookmark has arrived."""
        ...

    def watch_failed(self, kind: str, *, error: str) -> None:
        """Report a failed list or watch, which is retried. `error` is the type of the exception."""
        ...

    def relisted(self, kind: str, *, objects: int) -> None:
        """Report that a complete list was delivered."""
        ...

    def object_unreadable(self, kind: str) -> None:
        """Report that one version of one object could not be decoded."""
        ...


class WriteReports(LimitReports, Protocol):
    """Reports of writes."""

    def bind_finished(self, outcome: str, *, seconds: float) -> None:
        """Report the outcome of a bind: bound, refused, aborted or leadership-lost.

        `seconds` count from the first request, and are 0 when none was sent.
        """
        ...

    def bind_retried(self, error: str) -> None:
        """Report a bind that is retried. `error` is the type of the exception."""
        ...

    def write_finished(self, write_type: str, outcome: str) -> None:
        """Report the end of an event, status or eviction: written, refused, gave-up, fenced or dropped."""
        ...

    def writes_pending(self, write_type: str, count: int) -> None:
        """Report how many binds, evictions, events or status writes are queued or in flight."""
        ...


class LeaseReports(Protocol):
    """Reports of leader election."""

    def lease_renewed(self, *, delay_s: float) -> None:
        """Report a renewal. `delay_s`: seconds by which it came later than planned."""
        ...

    def leadership_changed(self, *, leading: bool) -> None:
        """Report that this replica started or stopped leading."""
        ...


class ConfigReports(Protocol):
    """Reports of the configuration file."""

    def config_read(self, *, is_used: bool) -> None:
        """Report that a changed file is used, or that the file was refused."""
        ...


class Wait(Struct, frozen=True):
    """A gang waited for this from then on, until the next wait or the decision."""

    since_ms: int
    reason: str
    message: str


class GangStart(Struct, frozen=True):
    """A gang has started: all binds of a placement with the cause "start" are done.

    Times are in milliseconds since the epoch.
    """

    placement: Placement
    queue: str
    created_ms: int
    """When the gang was created; of a gang that starts over, its oldest pod."""
    decided_ms: int
    bound_ms: int
    waits: tuple[Wait, ...] = ()
    """What it waited for, if that is recorded."""


class StartReports(Protocol):
    """Reports of starts and binds, as the cache sees them."""

    def gang_started(self, start: GangStart) -> None:
        """Report that the last pod of a start is bound."""
        ...

    def bind_confirmed(self, *, seconds: float) -> None:
        """Report that the watch shows a bind, and how long after the answer to the bind."""
        ...


class ClusterFigures(Struct, frozen=True):
    """Sums over the cluster, computed when metrics are read."""

    nodes: Mapping[str, int] = {}
    """By state: ready, cordoned or not-ready."""
    allocatable: Mapping[str, int] = {}
    free: Mapping[str, int] = {}
    """On ready nodes."""
    free_on_empty_nodes: Mapping[str, int] = {}
    """The part of it on nodes of which the whole amount is free."""
    waiting: Mapping[tuple[str, ...], int] = {}
    """Gangs by queue and reason."""
    degraded: Mapping[tuple[str, ...], int] = {}
    """Gangs by queue that have started and have fewer members than their minimum."""


class CycleReports(Protocol):
    """Reports of cycles."""

    def cycle_finished(self, result: CycleResult, *, seconds: float) -> None:
        """Report the result of a cycle and how long it took."""
        ...
