"""S7, S15, S16, S17, L10: evictions are justified and announced, and failed nodes are avoided."""

import re
from typing import Final

from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model.decisions import CycleResult, Evict
from phalanx.model.names import NodeName
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.apiserver.objects import seconds_of
from phalanx_simulator.embedded.pod_requests import is_tolerated
from phalanx_simulator.embedded.store import Change, ChangeType, Entry, Key, Object
from phalanx_simulator.hosts.host import EPOCH_MS
from phalanx_simulator.invariants.bounds import (
    AVOID_S,
    BREAKER_OPEN_S,
    CLOCK_RIGHT_MS,
    CONVERGED_S,
    DECIDED_S,
    DISTURBANCE_S,
    HEALED_S,
    LOST_MEMBERS_S,
    MASS_NODES_MIN,
    MASS_RECEIVED_S,
    MASS_S,
    NEW_NODE_S,
    REPORTED_S,
)
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import GangKey, NodeFact, PodFact
from phalanx_simulator.invariants.held_capacity import HeldNodes
from phalanx_simulator.invariants.liveness import any_hold
from phalanx_simulator.invariants.native_groups import group_object, is_start_reported
from phalanx_simulator.invariants.oracle import Oracle
from phalanx_simulator.invariants.restarts import has_restart_condition
from phalanx_simulator.invariants.truth import NODES, GangFact, Truth

_PREEMPTED: Final = "Preempted"
_WITH_BENEFICIARY: Final = (_PREEMPTED, "Consolidated")
_EVICTING: Final = ("Replace", "Restart")
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def is_lost(pod: PodFact, nodes: list[NodeFact | None]) -> bool:
    """Whether in one of these versions the node is gone, not ready, or evicts the pod by a taint."""
    for node in nodes:
        if node is None or node.conditions.get("Ready", "True") != "True":
            return True
        evicting = [taint for taint in node.taints if taint.get("effect") == "NoExecute"]
        if any(not is_tolerated(taint, list(pod.tolerations)) for taint in evicting):
            return True
    return False


