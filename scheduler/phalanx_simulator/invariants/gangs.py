"""S3, S5, S10, S21: gangs are placed whole, in their required domains, with their own members."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from phalanx.model.decisions import Bind, CycleResult, Placement
from phalanx.model.gangs import Gang, SubgroupSpec, ancestor_chains
from phalanx.model.names import NodeName, PodUid
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change
from phalanx_simulator.hosts.host import State
from phalanx_simulator.invariants.bounds import DECIDED_S, DISTURBANCE_S, PARTIAL_S, PARTIAL_SLACK_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import awaits_a_volume, found
from phalanx_simulator.invariants.facts import (
    GangKey,
    GroupFact,
    NodeFact,
    PodFact,
    missing_for_start,
    partial_subgroup,
)
from phalanx_simulator.invariants.native_groups import GROUPS
from phalanx_simulator.invariants.truth import GangFact, Truth

_THINKING_S = 2.0
"""Most seconds from the snapshot of a cycle to its result. The snapshot contains all that was received
before."""


class WholeGangs(Check):
    """S3: binds follow a decision that starts a complete gang; no gang stays partly bound for long.

    Complete means minMember members, and the minimums of as many subgroups as must start together. If only
    some must start together, each later subgroup starts with its minimum too. If a PodGroup reserves, members
    with a capacity hold count. A gang that runs with fewer members than its minimum, and has no losses any
    more, starts all waiting members that exist.

    "For long" means PARTIAL_S and PARTIAL_SLACK_S. After a disturbance the limit is DISTURBANCE_S from its
    end: no process leads; the leader is frozen, partitioned, new, or has a faulty network; the breaker may be
    open. The first write about a partly bound gang that is refused, lost or of unknown outcome is a
    disturbance too; later ones may be retries and are not. So is a volume that a member waits for, whose
    node was selected: L14 limits that time. Members without a controller are held, not released, and a gang
    with a succeeded member is finishing, so these gangs may stay partly bound.

    Succeeded members count after their deletion too: their controller does not create them again.
    """

    name = "S3"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._planned: dict[tuple[str, str], Placement] = {}
        self._targets: dict[tuple[str, str], str] = {}
        self._decided: dict[tuple[str, str], list[str]] = {}
        self._left: dict[GangKey, dict[str, None]] = {}
        self._succeeded: dict[GangKey, list[PodFact]] = {}
        """Members with a controller that were deleted after they had succeeded."""
        self._disturbed_at_by_gang: dict[GangKey, float] = {}
        self._disturbed_at = 0.0
        self._leader = ""
        self._reported: set[GangKey] = set()
        self._bound: set[str] = set()
        """Pods that a process has bound."""

    def on_change(self, change: Change) -> None:
        """Note members that left the gang; a running cycle may have counted them."""
        changed = self.truth.changed_pod
        if changed is None or changed.before is None:
            return
        before, after = changed.before, changed.after
        if after is None or after.gang != before.gang:
            self._left.setdefault(before.gang, {})[before.uid] = None
        if after is None and before.phase == "Succeeded" and before.controller:
            self._succeeded.setdefault(before.gang, []).append(before)

    # --- decisions -----------------------------------------------------------------------------------------

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        for placement in result.placements:
            for bind in placement.binds:
                self._planned[host, bind.pod] = placement
                self._targets[host, bind.pod] = bind.node
                self._decided.setdefault((host, placement.gang), []).append(bind.pod)
            self._check_complete(host, placement, result)

    def _check_complete(self, host: str, placement: Placement, result: CycleResult) -> None:
        first = self.truth.pods.get(placement.binds[0].pod) if placement.binds else None
        if first is None:
            return
        groups = self._groups(host, first.gang)
        planned = {bind.pod for bind in placement.binds}
        there = self._others(host, first.gang, planned)
        gone = self._gone_since(host, first.gang, placement, planned)
        if placement.cause == "start":
            ended = (*gone, *self._succeeded_before(first))
            needed, others = self._needed(first.gang, groups), len(there) + len({pod.uid for pod in ended})
            if any(group.reserves for group in groups):
                others += _held_members(result, placement)
            is_short = len(planned) + others < needed
            if is_short and not self._starts_rest(host, first.gang, there, planned):
                placed = f"{len(planned)} members placed and {others} bound"
                self.violated(placement.group, f"{placed} of {needed} in cycle {placement.cycle} of {host}")
        self._check_subgroups(host, placement, groups, [pod.subgroup for pod in (*there, *gone)])

    def _starts_rest(
        self, host: str, key: GangKey, there: Collection[PodFact], planned: Collection[str]
    ) -> bool:
        """Whether a part of the gang runs and all members that waited are placed beside it."""
        runs = any(pod.uid in self._bound for pod in there)
        return runs and set(planned).issuperset(self._waiting(host, key))

    def _waiting(self, host: str, key: GangKey) -> set[str]:
        """The members that waited for a node, as the cycle knew them."""
        revision = self._received(host, "pods")
        known = [self.truth.pod_at(pod.uid, revision) for pod in self.truth.members(key)]
        return {pod.uid for pod in known if isinstance(pod, PodFact) and pod.is_waiting and not pod.is_gated}

    def _succeeded_before(self, member: PodFact) -> list[PodFact]:
        """Succeeded members of the same controller that are gone."""
        succeeded = self._succeeded.get(member.gang, ())
        return [pod for pod in succeeded if pod.controller == member.controller]

    def _check_subgroups(
        self, host: str, placement: Placement, groups: Sequence[GroupFact], there: Sequence[str]
    ) -> None:
        """Check that a start places enough subgroups, and that later subgroups start with their minimum."""
        known = [self.truth.pods.get(bind.pod) for bind in placement.binds]
        planned = [pod.subgroup for pod in known if pod is not None]
        if len(planned) < len(known) or not all(group.subgroups for group in groups):
            return
        where = f"in cycle {placement.cycle} of {host}"
        short = [missing_for_start(group, [*planned, *there]) for group in groups]
        if placement.cause == "start" and short and all(short):
            self.violated(placement.group, f"starts with {short[0]} {where}")
        partial = [partial_subgroup(group, planned, there) for group in groups]
        if partial and all(partial):
            self.violated(placement.group, f"{partial[0]} {where}")

    def _needed(self, key: GangKey, groups: Sequence[GroupFact]) -> int:
        """The smallest minMember that the cycle may have seen."""
        if key.kind != "group":
            return self.truth.min_member(key)
        return min((group.min_member for group in groups), default=0)

    def _groups(self, host: str, key: GangKey) -> list[GroupFact]:
        """Versions of the PodGroup that the cycle may have seen."""
        if key.kind != "group":
            return []
        versions = self.truth.groups_since(key, self._received(host, GROUPS))
        return [group for group in versions if group is not None]

    def _others(self, host: str, key: GangKey, planned: Iterable[str]) -> list[PodFact]:
        """Members other than the planned ones that the cycle may have counted."""
        revision, skip = self._received(host, "pods"), set(planned)
        found = []
        for pod in self.truth.members(key):
            then = self.truth.pod_at(pod.uid, revision)
            counted = pod.counts_for_gang or (isinstance(then, PodFact) and then.counts_for_gang)
            is_new = self.truth.pod_changed_at(pod.uid) > revision
            assumed = (pod.is_waiting or is_new) and (host, pod.uid) in self._planned
            if pod.uid not in skip and (counted or assumed):
                found.append(pod)
        return found

    def _gone_since(
        self, host: str, key: GangKey, placement: Placement, planned: Iterable[str]
    ) -> list[PodFact]:
        """Members with nodes that left while the cycle was running."""
        revision, skip = self._received(host, "pods"), set(planned)
        decided = [
            uid
            for uid in self._decided.get((host, placement.gang), ())
            if uid not in self.truth.pods and self.truth.pod_changed_at(uid) > revision
        ]
        found: list[PodFact] = []
        for uid in dict.fromkeys((*decided, *self._left.get(key, ()))):
            now = self.truth.pods.get(uid)
            if uid not in skip and (now is None or now.gang != key):
                seen = [
                    pod for pod in self.truth.pod_since(uid, revision) if pod is not None and pod.gang == key
                ]
                found += [pod for pod in seen if pod.counts_for_gang or uid in decided][-1:]
        return found

    def _received(self, host: str, resource: str) -> int:
        process = self.truth.process_of(host)
        return (
            process.network.received.version_at(resource, self.now - _THINKING_S)
            if process is not None
            else 0
        )

    # --- binds ---------------------------------------------------------------------------------------------

    def on_call(self, call: Call) -> None:
        if call.is_bind and call.stage is Stage.SENT:
            self._check_planned(call)
        if call.is_bind and call.stage is Stage.LANDED and call.succeeded:
            self._bound.add(call.uid)
        if call.is_write and call.stage is Stage.ANSWERED and not call.answered_ok:
            self._note_disturbance(call)

    def _check_planned(self, call: Call) -> None:
        target = self._targets.get((call.host, call.uid))
        if target != call.node:
            decided = f"decided on {target}" if target else "no decision"
            self.violated(call.key.path, f"{call.host} binds it to {call.node}: {decided}")

    def _note_disturbance(self, call: Call) -> None:
        key = GangKey("group", call.key.namespace, call.key.name)
        if call.plural == "pods":
            pod = self.truth.pods.get(call.uid)
            if pod is None:
                return
            key = pod.gang
        gang, known = self.truth.gangs.get(key), self._disturbed_at_by_gang.get(key)
        began = gang.partial_since if gang is not None else None
        if known is None or began is None or known < began:
            self._disturbed_at_by_gang[key] = self.now

    # --- duration of partial binds -------------------------------------------------------------------------

    def on_tick(self) -> None:
        if self._is_disturbed():
            self._disturbed_at = self.now
        for gang in list(self.truth.partial.values()):
            self._check_partial(gang)

    def _check_partial(self, gang: GangFact) -> None:
        began = gang.partial_since
        if began is None or gang.key in self._reported or not self._could_act(gang):
            return
        if self.now > began + PARTIAL_S and self._awaits_a_volume(gang):
            self._disturbed_at_by_gang[gang.key] = self.now
        since = max(self._disturbed_at, self._disturbed_at_by_gang.get(gang.key, 0.0))
        is_disturbed = since > 0.0 and since + DISTURBANCE_S > began
        end = max(began, since) + DISTURBANCE_S if is_disturbed else began + PARTIAL_S
        if self.now > end + PARTIAL_SLACK_S:
            self._reported.add(gang.key)
            needed = self.truth.min_member(gang.key)
            self.violated(gang, f"{gang.active} of {needed} members bound for {self.now - began:.0f} s")

    def _awaits_a_volume(self, gang: GangFact) -> bool:
        """Whether a member was placed and its volume is not provisioned: the outcome of its bind is open."""
        waiting = [pod for pod in self.truth.members(gang.key) if pod.is_waiting]
        store = self.context.store
        return any(awaits_a_volume(found(store, self.truth.key_of(pod)) or {}, store) for pod in waiting)

    def _could_act(self, gang: GangFact) -> bool:
        """Whether the gang can be released: all its bound members have a controller that recreates them.

        A gang with a succeeded member is finishing and is not released.
        """
        members = list(self.truth.members(gang.key))
        if any(pod.phase == "Succeeded" for pod in members):
            return False
        bound = [pod for pod in members if pod.node and pod.counts_for_gang and not pod.is_finished]
        return all(pod.is_ours for pod in members) and bool(bound) and all(pod.controller for pod in bound)

    def _is_disturbed(self) -> bool:
        leader = self._leading()
        changed = leader != self._leader
        self._leader = leader
        process = self.truth.process_of(leader)
        if changed or process is None or process.host.state is not State.RUNNING:
            return True
        if self.truth.breaker_may_be_open:
            return True
        network = process.network
        return network.partitioned or network.is_faulty

    def _leading(self) -> str:
        for replica in self.context.replicas:
            if replica.process is not None and replica.process.scheduler.is_leading:
                return replica.process.host.name
        return ""


def _held_members(result: CycleResult, placement: Placement) -> int:
    """Number of members of its gang for which the cycle holds capacity."""
    composition = result.memory.compositions.get(placement.gang)
    return sum(part.count for parts in composition.held.values() for part in parts) if composition else 0


class OneDomain(Check):
    """S5: all members of a gang with a required level are in one domain of it.

    A node's domain may be the present one or the one that the sender knew. Members are ignored whose node is
    deleted or has lost its topology labels, or whose label has just moved them into the gang.
    """

    name = "S5"

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.LANDED or not call.succeeded:
            return
        pod = self.truth.pods.get(call.uid)
        group = self.truth.group_of(pod.gang) if pod is not None else None
        if pod is None or group is None or not self._still_required(call, pod.gang):
            return
        revision, decided = (
            self.truth.known_to_sender(call, "nodes"),
            self.truth.known_to_sender(call, "pods", before_s=DECIDED_S),
        )
        here = self._domains(call.node, revision, group.topology, group.required)
        if here is None:
            return
        seen: set[str] = set()
        for other in self.truth.members(pod.gang):
            if other.uid == pod.uid or not other.counts_for_gang or other.is_finished or other.node in seen:
                continue
            seen.add(other.node)
            if any(known and known.gang != pod.gang for known in self.truth.pod_since(other.uid, decided)):
                continue
            there = self._domains(other.node, revision, group.topology, group.required)
            if there and not here & there:
                self.violated(
                    pod, f"bound to {call.node} outside the {group.required} of {other.name} on {other.node}"
                )
                return

    def _still_required(self, call: Call, key: GangKey) -> bool:
        """Whether the level was required continuously since the sender's state."""
        groups = self.truth.groups_since(key, self.truth.known_to_sender(call, GROUPS))
        levels = {(group.topology, group.required) if group is not None else ("", "") for group in groups}
        return len(levels) == 1 and all(required for _, required in levels)

    def _domains(self, node: str, revision: int, topology: str, level: str) -> set[tuple[str, ...]] | None:
        """The domains that contain or contained the node; None if unknown."""
        labels = self.truth.trees.of(topology).labels_down_to(level)
        if labels is None:
            return None
        versions: list[NodeFact | None] = self.truth.nodes_since(node, revision)
        paths = [
            tuple(version.labels.get(label, "") for label in labels)
            for version in versions
            if version is not None
        ]
        return {path for path in paths if all(path)}


