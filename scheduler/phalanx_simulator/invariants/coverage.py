"""Records the coverage points that a run reaches; reports no violations."""

from phalanx_simulator.embedded.store import Change, ChangeType
from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.replica import Process
from phalanx_simulator.invariants.bounds import LATE_LANDING_S, PARTIAL_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import GangKey, NodeFact, PodFact
from phalanx_simulator.invariants.history import Unknown
from phalanx_simulator.invariants.native_groups import GROUPS
from phalanx_simulator.invariants.processes import is_lost_lease
from phalanx_simulator.invariants.truth import NODES, GangFact, PodChange, Truth

_EVENTS_LATE_S = 10.0
_PERIOD_S = 5.0


class BindCoverage(Check):
    """Coverage points of binds."""

    name = "coverage of binds"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._unknown: dict[str, str] = {}
        self._sent_at: dict[str, int] = {}
        self._holder = ""

    def on_call(self, call: Call) -> None:
        if call.is_bind:
            if call.stage is Stage.SENT:
                self._sent_at[call.uid] = self.context.store.revision
            elif call.stage is Stage.LANDED:
                self._landed(call)
            else:
                self._answered(call)
        elif call.verb == "get" and call.plural == "pods" and call.stage is Stage.ANSWERED and self._unknown:
            self._read_back(call)
        elif call.is_lease and call.is_write and call.stage is Stage.LANDED and call.succeeded:
            self._holder = (call.body.get("spec") or {}).get("holderIdentity") or self._holder

    def _answered(self, call: Call) -> None:
        outcome = call.exchange.outcome or ""
        if outcome == "unknown":
            self._unknown[call.uid] = call.host
        elif outcome == "409":
            self.reached("bind-conflict")
        elif outcome == "429":
            self.reached("bind-throttled")
        elif outcome.startswith("4"):
            self.reached("bind-refused")
        elif outcome.startswith("5"):
            self._unknown[call.uid] = call.host
            self.reached("bind-server-error")
            if call.succeeded:
                self.reached("bind-applied-but-refused")

    def _read_back(self, call: Call) -> None:
        for uid, host in self._unknown.items():
            pod = self.truth.pods.get(uid)
            if host == call.host and pod is not None and self.truth.key_of(pod) == call.key:
                if call.answered_ok:
                    self.reached(f"unknown-bind-read-back-{'bound' if pod.node else 'free'}")
                    del self._unknown[uid]
                return

    def _landed(self, call: Call) -> None:
        if self.now - call.exchange.sent_at > LATE_LANDING_S:
            self.reached("bind-landed-late")
        if self._holder not in ("", call.host):
            self.reached("bind-landed-after-failover")
        before = self._sent_at.pop(call.uid, 0)
        pod, then = self.truth.pods.get(call.uid), self.truth.pod_at(call.uid, before)
        if isinstance(then, PodFact) and not then.is_deleting and (pod is None or pod.is_deleting):
            self.reached("pod-deleted-while-binding")
        if pod is not None and pod.node and not call.succeeded and self._was_unbound(then):
            self.reached("pod-bound-by-another-while-binding")
        self._check_node(call, before)

    def _was_unbound(self, then: PodFact | Unknown | None) -> bool:
        return isinstance(then, PodFact) and not then.node

    def _check_node(self, call: Call, before: int) -> None:
        node, then = self.truth.nodes.get(call.node), self.truth.node_at(call.node, before)
        pod = self.truth.pods.get(call.uid)
        if not isinstance(then, NodeFact) or pod is None:
            return
        if node is None:
            self.reached("node-gone-while-binding")
        elif node.refusal(pod.tolerations) and not then.refusal(pod.tolerations):
            self.reached("node-unusable-while-binding")
        elif call.succeeded and any(amount < 0 for amount in self.truth.free(node).values()):
            self.reached("foreign-over-commit")


class WriteCoverage(Check):
    """Coverage points of other writes and of the Lease."""

    name = "coverage of writes"

    def on_call(self, call: Call) -> None:
        if call.stage is not Stage.ANSWERED or not call.is_write or call.answered_ok or call.is_bind:
            return
        outcome = call.exchange.outcome or ""
        if call.is_lease:
            self.reached("lease-renewal-failed")
            if outcome == "409":
                self.reached("two-candidates-raced")
        elif call.is_eviction:
            self.reached("eviction-throttled" if outcome == "429" else "eviction-failed")
        elif call.resource.endswith("/status") and outcome == "409":
            self.reached("status-conflict")