class EvictionsAreJustified(Check):
    """S7: without a beneficiary, only partly bound gangs and those with `recovery` are evicted.

    One cycle evicts all members of such a gang; with Replace only the members on lost nodes. A gang with a
    succeeded member is finishing, and a pod without a controller would not be recreated: neither is evicted.
    Budgets do not apply, since these evictions respond to a fault. S22 checks evictions with a beneficiary.
    When part of a gang was evicted for a beneficiary, its other members may be evicted later.

    A gang that has lost all members counts as one that never started. If a gang has started and its status
    does not say so yet, both treatments are valid: its leader has seen the start, a new leader cannot know
    it. A pod whose label has just moved it to another gang may still be treated as a member of its previous
    gang.
    """

    name = "S7"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._broken_at: dict[GangKey, float] = {}
        self._decided: dict[tuple[str, str], Evict] = {}
        self._chosen: set[GangKey] = set()

    def on_change(self, change: Change) -> None:
        moved = self.truth.changed_pod
        if moved is None or moved.before is None or not moved.before.node:
            return
        after = moved.after
        if after is None or after.is_deleting or after.phase == "Failed":
            self._broken_at[moved.before.gang] = self.now

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        chosen: dict[str, None] = {}
        for eviction in result.evictions:
            self._decided[host, eviction.pod] = eviction
            chosen[eviction.pod] = None
        for eviction in result.evictions:
            self._check_decision(eviction, chosen)

    def _check_decision(self, eviction: Evict, chosen: dict[str, None]) -> None:
        pod = self.truth.pods.get(eviction.pod)
        if pod is None:
            return
        if eviction.beneficiary:
            self._chosen.add(pod.gang)
        elif not pod.is_deleting and not self._is_remainder(eviction, pod):
            self._check_whole(pod, chosen)

    def _is_remainder(self, eviction: Evict, pod: PodFact) -> bool:
        return eviction.reason == _PREEMPTED and pod.gang in self._chosen

    def _check_whole(self, pod: PodFact, chosen: dict[str, None]) -> None:
        """Check that all members with nodes are evicted, or, with Replace, those on lost nodes."""
        if "Replace" in self._recovery(pod.gang) and is_lost(pod, self._versions(pod)):
            return
        before = self.truth.revision_before(DISTURBANCE_S)
        for other in self.truth.members(pod.gang):
            stays = (
                other.holds_node and not other.is_deleting and other.controller and other.uid not in chosen
            )
            if stays and 0 < self.truth.pod_changed_at(other.uid) <= before:
                self.violated(pod, f"evicted without {other.name}, another member with a node")
                return

    def on_call(self, call: Call) -> None:
        if not call.is_eviction or call.stage is not Stage.SENT:
            return
        pod = self.truth.pods.get(call.uid)
        if pod is None:
            return
        decided = self._decided.get((call.host, call.uid))
        if decided is None:
            self.violated(pod, f"{call.host} evicts it without a decision")
        elif decided.beneficiary or self._is_remainder(decided, pod):
            return
        objections = [self._why_not(call, pod, gang) for gang in self._gangs_of(call, pod)]
        if all(objections):
            self.violated(pod, f"evicted although {objections[0]}")

    def _gangs_of(self, call: Call, pod: PodFact) -> list[GangFact]:
        """The pod's gangs since the decision that still have pods."""
        decided = self.truth.known_to_sender(call, "pods", before_s=DECIDED_S)
        versions = self.truth.pod_since(pod.uid, decided)
        keys = dict.fromkeys([pod.gang, *(version.gang for version in versions if version is not None)])
        return [self.truth.gangs[key] for key in keys if key in self.truth.gangs]

    def _why_not(self, call: Call, pod: PodFact, gang: GangFact) -> str:
        if not pod.controller:
            return "it has no controller to recreate it"
        revision = self.truth.known_to_sender(call, "pods")
        for other in self.truth.members(gang.key):
            known = self.truth.pod_at(other.uid, revision)
            if isinstance(known, PodFact) and known.phase == "Succeeded":
                return f"{other.name} has succeeded: the gang is finishing"
        is_broken = gang.key in self.truth.partial or self._broke_recently(gang)
        if is_broken and (gang.starts_over or not (gang.has_started and self._is_start_reported(gang))):
            return ""
        if not gang.has_started:
            return "its gang has not lost a member"
        policies = self._recovery(gang.key)
        since = min(
            self.truth.known_to_sender(call, NODES, before_s=DECIDED_S),
            self.truth.revision_before(DISTURBANCE_S),
        )
        if "Restart" in policies and (self._broke_recently(gang) or self._any_lost(gang, since)):
            return ""
        if "Restart" in policies and self._is_being_restarted(gang):
            return ""
        if "Replace" in policies and is_lost(pod, self.truth.nodes_since(pod.node, since)):
            return ""
        return "its gang has started and its recovery policy does not request this"

    def _is_being_restarted(self, gang: GangFact) -> bool:
        """Whether members carry the restart condition."""
        entries = [self.context.store.get(self.truth.key_of(pod)) for pod in self.truth.members(gang.key)]
        return any(has_restart_condition(entry.data) for entry in entries if entry is not None)

    def _is_start_reported(self, gang: GangFact) -> bool:
        """Whether a new leader can know that the gang has started."""
        entry = self.context.store.get(group_object(gang.key))
        return entry is not None and is_start_reported(gang.key, entry.data)

    def _recovery(self, key: GangKey) -> list[str]:
        group = self.truth.group_of(key)
        policy = (group.spec.get("recovery") or {}) if group is not None else {}
        return [policy[name] for name in ("onMemberFailure", "onNodeLoss") if policy.get(name) in _EVICTING]

    def _broke_recently(self, gang: GangFact) -> bool:
        return (
            gang.key in self.truth.broken
            or self._broken_at.get(gang.key, -BREAKER_OPEN_S) > self.now - BREAKER_OPEN_S
            or any(pod.phase == "Failed" for pod in self.truth.members(gang.key))
        )

    def _any_lost(self, gang: GangFact, since: int) -> bool:
        members = [pod for pod in self.truth.members(gang.key) if pod.node]
        return any(is_lost(pod, self.truth.nodes_since(pod.node, since)) for pod in members)

    def _versions(self, pod: PodFact) -> list[NodeFact | None]:
        return self.truth.nodes_since(pod.node, self.truth.revision_before(DISTURBANCE_S))