class OwnMembersOnly(Check):
    """S10: a placement holds pods of the gang's namespace that name it and share its controller."""

    name = "S10"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        for placement in result.placements:
            for bind in placement.binds:
                self._check(placement, bind)

    def _check(self, placement: Placement, bind: Bind) -> None:
        pod, group = self.truth.pods.get(bind.pod), self.truth.group_with(placement.gang)
        if pod is None:
            return
        if group is None:
            if pod.gang.kind == "group" and placement.gang != pod.uid:
                self.violated(pod, f"placed as a member of {placement.group}, which is not its PodGroup")
            return
        if pod.gang != GangKey("group", group.namespace, group.name):
            self.violated(pod, f"placed as a member of {placement.group}, which it does not name")
        elif group.controller and group.controller not in pod.owners:
            self.violated(pod, f"placed as a member of {placement.group}, whose controller does not own it")


Domain = tuple[str, ...]


class SubgroupsInOneDomain(Check):
    """S21: a cycle leaves each subgroup in one domain of its level, or in whole segments.

    Placed members count where the snapshot has them. Only domains to which the cycle adds members are
    checked, since members elsewhere may have been lost.
    """

    name = "S21"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        targets = {bind.pod: bind.node for placement in result.placements for bind in placement.binds}
        for name in dict.fromkeys(placement.gang for placement in result.placements):
            gang = snapshot.gangs.get(name)
            if gang is not None:
                for part in gang.subgroups:
                    if part.required is not None:
                        self._check(snapshot, gang, part, targets)

    def _check(
        self, snapshot: Snapshot, gang: Gang, part: SubgroupSpec, targets: dict[PodUid, NodeName]
    ) -> None:
        added, counts = _members_by_domain(snapshot, gang, part, targets)
        what = f"{part.name} of {gang}"
        if any(not all(domain) for domain in added):
            self.violated(what, f"a member is placed in no {part.required}")
        elif part.segment:
            for domain in sorted(added):
                if counts[domain] % part.segment:
                    self.violated(what, f"{counts[domain]} in {'/'.join(domain)}, segments of {part.segment}")
        elif added and len(counts) > 1:
            self.violated(what, f"is in {len(counts)} domains of level {part.required}")


