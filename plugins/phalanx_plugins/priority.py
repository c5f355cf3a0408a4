"""Serves gangs of higher priority first, within their queue.

The priority of a PodGroup overrides that of its pods. Surplus members of a gang go before gangs of lower
priority, and after the minimums of gangs of equal priority.

With the argument `ageing`, a gang that waits to start is served as if its priority were higher by `step` for
every `everySeconds` that it waits (see the plugin `fifo`), up to the priority `upTo`. Gangs that reach
`upTo` by age are ordered by age, so that an endless stream of gangs of priorities up to `upTo` delays no gang
for ever. Gangs of priority above `upTo` are always served first. A separate maximum per gang would not work,
since the gangs of the stream age as well.

Age changes the order only, not preemption: a gang that started by age may be evicted like any other gang of
its priority (`disruption.minRuntime` protects it for some time). A gang that has its minimum does not age,
and neither do its surplus members. A gang that lacks lost members of its minimum while others run, or that
has nominated capacity, is served as if it had reached `upTo`, so that no gang overtakes it by age.
"""

from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.config import Positive
from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId

Value = Annotated[int, Meta(ge=-(2**31), le=10**9)]
"""The range of PriorityClass values."""


class Ageing(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`step` of priority for every `every_seconds`, up to the priority `up_to`."""

    every_seconds: Positive
    """The time after which the priority grows by one step."""
    step: Positive
    """The increase of the priority in one step."""
    up_to: Value
    """The priority up to which gangs age. Age never passes a higher priority."""


class PriorityArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """No ageing by default, since a sensible step depends on the PriorityClasses in use."""

    ageing: Ageing | None = None
    """With it, waiting gangs are served as if their priority grew with time."""


class Priority(Plugin):
    """A gang with a larger number is served first."""

    name = "priority"
    Arguments = PriorityArguments

    def __init__(self, arguments: PriorityArguments) -> None:
        self._ageing = arguments.ageing
        self._now = 0
        self._nominated: frozenset[GangId] = frozenset()

    def open(self, view: SessionView) -> None:
        """Note the time, and the gangs with nominated capacity."""
        self._now = view.now // 1000
        nominations = view.memory.nominations
        self._nominated = frozenset(gang for gang, nomination in nominations.items() if nomination.usage)

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """Higher priority first; with ageing, the priority as which the gang is served."""
        ageing = self._ageing
        if ageing is None or gang.priority >= ageing.up_to:
            return GangOrder(rank=-gang.priority)
        since = _waits_since(gang, view)
        served_as = self._served_as(gang, ageing, since, view)
        return GangOrder(rank=-served_as, changes_at=self._next_step(gang, ageing, served_as, since))

    def _next_step(self, gang: Gang, ageing: Ageing, served_as: int, since: int | None) -> int | None:
        """The time (ms) of the next step; None if there is none."""
        if since is None or served_as >= ageing.up_to or _has_minimum(gang):
            return None
        return (since + ageing.every_seconds * (self._steps(since, ageing) + 1)) * 1000

    def _served_as(self, gang: Gang, ageing: Ageing, since: int | None, view: SessionView) -> int:
        if gang.id in self._nominated:
            return ageing.up_to
        if _has_minimum(gang):
            return gang.priority
        if _lacks_only_lost_members(gang, view):
            return ageing.up_to
        if since is None:
            return gang.priority
        return min(ageing.up_to, gang.priority + ageing.step * self._steps(since, ageing))

    def _steps(self, since: int, ageing: Ageing) -> int:
        """The steps so far; none for a pod whose creation time is in the future by another clock."""
        return max(0, self._now - since) // ageing.every_seconds


def _waits_since(gang: Gang, view: SessionView) -> int | None:
    """Since when (s) the gang waits; None if unknown, or if no pod of it waits."""
    return (view.records.queued_since(gang) or None) if gang.has_waiting else None


def _lacks_only_lost_members(gang: Gang, view: SessionView) -> bool:
    record = view.records.of(gang)
    return record.has_members and sum(record.places.values()) >= gang.min_member - gang.active


def _has_minimum(gang: Gang) -> bool:
    return gang.minimum.is_reached(gang.counted)