class EvictionsNotCountedByJobs(Check):
    """S15: evicted pods get DisruptionTarget first, and no Job counts them as failures.

    At rest, for each Job whose podFailurePolicy ignores DisruptionTarget, `failed` is at most the number of
    pods that failed or were deleted without that condition.
    """

    name = "S15"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._own: dict[str, set[str]] = {}

    def on_call(self, call: Call) -> None:
        if not call.is_eviction or call.stage is not Stage.SENT or call.uid not in self.truth.pods:
            return
        entry = self.context.store.get(call.key)
        if entry is not None and entry.data["metadata"]["uid"] == call.uid and not _is_target(entry.data):
            self.violated(call.key.path, "evicted without the DisruptionTarget condition")

    def on_change(self, change: Change) -> None:
        moved = self.truth.changed_pod
        if moved is None or not moved.pod.controller:
            return
        pod = moved.pod
        ended = pod.phase == "Failed" or pod.is_deleting or change.type is ChangeType.DELETED
        if ended and not _is_target(change.entry.data):
            self._own.setdefault(pod.controller, set()).add(pod.uid)

    def at_rest(self) -> None:
        for entry in self.context.store.entries("jobs.batch"):
            job = entry.data
            failed = (job.get("status") or {}).get("failed") or 0
            own = len(self._own.get(job["metadata"]["uid"], ()))
            if _ignores_disruption(job) and failed > own:
                self.violated(
                    entry.key.path,
                    f"counts {failed} failures, and {own} pods failed without DisruptionTarget",
                )


def _is_target(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        for condition in conditions
    )


def _ignores_disruption(job: Object) -> bool:
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or []
    return any(
        rule.get("action") == "Ignore"
        and any(pattern.get("type") == "DisruptionTarget" for pattern in rule.get("onPodConditions") or ())
        for rule in rules
    )


class FailedNodesAvoided(Check):
    """S16: for AVOID_S a gang avoids nodes that failed it while other nodes can take all of it.

    A node has failed a gang when it was faulty, or rejected a member, at the time when a member failed or was
    evicted. Other nodes can take the gang when nodes on which no member has failed for any reason have
    capacity for all waiting members, in one domain where one is required. The check covers gangs that the
    oracle supports, and processes that were running at the failure. It does nothing while a third of the
    nodes is bad, while capacity may be held for a broken gang, or when capacity may have appeared after the
    snapshot. Nodes with capacity held for others do not count as other nodes. While the breaker may be open
    no fault counts. A deleted node does not count while the process still sees it: its pods are deleted as
    soon as they fail, and the process sees only that they are deleted.
    """

    name = "S16"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._oracle = Oracle(context.store, truth)
        self._held_nodes = HeldNodes(truth, context.clock.monotonic)
        self._failed: dict[GangKey, dict[str, float]] = {}
        self._suspected: dict[GangKey, set[str]] = {}
        self._began: dict[str, float] = {}

    def on_change(self, change: Change) -> None:
        moved = self.truth.changed_pod
        if moved is None or moved.before is None or not moved.before.holds_node or moved.before.is_deleting:
            return
        if self.truth.breaker_may_be_open:
            return
        before, after = moved.before, moved.after
        if after is not None and after.phase != "Failed" and not after.is_deleting:
            return
        if after is not None and after.phase == "Failed":
            self._suspected.setdefault(before.gang, set()).add(before.node)
        node = self.truth.nodes.get(before.node)
        reason = str((change.entry.data.get("status") or {}).get("reason") or "")
        if node is None or node.fault or reason.startswith(("OutOf", "UnexpectedAdmission")):
            self._failed.setdefault(before.gang, {})[before.node] = self.now

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        began = self._began.setdefault(host, self.now)
        self._held_nodes.take(host, result)
        if 3 * len(self.truth.bad_nodes) > len(self.truth.nodes):
            return
        for placement in result.placements:
            first = self.truth.pods.get(placement.binds[0].pod) if placement.binds else None
            gang = self.truth.gangs.get(first.gang) if first is not None else None
            if first is None or gang is None or first.gang not in self._failed:
                continue
            failed = self._failed[first.gang]
            since = max(began, self.now - AVOID_S)
            avoided = {
                name
                for name, at in failed.items()
                if since < at < self.now - CONVERGED_S and not self._is_deletion_unseen(name, snapshot)
            }
            used = sorted(avoided & {bind.node for bind in placement.binds})
            has_capacity_appeared = self.truth.has_capacity_appeared(DECIDED_S, excluding=avoided)
            if used and (has_capacity_appeared or any_hold(self.truth, self.now, excluding=gang.key)):
                continue
            held = self._held_nodes.nodes(excluding=gang, include_previous=True)
            others = avoided | self._suspected.get(gang.key, set()) | held
            if used and self._oracle.where_it_fits(gang, without=others):
                self.violated(gang, f"placed on {used[0]} again, which failed it")
            elif avoided:
                self.reached("node-avoided" if not used else "failed-node-was-the-only-one")

    def _is_deletion_unseen(self, node: str, snapshot: Snapshot) -> bool:
        return node not in self.truth.nodes and NodeName(node) in snapshot.nodes


