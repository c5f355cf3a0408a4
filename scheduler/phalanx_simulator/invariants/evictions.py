"""S7, S15, S16, S17, L10: which pods are evicted, how, and where their gang restarts."""

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
from phalanx_simulator.invariants.oracle import Oracle
from phalanx_simulator.invariants.restarts import has_restart_condition
from phalanx_simulator.invariants.truth import GROUPS, NODES, GangFact, Truth

_FOR_ANOTHER: Final = "Preempted"
_FOR_OTHERS: Final = (_FOR_ANOTHER, "Consolidated")
_ANSWERS: Final = ("Replace", "Restart")
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

    Such a gang is evicted whole, decided in one cycle; with Replace only members on lost nodes are. A gang
    with a member that has succeeded is finishing, and a pod without a controller would not come back: neither
    is evicted. Budgets are not asked: a release answers a fault. What is evicted for another
    gang is looked at by S22; the rest of a gang of which somebody once evicted a part for another may follow.

    A gang of which no member is left begins anew, as one that never started. A gang that has started, of
    which the API does not say so yet, may be treated either way: its leader has seen it start, a new one
    cannot know. A pod whose label has just moved it to another gang may still be judged as a member of the
    one in which it was when that was decided.
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
        elif not pod.is_deleting and not self._is_the_rest(eviction, pod):
            self._check_whole(pod, chosen)

    def _is_the_rest(self, eviction: Evict, pod: PodFact) -> bool:
        return eviction.reason == _FOR_ANOTHER and pod.gang in self._chosen

    def _check_whole(self, pod: PodFact, chosen: dict[str, None]) -> None:
        """All members with nodes are evicted, or, with Replace, those on lost nodes."""
        if "Replace" in self._recovery(pod.gang) and is_lost(pod, self._versions(pod)):
            return
        before = self.truth.revision_before(DISTURBANCE_S)
        for other in self.truth.members(pod.gang):
            stays = (
                other.holds_node and not other.is_deleting and other.controller and other.uid not in chosen
            )
            if stays and 0 < self.truth.pod_changed_at(other.uid) <= before:
                self.violated(pod, f"evicted without {other.name}, another member that holds a node")
                return

    def on_call(self, call: Call) -> None:
        if not call.is_eviction or call.stage is not Stage.SENT:
            return
        pod = self.truth.pods.get(call.uid)
        if pod is None:
            return
        decided = self._decided.get((call.host, call.uid))
        if decided is None:
            self.violated(pod, f"{call.host} evicts it and has not decided so")
        elif decided.beneficiary or self._is_the_rest(decided, pod):
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
            return "nobody would make it again"
        revision = self.truth.known_to_sender(call, "pods")
        for other in self.truth.members(gang.key):
            known = self.truth.pod_at(other.uid, revision)
            if isinstance(known, PodFact) and known.phase == "Succeeded":
                return f"{other.name} has succeeded: the gang is finishing"
        is_broken = gang.key in self.truth.partial or self._broke_lately(gang)
        if is_broken and (gang.starts_over or not (gang.has_started and self._is_on_record(gang))):
            return ""
        if not gang.has_started:
            return "nothing is wrong with its gang"
        answers = self._recovery(gang.key)
        since = min(
            self.truth.known_to_sender(call, NODES, before_s=DECIDED_S),
            self.truth.revision_before(DISTURBANCE_S),
        )
        if "Restart" in answers and (self._broke_lately(gang) or self._any_lost(gang, since)):
            return ""
        if "Restart" in answers and self._is_being_restarted(gang):
            return ""
        if "Replace" in answers and is_lost(pod, self.truth.nodes_since(pod.node, since)):
            return ""
        return "its gang has started and asks for no such recovery"

    def _is_being_restarted(self, gang: GangFact) -> bool:
        """Whether members carry the restart condition."""
        entries = [self.context.store.get(self.truth.key_of(pod)) for pod in self.truth.members(gang.key)]
        return any(has_restart_condition(entry.data) for entry in entries if entry is not None)

    def _is_on_record(self, gang: GangFact) -> bool:
        """Whether a new leader can know that the gang has started."""
        entry = self.context.store.get(Key(GROUPS, gang.key.namespace, gang.key.name))
        return entry is not None and bool((entry.data.get("status") or {}).get("startedAt"))

    def _recovery(self, key: GangKey) -> list[str]:
        group = self.truth.group_of(key)
        wish = (group.spec.get("recovery") or {}) if group is not None else {}
        return [wish[name] for name in ("onMemberFailure", "onNodeLoss") if wish.get(name) in _ANSWERS]

    def _broke_lately(self, gang: GangFact) -> bool:
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

    Counted at rest for Jobs whose podFailurePolicy ignores DisruptionTarget: their `failed` is at most the
    number of pods that failed, or were deleted, without that condition.
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
                self.violated(entry.key.path, f"has counted {failed} failures, and {own} were its own")


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

    A node has failed a gang when it was faulty, or refused a member, as that member failed or was evicted.
    Others can take it when nodes on which no member has failed, through whose fault ever, have room for all
    members that wait, in one domain where one is required. Only gangs that the oracle understands are judged,
    by a process that was there when it failed, and neither while a third of the nodes is bad nor while a
    broken gang may claim room, nor where room may have come after the look at the cluster. Nodes on which
    room is kept for others are none of them. While the breaker may be open no fault counts. A node that is
    gone counts for nothing while the process does not know it: its pods go in the moment in which they fail,
    and it sees no more than that they are gone.
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
                if since < at < self.now - CONVERGED_S and not self._is_gone_unseen(name, snapshot)
            }
            used = sorted(avoided & {bind.node for bind in placement.binds})
            has_capacity_appeared = self.truth.has_capacity_appeared(DECIDED_S, but=avoided)
            if used and (has_capacity_appeared or any_hold(self.truth, self.now, but=gang.key)):
                continue
            kept = self._held_nodes.nodes(but=gang, by_the_last_too=True)
            others = avoided | self._suspected.get(gang.key, set()) | kept
            if used and self._oracle.where_it_fits(gang, without=others):
                self.violated(gang, f"sent back to {used[0]}, which failed it")
            elif avoided:
                self.reached("node-avoided" if not used else "failed-node-was-the-only-one")

    def _is_gone_unseen(self, node: str, snapshot: Snapshot) -> bool:
        return node not in self.truth.nodes and NodeName(node) in snapshot.nodes


