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

from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.config import Positive
from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
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


class Priority(Plugin):
    """A larger number goes first."""

    name = "priority"
    Arguments = PriorityArguments

    def __init__(self, arguments: PriorityArguments) -> None:
        self._ageing = arguments.ageing
        self._now = 0
        self._nominated: frozenset[GangId] = frozenset()

    def open(self, view: SessionView) -> None:
        """The time, and who has a claim that age must not pass."""
        self._now = view.now // 1000
        nominations = view.memory.nominations
        self._nominated = frozenset(gang for gang, each in nominations.items() if each.seats)

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """Higher priority first; with ageing, the priority as which the gang is served."""
        ageing = self._ageing
        if ageing is None or gang.priority >= ageing.up_to:
            return GangOrder(rank=-gang.priority)
        served_as = self._served_as(gang, ageing)
        return GangOrder(rank=-served_as, changes_at=self._next_step(gang, ageing, served_as))

    def _next_step(self, gang: Gang, ageing: Ageing, served_as: int) -> int | None:
        """When its next step comes, in milliseconds."""
        since = _waits_since(gang)
        if since is None or served_as >= ageing.up_to or _has_minimum(gang):
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
