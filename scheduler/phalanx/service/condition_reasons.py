"""Which reason the condition PodScheduled of waiting pods has: `Unschedulable` asks autoscalers for nodes.

It is said only if new nodes may let the gang start, for all waiting members at once, and after such a verdict
has stood for some seconds: capacity that is about to become free must not buy nodes. Surplus members say it
if their PodGroup asks for that.
"""

from typing import Final

from phalanx.clock import Clock
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pod_conditions import NewNodes, effect_of_new_nodes
from phalanx.model.pods import Pod
from phalanx.model.reasons import UNSCHEDULABLE, Verdict
from phalanx.service.later_reports import Plan

UNSCHEDULABLE_AFTER_S: Final = 10.0
"""Seconds for which new nodes must help before pods say so: capacity often becomes free in this time."""


class ConditionReasons:
    """Since when new nodes help each waiting gang."""

    def __init__(self, clock: Clock, plan: Plan, *, is_compatible: bool) -> None:
        """`plan`: see `LaterReports`. `is_compatible`: always `Unschedulable`."""
        self._clock = clock
        self._plan = plan
        self.is_compatible = is_compatible
        self._since: dict[GangId, float] = {}
        """Monotonic seconds; for gangs whose pods said it before this scheduler, long ago."""

    @property
    def gangs(self) -> frozenset[GangId]:
        return frozenset(self._since)

    def forget(self, gang: GangId) -> None:
        self._since.pop(gang, None)

    def of(self, gang: Gang, verdict: Verdict) -> str:
        """The reason for all waiting members; the gang is reported again when it may change by itself."""
        if self.is_compatible:
            return UNSCHEDULABLE
        effect = effect_of_new_nodes(verdict.reason)
        is_surplus = not gang.spec.surplus_adds_nodes and _waits_with_surplus_only(gang)
        if effect is NewNodes.DO_NOT_HELP or is_surplus:
            self.forget(gang.id)
            return verdict.reason.value
        if effect is NewNodes.NOT_KNOWN and gang.id not in self._since:
            return verdict.reason.value
        due = self._since.setdefault(gang.id, self._began(gang)) + UNSCHEDULABLE_AFTER_S
        if due <= self._clock.monotonic():
            return UNSCHEDULABLE
        self._plan(gang.id, due)
        return verdict.reason.value

    def _began(self, gang: Gang) -> float:
        """Pods that say it already keep it: an earlier leader has seen the verdict stand."""
        now = self._clock.monotonic()
        return now - UNSCHEDULABLE_AFTER_S if any(map(_is_unschedulable, gang.members)) else now


def _is_unschedulable(pod: Pod) -> bool:
    return pod.is_waiting and pod.scheduled is not None and pod.scheduled.reason == UNSCHEDULABLE


def _waits_with_surplus_only(gang: Gang) -> bool:
    return gang.minimum.is_reached(gang.counted)
