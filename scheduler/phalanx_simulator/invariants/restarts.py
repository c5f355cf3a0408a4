"""L13: a restart that was decided reaches all members, also after a change of the leader."""

from typing import Final

from msgspec import Struct
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, Object
from phalanx_simulator.invariants.bounds import RESTART_ENDS_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import GangKey, GroupFact, PodFact
from phalanx_simulator.invariants.truth import Truth

RESTARTED: Final = "GangRestarted"
_RESTART: Final = "Restart"
_PERIOD_S: Final = 10.0


class _Chosen(Struct, frozen=True):
    """A member chosen for restart by `host`, which is empty once the pod carries the condition."""

    at: float
    group: str
    host: str = ""


class RestartsComplete(Check):
    """L13: a member that is to be restarted is deleted within RESTART_ENDS_S.

    Such a member carries the DisruptionTarget condition of a restart, or a cycle chose it and its process has
    been undisturbed since. The time starts again while the leader is disturbed or the breaker may be open,
    and at each failed write about the gang's pods. The check ignores gangs that no longer request a restart,
    are finishing, or have a member on a node without a controller. It also ignores members whose PodGroup was
    recreated or whose label has moved them to another gang since.
    """

    name = "L13"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._chosen: dict[str, _Chosen] = {}
        self._disturbed_at_by_gang: dict[GangKey, float] = {}
        self._disturbed_at = 0.0
        self._host = ""
        self._next = _PERIOD_S

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._host = host
        for eviction in result.evictions:
            if eviction.reason == RESTARTED and eviction.pod not in self._chosen:
                self._chosen[eviction.pod] = _Chosen(self.now, eviction.gang, host)

    def on_change(self, change: Change) -> None:
        moved = self.truth.changed_pod
        if moved is None:
            return
        pod, known = moved.pod, self._chosen.get(moved.pod.uid)
        if moved.after is None or not pod.holds_node or pod.is_deleting:
            self._chosen.pop(pod.uid, None)
        elif has_restart_condition(change.entry.data):
            group = self.truth.group_of(pod.gang)
            if group is not None and (known is None or known.host):
                self._chosen[pod.uid] = _Chosen(self.now, group.uid)
        elif known is not None and not known.host:
            del self._chosen[pod.uid]

    def on_call(self, call: Call) -> None:
        if call.is_write and call.stage is Stage.ANSWERED and not call.answered_ok and call.plural == "pods":
            pod = self.truth.pods.get(call.uid)
            if pod is not None:
                self._disturbed_at_by_gang[pod.gang] = self.now

    def on_tick(self) -> None:
        if self.truth.breaker_may_be_open or not self.truth.healthy_s(self._host):
            self._disturbed_at = self.now
        if self.now < self._next:
            return
        self._next = self.now + _PERIOD_S
        for uid, chosen in list(self._chosen.items()):
            pod = self.truth.pods.get(uid)
            if pod is None or pod.is_deleting or not self._is_known(pod, chosen):
                del self._chosen[uid]
            elif self._is_overdue(pod, chosen):
                del self._chosen[uid]
                self.violated(
                    pod, f"still on {pod.node} {self.now - chosen.at:.0f} s after its restart was decided"
                )

    def _is_known(self, pod: PodFact, chosen: _Chosen) -> bool:
        """Whether a new leader can see the choice, or the process that made it was undisturbed since."""
        has_failed = self._disturbed_at_by_gang.get(pod.gang, 0.0) > chosen.at
        is_calm = self.truth.healthy_s(chosen.host) > self.now - chosen.at and not has_failed
        return not chosen.host or is_calm

    def _is_overdue(self, pod: PodFact, chosen: _Chosen) -> bool:
        group = self.truth.group_of(pod.gang)
        if group is None or group.uid != chosen.group or not self._is_requested(pod, group):
            return False
        since = max(chosen.at, self._disturbed_at, self._disturbed_at_by_gang.get(pod.gang, 0.0))
        return self.now - since > RESTART_ENDS_S

    def _is_requested(self, pod: PodFact, group: GroupFact) -> bool:
        policy = group.spec.get("recovery") or {}
        if _RESTART not in (policy.get("onMemberFailure"), policy.get("onNodeLoss")):
            return False
        members = list(self.truth.members(pod.gang))
        is_held = any(other.holds_node and not other.controller for other in members)
        return not is_held and not any(other.phase == "Succeeded" for other in members)


def has_restart_condition(pod: Object) -> bool:
    """Whether the pod carries the condition of a restart."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "DisruptionTarget"
        and condition.get("status") == "True"
        and condition.get("reason") == RESTARTED
        for condition in conditions
    )