class Breaker(Check):
    """S17: while more than half of the nodes turned bad within MASS_S, nothing is evicted.

    New pods are placed only on nodes that were healthy all that time. A node counts if the deciding process
    could see it turn bad: after its first cycle, or, if its clock is right, by the transition time in the
    conditions that its first cycle saw. Evictions that were decided earlier because of a fault are not sent
    either; evictions for a beneficiary are.
    """

    name = "S17"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._began: dict[str, float] = {}
        self._reported: dict[str, dict[str, float]] = {}
        self._decided: dict[tuple[str, str], Evict] = {}

    def on_call(self, call: Call) -> None:
        decided = self._decided.get((call.host, call.uid)) if call.is_eviction else None
        if decided is None or call.stage is not Stage.SENT or decided.reason in _WITH_BENEFICIARY:
            return
        if self.truth.healthy_s(call.host) >= HEALED_S and self._is_open(call.host):
            self.violated(call.key.path, f"{call.host} still evicts it while most nodes turned bad")

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if host not in self._began:
            self._began[host] = self.now
            is_right = abs(snapshot.now - self.context.clock.now_ms()) <= CLOCK_RIGHT_MS
            self._reported[host] = self._reported_turns() if is_right else {}
        self._decided.update({(host, eviction.pod): eviction for eviction in result.evictions})
        if not result.evictions and not result.placements:
            return
        if self.truth.healthy_s(host) < HEALED_S or not self._is_open(host):
            return
        self.reached("breaker-had-to-be-open")
        if result.evictions:
            self.violated(host, f"evicts {len(result.evictions)} pods while most nodes turned bad")
        last = self.now - MASS_RECEIVED_S
        first = max(self._first(last), self._began[host] + MASS_RECEIVED_S)
        for placement in result.placements:
            for bind in placement.binds:
                if first < self.truth.good_nodes.get(bind.node, 0.0) <= last:
                    self.violated(placement.group, f"sent to {bind.node} while most nodes turned bad")
                    return

    def _is_open(self, host: str) -> bool:
        last, began, reported = (
            self.now - MASS_RECEIVED_S,
            self._began[host] + MASS_RECEIVED_S,
            self._reported[host],
        )
        turned = [
            name
            for name, since in self.truth.bad_nodes.items()
            if self._first(last) < since <= last and (since > began or reported.get(name) == since)
        ]
        nodes = len(self.truth.nodes)
        return nodes >= MASS_NODES_MIN and 2 * sum(map(self._was_healthy, turned)) > nodes

    def _was_healthy(self, name: str) -> bool:
        """Whether the node was healthy before.

        A node that joins or is recreated bad has not turned bad.
        """
        entry = self.context.store.get(Key(NODES, "", name))
        return entry is not None and self.truth.bad_nodes[name] > _joined(entry) + REPORTED_S

    def _first(self, last: float) -> float:
        """The earliest time at which a node must have turned bad to count."""
        return last - MASS_S + 2 * MASS_RECEIVED_S

    def _reported_turns(self) -> dict[str, float]:
        """Bad nodes whose conditions report the correct transition time."""
        bad = self.truth.bad_nodes.items()
        return {name: at for name, at in bad if at <= self.now - MASS_RECEIVED_S and self._reports(name, at)}

    def _reports(self, name: str, at: float) -> bool:
        entry, fact = self.context.store.get(Key(NODES, "", name)), self.truth.nodes.get(name)
        if entry is None or fact is None:
            return False
        conditions = {
            condition["type"]: condition for condition in entry.data["status"].get("conditions", ())
        }
        reported = [conditions[type_].get("lastTransitionTime") for type_ in fact.faulty_conditions]
        if not reported or not all(reported):
            return False
        since = min(map(_moment, reported))
        return since > _joined(entry) + NEW_NODE_S and abs(since - at) <= REPORTED_S


