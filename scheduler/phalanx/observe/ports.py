"""What other rooms report while they work, as protocols: they measure, this room decides how to show it."""

from typing import Protocol

from phalanx.model.decisions import CycleResult


class LimitReports(Protocol):
    """Whoever works under a bound of limits.py says when it is hit."""

    def limit_hit(self, limit: str) -> None:
        """`limit` is the constant's name in limits.py."""
        ...


class WatchReports(Protocol):
    """How well the cluster is seen. `kind` is a kind's name."""

    def watch_event_received(self, kind: str) -> None:
        """An event or a bookmark has arrived."""
        ...

    def watch_failed(self, kind: str, *, why: str) -> None:
        """A list or a watch has failed and will be tried again. `why` is an exception's type."""
        ...

    def relisted(self, kind: str, *, objects: int) -> None:
        """A complete list has been delivered."""
        ...

    def object_unreadable(self, kind: str) -> None:
        """One version of one object could not be decoded."""
        ...


class WriteReports(LimitReports, Protocol):
    """What became of writes."""

    def bind_finished(self, outcome: str, *, seconds: float) -> None:
        """`outcome`: bound, refused, given-back or lost. `seconds` from the first send, 0 when never sent."""
        ...

    def bind_retried(self, why: str) -> None:
        """A bind is tried again. `why` is an exception's type."""
        ...

    def written(self, what: str, outcome: str) -> None:
        """`what`: event, status or eviction. `outcome`: written, refused, gave-up, fenced or dropped."""
        ...

    def waiting(self, what: str, count: int) -> None:
        """How many writes of this kind wait or are under way: bind, eviction, event, status."""
        ...


class LeaseReports(Protocol):
    """How leadership goes."""

    def lease_renewed(self, *, late_s: float) -> None:
        """Seconds by which the renewal came later than planned."""
        ...

    def leading(self, yes: bool) -> None:
        """Leadership has begun or ended."""
        ...


class CycleReports(Protocol):
    """What the scheduler decides."""

    def cycle_finished(self, result: CycleResult, *, seconds: float) -> None:
        """`seconds` from the question to the answer."""
        ...
