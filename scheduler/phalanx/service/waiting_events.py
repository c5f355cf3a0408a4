"""Who is informed that a gang waits: the gang at each change of the reason, its pods if the reason stays.

Verdicts change with every batch of pods that a controller creates, and with every search for advice. A gang
of a thousand pods must not cost thousands of events each time; the conditions of its pods have the message.
"""

from typing import Final

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason, Verdict
from phalanx.service.later_reports import Plan

MEMBERS_AWAITED_S: Final = 5.0
"""Seconds in which a controller may create members before anybody is informed that some are missing."""

ADVICE_AWAITED_S: Final = 3.0
"""Seconds in which a search for advice may end before the pods of the gang are informed without it."""

POD_EVENT_AFTER_S: Final = 30.0
"""Seconds that a reason stays before pods get an event: `kubectl describe pod` shows it then."""

POD_EVENTS_MAX: Final = 64
"""Pods of one gang that get an event. All pods of a gang wait for the same reason."""


class _Standing(Struct):
    """The reason for which a gang waits, since when, and who was informed."""

    reason: Reason
    since: float
    """Monotonic seconds."""
    has_event: bool = False
    told: set[PodUid] = set()


class WaitingEvents:
    """The reasons for which gangs wait, by gang."""

    def __init__(self, clock: Clock, plan: Plan) -> None:
        """`plan`: see `LaterReports`."""
        self._clock = clock
        self._plan = plan
        self._standing: dict[GangId, _Standing] = {}

    @property
    def gangs(self) -> frozenset[GangId]:
        return frozenset(self._standing)

    def forget(self, gang: GangId) -> None:
        self._standing.pop(gang, None)

    def is_settled(self, verdict: Verdict) -> bool:
        """Whether the verdict may be reported now; else the gang is reported again when it may."""
        standing = self._standing.get(verdict.gang)
        if standing is None or standing.reason is not verdict.reason:
            standing = _Standing(verdict.reason, self._clock.monotonic())
            self._standing[verdict.gang] = standing
        delay = ADVICE_AWAITED_S if verdict.lacks_advice else 0.0
        if verdict.reason is Reason.MEMBERS_MISSING:
            delay = MEMBERS_AWAITED_S
        return self._has_passed(verdict.gang, standing, delay)

    def is_new(self, verdict: Verdict) -> bool:
        """Whether the gang gets an event for this reason: once, after `is_settled`."""
        standing = self._standing[verdict.gang]
        is_new, standing.has_event = not standing.has_event, True
        return is_new

    def pods_to_tell(self, gang: Gang, verdict: Verdict) -> list[Pod]:
        """The pods that get an event now; they count as told."""
        standing = self._standing[verdict.gang]
        waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
        left = POD_EVENTS_MAX - len(standing.told)
        new = [pod for pod in waiting if pod.uid not in standing.told][: max(left, 0)]
        if not new or not self._has_passed(gang.id, standing, POD_EVENT_AFTER_S):
            return []
        standing.told |= {pod.uid for pod in new}
        return new

    def told(self, verdict: Verdict, pod: Pod) -> None:
        """Note that a pod got its event already."""
        self._standing[verdict.gang].told.add(pod.uid)

    def _has_passed(self, gang: GangId, standing: _Standing, delay: float) -> bool:
        due = standing.since + delay
        if due <= self._clock.monotonic():
            return True
        self._plan(gang, due)
        return False