class Breaker(Check):
    """S17: while more than half of the nodes turned bad within MASS_S, nothing is evicted.

    And new pods go only to nodes that were well all that time. Only what the deciding process could see
    counts: nodes that turned after its first cycle, and those whose conditions told it then that they had,
    where its clock is right. What was decided before for the sake of a fault is not sent any more either;
    what was decided for another gang is.
    """

    name = "S17"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._began: dict[str, float] = {}
        self._reported: dict[str, dict[str, float]] = {}
        self._decided: dict[tuple[str, str], Evict] = {}

    def on_call(self, call: Call) -> None:
        decided = self._decided.get((call.host, call.uid)) if call.is_eviction else None
        if decided is None or call.stage is not Stage.SENT or decided.reason in _FOR_OTHERS:
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
        return nodes >= MASS_NODES_MIN and 2 * sum(map(self._was_well, turned)) > nodes

    def _was_well(self, name: str) -> bool:
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

    For the others Kubernetes' own policy holds, at which the embedded controllers are tested. Not judged
    while many nodes are bad, nor within that time after a disturbance. A node that was well for a moment
    between two looks is lost anew from then on, and the grace begins again: a flapping node that is bad at
    each look has not been lost all the while.
    """

    name = "L10"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._lost: dict[str, float] = {}
        self._looked = 0
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
                    still[uid] = self.now if self._was_well(pod) else known
                    self._judge(pod, self.now - still[uid])
        self._lost = still
        self._looked = self.context.store.revision

    def _was_well(self, pod: PodFact) -> bool:
        """Whether its node was healthy at some moment since the last look."""
        versions = self.truth.nodes_since(pod.node, self._looked)
        return not all(is_lost(pod, [version]) for version in versions)

    def _is_stuck(self, pod: PodFact) -> bool:
        gang = self.truth.gangs[pod.gang]
        group = self.truth.group_of(pod.gang)
        wish = (group.spec.get("recovery") or {}) if group is not None else {}
        is_asked = wish.get("onNodeLoss") in _ANSWERS and gang.has_started and bool(pod.controller)
        holds = pod.is_ours and pod.holds_node and not pod.is_deleting
        if not is_asked or not holds or not is_lost(pod, [self.truth.nodes.get(pod.node)]):
            return False
        members = list(self.truth.members(pod.gang))
        if any(not other.controller or other.phase == "Succeeded" for other in members):
            return False
        return self.truth.healthy_s(self._host) > LOST_MEMBERS_S

    def _judge(self, pod: PodFact, lost_s: float) -> None:
        group = self.truth.group_of(pod.gang)
        grace = _seconds_of(((group.spec if group else {}).get("recovery") or {}).get("gracePeriod"))
        if lost_s > grace + LOST_MEMBERS_S:
            self.violated(pod, f"still on {pod.node}, which is lost for {lost_s:.0f} s")
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