class GangCoverage(Check):
    """Coverage points of gangs."""

    name = "coverage of gangs"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._broken: dict[GangKey, set[str]] = {}
        self._partial: dict[GangKey, float] = {}
        self._evicted: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource == GROUPS:
            self._group(change)
        moved = self.truth.changed_pod
        if moved is None:
            return
        self._note_lost(moved)
        gang = self.truth.gangs.get(moved.pod.gang)
        if gang is not None and moved.pod.is_ours:
            self._member(change, moved, gang)
            self._wholeness(gang)

    def on_call(self, call: Call) -> None:
        if not call.is_eviction or call.stage is not Stage.LANDED or not call.succeeded:
            return
        pod = self.truth.pods.get(call.uid)
        gang = self.truth.gangs.get(pod.gang) if pod is not None else None
        if gang is not None and not gang.has_started and gang.uid not in self._evicted:
            self._evicted[gang.uid] = None
            self.reached("gang-released")

    def on_tick(self) -> None:
        for key, gang in self.truth.partial.items():
            since = gang.partial_since
            if since is not None and self.now - since > PARTIAL_S and self._partial.get(key) != since:
                self._partial[key] = since
                self.reached("gang-partly-bound")

    def _note_lost(self, moved: PodChange) -> None:
        """Note members of a broken gang that no longer count for its minimum."""
        before, after = moved.before, moved.after
        if before is None or before.gang not in self._broken:
            return
        if after is None or after.gang != before.gang or not after.counts_for_gang:
            self._broken[before.gang].discard(before.uid)

    def _wholeness(self, gang: GangFact) -> None:
        if gang.key in self.truth.broken:
            if gang.key not in self._broken:
                self.reached("gang-broken")
                self._broken[gang.key] = {
                    pod.uid for pod in self.truth.members(gang.key) if pod.counts_for_gang
                }
        elif gang.key in self._broken and gang.active >= self.truth.min_member(gang.key) > 0:
            self.reached("gang-repaired" if self._broken.pop(gang.key) else "gang-restarted")

    def _member(self, change: Change, moved: PodChange, gang: GangFact) -> None:
        before, after = moved.before, moved.after
        if after is None or before is None or before.phase == after.phase:
            return
        if after.phase == "Failed":
            reason = str((change.entry.data.get("status") or {}).get("reason") or "")
            refused = reason.startswith(("OutOf", "UnexpectedAdmission", "NodeAffinity", "TaintToleration"))
            self.reached("kubelet-rejection" if refused else "member-failed")
        elif after.phase == "Succeeded" and any(not pod.is_finished for pod in self.truth.members(gang.key)):
            self.reached("member-succeeded-early")

    def _group(self, change: Change) -> None:
        key = GangKey("group", change.entry.key.namespace, change.entry.key.name)
        gang = self.truth.gangs.get(key)
        if gang is None:
            return
        if change.type is ChangeType.ADDED:
            if any(pod.node for pod in self.truth.members(key)):
                self.reached("pod-group-recreated")
        elif change.type is ChangeType.MODIFIED and change.previous is not None and not gang.has_started:
            now, before = _min_member(change.entry.data), _min_member(change.previous.data)
            if now != before:
                self.reached("gang-grown-mid-flight" if now > before else "gang-shrunk-mid-flight")


def _min_member(group: dict[str, object]) -> int:
    spec = group.get("spec")
    found = spec.get("minMember") if isinstance(spec, dict) else None
    return found if isinstance(found, int) else 0


class NodeCoverage(Check):
    """Coverage points of nodes."""

    name = "coverage of nodes"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._lost: dict[str, None] = {}
        self._was_mass = False

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource != NODES:
            return
        name = change.entry.key.name
        node = self.truth.nodes.get(name)
        used = self.truth.used.get(name, {})
        if node is None or not any(used.values()):
            return
        if change.type is ChangeType.ADDED:
            self.reached("node-recreated")
        if node.conditions.get("Ready", "True") == "True":
            self._lost.pop(name, None)
        elif name not in self._lost:
            self._lost[name] = None
            self.reached("node-lost")
        if any(amount < 0 for amount in self.truth.free(node).values()):
            self.reached("allocatable-below-use")

    def on_tick(self) -> None:
        is_mass = 2 * len(self.truth.bad_nodes) > len(self.truth.nodes) > 0
        if is_mass and not self._was_mass:
            self.reached("mass-fault")
        self._was_mass = is_mass


class ProcessCoverage(Check):
    """Coverage points of processes and of the events that they receive."""

    name = "coverage of processes"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._ended: dict[str, None] = {}
        self._listed: dict[str, dict[str, float]] = {}
        self._led = ""
        self._next = 0.0

    def on_tick(self) -> None:
        leader = ""
        for replica in self.context.replicas:
            process = replica.process
            if process is None:
                continue
            if process.task.done():
                self._check_exit(process)
            elif process.scheduler.is_leading and process.host.state is State.RUNNING:
                leader = "" if process.network.partitioned else process.host.name
        if self._led and leader != self._led and self.truth.partial:
            self.reached("leader-lost-mid-gang")
        self._led = leader
        if self.now >= self._next:
            self._next = self.now + _PERIOD_S
            self._check_connections()

    def _check_connections(self) -> None:
        for replica in self.context.replicas:
            process = replica.process
            if process is None:
                continue
            if process.host.name == self._led:
                self._check_lists(self._led, process.network.received.listed_at)
            if process.network.has_silent_watch:
                self.reached("half-open-watch")
            if self._is_late(process.network.received.versions.get("pods", 0)):
                self.reached("events-late")

    def _check_exit(self, process: Process) -> None:
        if process.host.name in self._ended:
            return
        self._ended[process.host.name] = None
        error = None if process.task.cancelled() else process.task.exception()
        if error is not None and is_lost_lease(error):
            self.reached("process-ended-by-lost-lease")

    def _check_lists(self, name: str, listed_at: dict[str, float]) -> None:
        before = self._listed.get(name)
        if before is not None and any(at != before.get(kind, at) for kind, at in listed_at.items()):
            self.reached("relisted")
        self._listed = {name: dict(listed_at)}

    def _is_late(self, delivered: int) -> bool:
        newest = next(reversed(self.truth.pods), "")
        before = self.truth.revision_before(_EVENTS_LATE_S)
        return 0 < delivered < self.truth.pod_changed_at(newest) <= before
