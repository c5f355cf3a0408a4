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
    EVICTED_BESIDE_MAX,
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
from phalanx_simulator.invariants.facts import GangKey, GroupFact, PodFact, node_fact
from phalanx_simulator.invariants.held_capacity import HeldNodes
from phalanx_simulator.invariants.oracle import Oracle
from phalanx_simulator.invariants.truth import GROUPS, NODES, GangFact, Truth

_REASONS: Final = frozenset(reason.value for reason in Reason)
_ONE_EVICTION_S: Final = 10.0
_RELEVANT: Final = ("pods", NODES, GROUPS)
_REPORTED_S: Final = 10.0


def any_hold(truth: Truth, now: float, *, but: GangKey | None = None, led_since: float = 0.0) -> bool:
    """Whether another broken gang may hold capacity that looks free.

    To a new leader every claim begins anew.
    """
    oldest = now - CAPACITY_HOLD_MS / 1000 - HEALED_S
    return any(max(since, led_since) > oldest and key != but for key, since in truth.broken.items())


class FeasibleGangsRun(Check):
    """L1: at rest no gang waits for a minimum that certainly fits; L2: nor a broken one.

    Nobody is judged where room came back only a moment ago, nor on nodes where room is kept for others.
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
        is_claimed = any_hold(self.truth, self.now)
        for gang in self.truth.our_gangs():
            is_broken = gang.has_started or gang.active > 0
            kept = self._held_nodes.nodes(but=gang)
            why = "" if is_claimed and not is_broken else self._oracle.where_it_fits(gang, without=kept)
            if why:
                self.violated(gang, f"waits although {why}", check="L2" if is_broken else "")


class NoStarvation(Check):
    """L3, L9: a gang that certainly fits is bound within STARVING_CYCLES cycles of an undisturbed leader.

    Looked at each STARVING_PERIOD_S for the STARVING_GANGS that have waited longest: one that fits in two
    looks, with as many cycles of one leader between them and nothing between the leader and the server,
    starves. So does one that fits for IDLE_S in which no cycle runs. A node that came back, or was
    uncordoned, is room like any other; one on which the leader keeps room for others is none. Nobody is
    judged while a third of the nodes has turned bad within the breaker's window, nor while another gang that
    is broken may keep a claim on room, nor a broken one that may be restarted.
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
            is_claimed = any_hold(self.truth, self.now, but=gang.key, led_since=self._led_since)
            is_held = is_claimed or (gang.has_started and self._restarts(gang))
            kept = self._held_nodes.nodes(but=gang)
            why = "" if is_held else self._oracle.where_it_fits(gang, without=kept)
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

    Nor are more than EVICTED_PER_MEMBER_MAX pods for each of its minimum, and EVICTED_BESIDE_MAX on top,
    evicted for a gang until it starts.
    Evictions of several members within ten seconds count once, those from bad nodes not at all: they follow
    from faults, of which there may be many. Nor does a repeated one of a pod whose end its sender cannot see.
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
            if len(gone) > gang.min_member * EVICTED_PER_MEMBER_MAX + EVICTED_BESIDE_MAX:
                self.violated(gang, f"{len(gone)} pods were evicted for its {gang.min_member}, and it waits")

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
                self.violated(f"{pod.gang.namespace}/{pod.gang.name}", f"evicted {len(times)} times in vain")

    def _runs(self, key: GangKey) -> bool:
        running = sum(pod.phase in ("Running", "Succeeded") for pod in self.truth.members(key))
        return running >= self.truth.min_member(key)


class WaitingIsExplained(Check):
    """L11: at rest every waiting gang has a known reason, and no cycle runs without need.

    A PodGroup says it in its status, a pod in its PodScheduled condition. Pods behind a scheduling gate say
    nothing. In vain: more than CYCLES_AT_REST_MAX cycles in a minute without a change of a pod, a node or a
    PodGroup; a node's heartbeat is no change.
    """

    name = "L11"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._changed_at = 0.0
        self._in_vain: list[float] = []

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource in _RELEVANT and not _is_heartbeat(change):
            self._changed_at = self.now
            self._in_vain.clear()

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if self.now < self._changed_at + _REPORTED_S:
            return
        self._in_vain = [at for at in self._in_vain if at > self.now - 60.0]
        self._in_vain.append(self.now)
        if len(self._in_vain) > CYCLES_AT_REST_MAX:
            self.violated(host, f"{len(self._in_vain)} cycles within a minute without any change")
            self._in_vain.clear()

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
        if group is not None and any(_is_member(pod, group) for pod in waiting):
            entry = self.context.store.get(Key(GROUPS, group.namespace, group.name))
            status = (entry.data.get("status") or {}) if entry is not None else {}
            reasons.append(status.get("reason") or "")
        for reason in reasons:
            if reason not in _REASONS:
                self.violated(gang, f"waits, and its reason is {reason!r}")
                return

    def _reason_of(self, pod: PodFact) -> str:
        """The reason in the pod's condition: its message begins with it."""
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
