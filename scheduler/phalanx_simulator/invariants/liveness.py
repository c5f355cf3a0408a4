"""L1 to L4, L9, L11: feasible gangs run, no gang starves, and waiting gangs have a reason."""

from typing import Final

from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.decisions import CycleResult
from phalanx.model.names import GangId, PodUid
from phalanx.model.reasons import Reason
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, ChangeType, Key
from phalanx_simulator.invariants.bounds import (
    CONVERGED_S,
    CYCLES_AT_REST_MAX,
    EVICTED_EXTRA_MAX,
    EVICTED_PER_MEMBER_MAX,
    EVICTIONS_MAX,
    HEALED_S,
    IDLE_S,
    STARVING_CYCLES,
    STARVING_GANGS,
    STARVING_PERIOD_S,
)
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import CLAIM_KINDS
from phalanx_simulator.invariants.facts import GangKey, GroupFact, PodFact, node_fact
from phalanx_simulator.invariants.held_capacity import HeldNodes
from phalanx_simulator.invariants.native_groups import GROUPS, OF_DIALECTS, is_of_dialect
from phalanx_simulator.invariants.oracle import Oracle
from phalanx_simulator.invariants.truth import NODES, GangFact, Truth

_REASONS: Final = frozenset(reason.value for reason in Reason)
_ONE_EVICTION_S: Final = 10.0
_RELEVANT: Final = ("pods", NODES, GROUPS, *OF_DIALECTS, *CLAIM_KINDS)
_REPORTED_S: Final = 10.0


def any_hold(truth: Truth, now: float, *, excluding: GangKey | None = None, led_since: float = 0.0) -> bool:
    """Whether a broken gang other than `excluding` may hold capacity that looks free.

    Under a new leader every hold starts again.
    """
    oldest = now - CAPACITY_HOLD_MS / 1000 - HEALED_S
    return any(max(since, led_since) > oldest and key != excluding for key, since in truth.broken.items())


class FeasibleGangsRun(Check):
    """L1: at rest no gang waits whose minimum certainly fits; L2: the same for broken gangs.

    The check does nothing if capacity has just appeared, and it ignores nodes with capacity held for others.
    """

    name = "L1"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._oracle = Oracle(context.store, truth)
        self._held_nodes = HeldNodes(truth, context.clock.monotonic)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._held_nodes.take(host, result)

    def at_rest(self) -> None:
        if self.truth.has_capacity_appeared(CONVERGED_S):
            return
        is_any_hold = any_hold(self.truth, self.now)
        for gang in self.truth.our_gangs():
            is_broken = gang.has_started or gang.active > 0
            held = self._held_nodes.nodes(excluding=gang)
            why = "" if is_any_hold and not is_broken else self._oracle.where_it_fits(gang, without=held)
            if why:
                self.violated(gang, f"waits although {why}", check="L2" if is_broken else "")


class NoStarvation(Check):
    """L3, L9: a gang that certainly fits is bound within STARVING_CYCLES cycles of an undisturbed leader.

    Every STARVING_PERIOD_S it checks the STARVING_GANGS that have waited longest. A gang starves that fits in
    two checks with STARVING_CYCLES cycles of one leader with a healthy connection in between, or that fits
    for IDLE_S without any cycle. Recovered and uncordoned nodes count as capacity; nodes with capacity held
    for others do not. The check does nothing while a third of the nodes has turned bad within the breaker's
    window or another broken gang may hold capacity, and ignores broken gangs that may be restarted.
    """

    name = "L3"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._oracle = Oracle(context.store, truth)
        self._held_nodes = HeldNodes(truth, context.clock.monotonic)
        self._next = STARVING_PERIOD_S
        self._fitted: dict[GangKey, tuple[int, float]] = {}
        self._cycles = 0
        self._leader = ""
        self._led_since = 0.0

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if host != self._leader:
            self._leader = host
            self._led_since = self.now
            self._fitted = {}
        self._cycles += 1
        self._held_nodes.take(host, result)

    def on_tick(self) -> None:
        if self.now < self._next:
            return
        self._next = self.now + STARVING_PERIOD_S
        before, self._fitted = self._fitted, {}
        if self.truth.healthy_s(self._leader) < HEALED_S or self.truth.breaker_may_be_open:
            return
        for gang in self._longest_waiting():
            is_any_hold = any_hold(self.truth, self.now, excluding=gang.key, led_since=self._led_since)
            is_excused = is_any_hold or (gang.has_started and self._restarts(gang))
            held = self._held_nodes.nodes(excluding=gang)
            why = "" if is_excused else self._oracle.where_it_fits(gang, without=held)
            if not why:
                continue
            first = self._fitted[gang.key] = before.get(gang.key, (self._cycles, self.now))
            cycles, seconds = self._cycles - first[0], self.now - first[1]
            if cycles >= STARVING_CYCLES:
                self.violated(gang, f"starves for {cycles} cycles although {why}")
            elif not cycles and seconds > IDLE_S:
                self.violated(gang, f"no cycle has run for {seconds:.0f} s although {why}")

    def _restarts(self, gang: GangFact) -> bool:
        """Whether it may wait for the eviction of its other members."""
        group = self.truth.group_of(gang.key)
        return group is not None and "Restart" in (group.spec.get("recovery") or {}).values()

    def _longest_waiting(self) -> list[GangFact]:
        """Waiting gangs in order of arrival of their pods."""
        found: list[GangFact] = []
        for gang in self.truth.gangs.values():
            if gang.active < self.truth.min_member(gang.key):
                found.append(gang)
                if len(found) == STARVING_GANGS:
                    break
        return found