def _members_by_domain(
    snapshot: Snapshot, gang: Gang, part: SubgroupSpec, targets: dict[PodUid, NodeName]
) -> tuple[set[Domain], Counter[Domain]]:
    """Domains to which members of the subgroup are added, and all its members by domain."""
    around = ancestor_chains(gang.subgroups)
    added: set[Domain] = set()
    counts: Counter[Domain] = Counter()
    for pod in gang.members:
        if part.name not in around.get(pod.subgroup, ()) or pod.deleting or pod.is_finished:
            continue
        node = targets.get(pod.uid) or pod.node
        domain = _domain(snapshot, gang, part, node) if node is not None else None
        if domain is not None:
            counts[domain] += 1
            added |= {domain} if pod.uid in targets else set()
    return added, counts


def _domain(snapshot: Snapshot, gang: Gang, part: SubgroupSpec, node: NodeName) -> Domain | None:
    """The domain by the node's labels, with empty names for missing labels; None for a missing node."""
    state = snapshot.nodes.get(node)
    levels = snapshot.topologies[part.topology or gang.topology.name or ""].levels
    names = [level.name for level in levels]
    if state is None or part.required not in names:
        return None
    down = levels[: names.index(part.required) + 1]
    return tuple(state.node.labels.get(level.node_label, "") for level in down)
