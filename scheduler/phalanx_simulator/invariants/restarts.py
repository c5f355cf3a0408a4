"""L13: a decided restart is carried out on all members, whichever replica leads."""

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
_LOOK_S: Final = 10.0


class _Chosen(Struct, frozen=True):
    """A member chosen for restart.

    `host` chose it; it is empty once the pod carries the condition.
    """

    at: float
    group: str
    host: str = ""


class RestartsComplete(Check):
    """L13: a member of a restarting gang gives up its node within RESTART_ENDS_S.

    DisruptionTarget tells it. Who was chosen and not told counts while the process that chose it goes on
    without a disturbance. The time counts anew while the leader is disturbed, while the breaker may be open,
    and from each write about the gang that failed. A gang that asks for no restart any more, or is finishing,
    or has a member without a controller that holds a node, is left as it is; so are members whose PodGroup
    was made anew, or whose label has moved them, since.
    """

    name = "L13"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._chosen: dict[str, _Chosen] = {}
        self._disturbed_at_by_gang: dict[GangKey, float] = {}
        self._disturbed_at = 0.0
        self._host = ""
        self._next = _LOOK_S

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
        self._next = self.now + _LOOK_S
        for uid, chosen in list(self._chosen.items()):
            pod = self.truth.pods.get(uid)
            if pod is None or pod.is_deleting or not self._is_known(pod, chosen):
                del self._chosen[uid]
            elif self._must_be_gone(pod, chosen):
                del self._chosen[uid]
                self.violated(pod, f"holds {pod.node} {self.now - chosen.at:.0f} s after its restart began")

    def _is_known(self, pod: PodFact, chosen: _Chosen) -> bool:
        """Whether a new leader can see it, or the one that chose it was never disturbed."""
        has_failed = self._disturbed_at_by_gang.get(pod.gang, 0.0) > chosen.at
        is_calm = self.truth.healthy_s(chosen.host) > self.now - chosen.at and not has_failed
        return not chosen.host or is_calm

    def _must_be_gone(self, pod: PodFact, chosen: _Chosen) -> bool:
        group = self.truth.group_of(pod.gang)
        if group is None or group.uid != chosen.group or not self._is_asked_for(pod, group):
            return False
        since = max(chosen.at, self._disturbed_at, self._disturbed_at_by_gang.get(pod.gang, 0.0))
        return self.now - since > RESTART_ENDS_S

    def _is_asked_for(self, pod: PodFact, group: GroupFact) -> bool:
        wish = group.spec.get("recovery") or {}
        if _RESTART not in (wish.get("onMemberFailure"), wish.get("onNodeLoss")):
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