def _joined(node: Entry) -> float:
    return _moment(node.data["metadata"]["creationTimestamp"])


def _moment(written: str) -> float:
    """Seconds since the simulation began."""
    return seconds_of(written) - EPOCH_MS / 1000


class LostMembersAreEvicted(Check):
    """L10: with `recovery`, members on a lost node are evicted within the grace period and LOST_MEMBERS_S.

    Other members follow Kubernetes' own eviction rules; the tests of the embedded controllers cover these.
    The check does nothing while many nodes are bad, and for LOST_MEMBERS_S after a disturbance. If a node was
    healthy at any moment since the last tick of this check, the grace period starts again: a flapping node
    was not lost all the time.
    """

    name = "L10"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._lost: dict[str, float] = {}
        self._checked = 0
        self._next = 10.0
        self._host = ""

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._host = host

    def on_tick(self) -> None:
        if self.now < self._next:
            return
        self._next = self.now + 10.0
        still: dict[str, float] = {}
        is_calm = 3 * len(self.truth.bad_nodes) < len(self.truth.nodes)
        for name in self.truth.bad_nodes if is_calm else ():
            for uid in self.truth.recent_pods_on(name):
                pod = self.truth.pods.get(uid)
                if pod is not None and self._is_stuck(pod):
                    known = self._lost.get(uid, self.now)
                    still[uid] = self.now if self._was_healthy(pod) else known
                    self._judge(pod, self.now - still[uid])
        self._lost = still
        self._checked = self.context.store.revision

    def _was_healthy(self, pod: PodFact) -> bool:
        """Whether its node was healthy at some moment since the last check."""
        versions = self.truth.nodes_since(pod.node, self._checked)
        return not all(is_lost(pod, [version]) for version in versions)

    def _is_stuck(self, pod: PodFact) -> bool:
        gang = self.truth.gangs[pod.gang]
        group = self.truth.group_of(pod.gang)
        policy = (group.spec.get("recovery") or {}) if group is not None else {}
        is_requested = policy.get("onNodeLoss") in _EVICTING and gang.has_started and bool(pod.controller)
        holds = pod.is_ours and pod.holds_node and not pod.is_deleting
        if not is_requested or not holds or not is_lost(pod, [self.truth.nodes.get(pod.node)]):
            return False
        members = list(self.truth.members(pod.gang))
        if any(not other.controller or other.phase == "Succeeded" for other in members):
            return False
        return self.truth.healthy_s(self._host) > LOST_MEMBERS_S

    def _judge(self, pod: PodFact, lost_s: float) -> None:
        group = self.truth.group_of(pod.gang)
        grace = _seconds_of(((group.spec if group else {}).get("recovery") or {}).get("gracePeriod"))
        if lost_s > grace + LOST_MEMBERS_S:
            self.violated(pod, f"still on {pod.node}, which has been lost for {lost_s:.0f} s")
            self._lost.pop(pod.uid, None)


def _seconds_of(written: object) -> float:
    """The grace period in seconds; infinite if it cannot be parsed."""
    if written is None:
        return NODE_LOSS_GRACE_MS / 1000
    parts = _DURATION.fullmatch(str(written))
    if parts is None or not any(parts.groups()):
        return float("inf")
    hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return hours * 3600.0 + minutes * 60.0 + seconds