class NoEndlessEvictions(Check):
    """L4: no gang is evicted more than EVICTIONS_MAX times without running in between.

    Until a gang starts, at most EVICTED_PER_MEMBER_MAX pods per member of its minimum and EVICTED_EXTRA_MAX
    more are evicted for it. Evictions of several members within ten seconds count once. Evictions from bad
    nodes do not count, since faults cause them, and neither do repeated evictions of one pod.
    """

    name = "L4"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._evicted: dict[GangKey, list[float]] = {}
        self._pods: set[str] = set()
        self._evicted_for: dict[GangId, set[PodUid]] = {}

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        for placement in result.placements:
            self._evicted_for.pop(placement.gang, None)
        helped = {str(gang): gang for gang in snapshot.gangs.values()} if result.evictions else {}
        for eviction in result.evictions:
            gang = helped.get(eviction.beneficiary)
            if gang is None:
                continue
            gone = self._evicted_for.setdefault(gang.id, set())
            gone.add(eviction.pod)
            if len(gone) > gang.min_member * EVICTED_PER_MEMBER_MAX + EVICTED_EXTRA_MAX:
                self.violated(
                    gang, f"waits after {len(gone)} pods were evicted for its {gang.min_member} members"
                )

    def on_change(self, change: Change) -> None:
        moved = self.truth.changed_pod
        if moved is None or moved.after is None or moved.after.phase != "Running":
            return
        key = moved.after.gang
        if key in self._evicted and self._runs(key):
            del self._evicted[key]

    def on_call(self, call: Call) -> None:
        if not call.is_eviction or call.stage is not Stage.LANDED or not call.succeeded:
            return
        pod = self.truth.pods.get(call.uid)
        if pod is None or pod.node in self.truth.bad_nodes or call.uid in self._pods:
            return
        self._pods.add(call.uid)
        times = self._evicted.setdefault(pod.gang, [])
        if not times or self.now > times[-1] + _ONE_EVICTION_S:
            times.append(self.now)
            if len(times) > EVICTIONS_MAX:
                self.violated(
                    f"{pod.gang.namespace}/{pod.gang.name}",
                    f"evicted {len(times)} times without running in between",
                )

    def _runs(self, key: GangKey) -> bool:
        running = sum(pod.phase in ("Running", "Succeeded") for pod in self.truth.members(key))
        return running >= self.truth.min_member(key)


class WaitingIsExplained(Check):
    """L11: at rest every waiting gang has a known reason, and no cycle runs without need.

    The reason is in the status of a PodGroup and in the PodScheduled condition of a pod, except for pods with
    scheduling gates. At most CYCLES_AT_REST_MAX cycles run in a minute without a change of a pod, a node or a
    PodGroup; a node's heartbeat is not a change.
    """

    name = "L11"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._changed_at = 0.0
        self._needless_cycles: list[float] = []

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource in _RELEVANT and not _is_heartbeat(change):
            self._changed_at = self.now
            self._needless_cycles.clear()

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if self.now < self._changed_at + _REPORTED_S:
            return
        self._needless_cycles = [at for at in self._needless_cycles if at > self.now - 60.0]
        self._needless_cycles.append(self.now)
        if len(self._needless_cycles) > CYCLES_AT_REST_MAX:
            self.violated(host, f"{len(self._needless_cycles)} cycles within a minute without any change")
            self._needless_cycles.clear()

    def at_rest(self) -> None:
        for gang in self.truth.our_gangs():
            waiting = [pod for pod in self.truth.members(gang.key) if pod.is_waiting and not pod.is_gated]
            if waiting and all(pod.is_ours for pod in waiting) and self._is_old(waiting):
                self._check(gang, waiting)

    def _is_old(self, waiting: list[PodFact]) -> bool:
        before = self.truth.revision_before(_REPORTED_S)
        return all(self.truth.pod_created_at(pod.uid) <= before for pod in waiting)

    def _check(self, gang: GangFact, waiting: list[PodFact]) -> None:
        reasons = [self._reason_of(pod) for pod in waiting]
        group = self.truth.group_of(gang.key)
        if (
            group is not None
            and not is_of_dialect(group.name)
            and any(_is_member(pod, group) for pod in waiting)
        ):
            entry = self.context.store.get(Key(GROUPS, group.namespace, group.name))
            status = (entry.data.get("status") or {}) if entry is not None else {}
            reasons.append(status.get("reason") or "")
        for reason in reasons:
            if reason not in _REASONS:
                self.violated(gang, f"waits with the unknown reason {reason!r}")
                return

    def _reason_of(self, pod: PodFact) -> str:
        """The reason with which the message of the pod's condition begins."""
        entry = self.context.store.get(self.truth.key_of(pod))
        status = (entry.data.get("status") or {}) if entry is not None else {}
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return str(condition.get("message") or "").partition(":")[0]
        return ""


def _is_member(pod: PodFact, group: GroupFact) -> bool:
    """Whether the group's controller owns the pod; the group's status covers no other pods."""
    return not group.controller or group.controller in pod.owners


def _is_heartbeat(change: Change) -> bool:
    """Whether a node write changes nothing that matters."""
    before = change.previous
    if change.entry.key.resource != NODES or before is None or change.type is not ChangeType.MODIFIED:
        return False
    return node_fact(before.data) == node_fact(change.entry.data)
