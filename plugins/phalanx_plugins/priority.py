"""Serves gangs of higher priority first, within their queue.

A PodGroup's priority governs that of its pods. Surplus members of a gang go before the minimums of gangs of
lower priority, and after those of equal priority.

With `ageing` in its arguments, a gang that waits to start is served as if its priority were higher by `step`
for every `everySeconds` since the oldest of its pods that wait was made, up to the priority `upTo` and no
further. Whoever is at `upTo` by age goes by age, so no endless stream of gangs of priorities up to `upTo`
keeps one waiting for ever; gangs of higher priority are never passed. A bound that each gang has of its own
would not do: those of the stream that wait grow older too.

Age counts for who is served first. It does not count for who may be evicted for whom, and a gang that was
served first may be evicted like any other of its priority (`disruption.minRuntime` keeps it a while). A gang
that has its minimum, and so its surplus, does not age. One that lacks members of it while others run, or for
which room is being made, is served as if it had waited long enough, so that age passes neither. One that was
evicted begins to wait anew, with its new pods.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct
from phalanx.framework.config import Positive
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId

Value = Annotated[int, Meta(ge=-(2**31), le=10**9)]
"""As PriorityClasses may have it."""


class Ageing(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`step` of priority for every so many seconds, up to the priority `up_to`."""

    every_seconds: Positive
    step: Positive
    up_to: Value


class PriorityArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Without `ageing` nobody's age counts: what a step should be depends on the PriorityClasses in use."""

    ageing: Ageing | None = None


class Priority:
    """A larger number goes first."""

    name: Final = "priority"
    Arguments = PriorityArguments

    def __init__(self, arguments: PriorityArguments) -> None:
        self._ageing = arguments.ageing
        self._now = 0
        self._nominated: frozenset[GangId] = frozenset()
        self._reached: dict[GangId, int] = {}

    def open(self, session: Session) -> None:
        """The time, and who has a claim that age must not pass."""
        self._now = session.snapshot.now // 1000
        nominations = session.snapshot.memory.nominations
        self._nominated = frozenset(gang for gang, each in nominations.items() if each.seats)

    def gang_rank(self, gang: Gang) -> int:
        """Smaller comes first."""
        if self._ageing is None or gang.priority >= self._ageing.up_to:
            return -gang.priority
        if gang.id not in self._reached:
            self._reached[gang.id] = self._served_as(gang, self._ageing)
        return -self._reached[gang.id]

    def rank_changes_at(self, gang: Gang) -> int | None:
        """When its next step comes, in milliseconds."""
        since = _waits_since(gang)
        ageing = self._ageing
        if ageing is None or since is None or -self.gang_rank(gang) >= ageing.up_to or _has_minimum(gang):
            return None
        return (since + ageing.every_seconds * (self._steps(since, ageing) + 1)) * 1000

    def _served_as(self, gang: Gang, ageing: Ageing) -> int:
        since = _waits_since(gang)
        if gang.id in self._nominated:
            return ageing.up_to
        if _has_minimum(gang):
            return gang.priority
        if gang.active:
            return ageing.up_to
        if since is None:
            return gang.priority
        return min(ageing.up_to, gang.priority + ageing.step * self._steps(since, ageing))

    def _steps(self, since: int, ageing: Ageing) -> int:
        """None yet for a pod that was made later than it is now, by another clock."""
        return max(0, self._now - since) // ageing.every_seconds


def _waits_since(gang: Gang) -> int | None:
    """In seconds; None where nobody knows. Pods that are made anew after an eviction begin to wait then."""
    return min((pod.created for pod in gang.members if pod.is_waiting and pod.created), default=None)


def _has_minimum(gang: Gang) -> bool:
    return gang.minimum.is_reached([pod for pod in gang.members if pod.counts_for_gang])
