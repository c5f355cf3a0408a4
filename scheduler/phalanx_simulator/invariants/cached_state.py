"""L5, S18: the schedulers' cached state matches the API, and is empty once all is deleted.

These checks read the caches of live processes.
"""

from collections.abc import Iterator
from typing import Final

from phalanx.model.awaited_pods import is_awaited
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, QueueName
from phalanx.model.nodes import Node
from phalanx.model.queues import DEFAULT, Queue
from phalanx.model.resources import Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import is_chosen_by_kubelet

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.faults.edits import PRIORITY_CLASSES
from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.replica import Process
from phalanx_simulator.invariants.bounds import CACHE_PERIOD_S, CONVERGED_S, HEALED_S
from phalanx_simulator.invariants.cache_tables import check_cache
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import YUNIKORN_PREFIX, GroupFact, NodeFact
from phalanx_simulator.invariants.native_groups import group_key, is_of_dialect
from phalanx_simulator.invariants.oracle import amounts_of, path_of
from phalanx_simulator.invariants.queue_accounts import QueueAccounts
from phalanx_simulator.invariants.truth import QUEUES, Truth

_KEPT_WHEN_GONE: Final = (QUEUES, PRIORITY_CLASSES, "namespaces")
_MIXED: Final = 2
"""Number of queues for which members of one gang were bound, of which the order of members selects one."""


class CacheMatchesApi(Check):
    """L5: a cache reflects every change older than CONVERGED_S while its connection is healthy.

    It compares nodes and their usage, pods, the fields of gangs that come from PodGroups and PriorityClasses,
    and queues, every CACHE_PERIOD_S and at rest. Newer writes are ignored, and so is the usage of nodes with
    a bind in flight.
    """

    name = "L5"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._next = CACHE_PERIOD_S
        self._accounts = QueueAccounts(context.store)
        self._gone: dict[Key, int] = {}

    def on_change(self, change: Change) -> None:
        """Note deleted queues, namespaces and classes, which have no history."""
        if change.type is ChangeType.DELETED and change.entry.key.resource in _KEPT_WHEN_GONE:
            self._gone[change.entry.key] = change.entry.revision

    def on_tick(self) -> None:
        if self.now >= self._next:
            self._next = self.now + CACHE_PERIOD_S
            self._compare()

    def at_rest(self) -> None:
        self._compare()

    def _compare(self) -> None:
        for process in self._up_to_date():
            before = self.truth.revision_before(CONVERGED_S)
            snapshot = _snapshot_of(process)
            for problem in self._problems(snapshot, before):
                self.violated(process.host.name, problem)
                break
            try:
                check_cache(process.cache)
            except AssertionError as error:
                self.violated(process.host.name, f"the cache contradicts itself: {error}")

    def _up_to_date(self) -> Iterator[Process]:
        """Processes that have received every change older than CONVERGED_S."""
        for replica in self.context.replicas:
            process = replica.process
            if process is not None and self.truth.healthy_s(process.host.name) > HEALED_S:
                yield process

    def _problems(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        yield from self._of_nodes(snapshot, before)
        yield from self._of_pods(snapshot, before)
        yield from self._of_groups(snapshot, before)
        yield from self._of_queues(snapshot, before)
        yield from self._of_accounts(snapshot, before)

    def _of_nodes(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        members = [pod for gang in snapshot.gangs.values() for pod in gang.members]
        assumed = {pod.node for pod in members if pod.assumed or is_awaited(pod.uid)}
        for name in sorted(self.truth.nodes.keys() | snapshot.nodes.keys()):
            node, state = self.truth.nodes.get(name), snapshot.nodes.get(NodeName(name))
            if self.truth.node_changed_at(name) > before:
                continue
            if node is None or state is None:
                why = "not in the cache" if state is None else "deleted, and still in the cache"
                yield f"node {name} is {why}"
            elif wrong := of_node(state.node, node):
                yield f"node {name} {wrong}, and the cache does not show it"
            elif name not in assumed and not self._is_busy(name, before):
                used = self.truth.used.get(name, {})
                if differ(state.used, used):
                    yield f"node {name} uses {used}, cached {dict(state.used)}"

    def _is_busy(self, node: str, before: int) -> bool:
        """Whether pods arrived, left or finished there recently."""
        return any(self.truth.pod_changed_at(uid) > before for uid in self.truth.recent_pods_on(node))

    def _of_pods(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        cached: set[str] = set()
        for gang in snapshot.gangs.values():
            yield from self._of_gang(gang, before, cached)
        for pod in self.truth.pods.values():
            is_old = not self._changed(self.truth.key_of(pod), before)
            if pod.is_ours and pod.uid not in cached and is_old:
                yield f"pod {pod} is not in the cache"

    def _of_gang(self, gang: Gang, before: int, cached: set[str]) -> Iterator[str]:
        for member in gang.members:
            cached.add(member.uid)
            pod = self.truth.pods.get(member.uid)
            if self.truth.pod_changed_at(member.uid) > before or member.assumed:
                continue
            if is_awaited(member.uid):
                continue  # no pod of the API
            if pod is None:
                yield f"pod {member} is deleted, and still in the cache"
            elif (member.node or "", member.phase.value, member.deleting) != (
                pod.node,
                pod.phase,
                pod.is_deleting,
            ):
                yield f"pod {pod} is {pod.phase} on {pod.node or 'no node'}, cached {member.phase.value}"

    def _of_groups(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        for gang in snapshot.gangs.values():
            yield from self._of_basic_groups(gang, before)
            key = group_key(gang)
            if gang.kind is not GangKind.POD_GROUP or len(self.truth.groups_since(key, before)) > 1:
                continue
            group = self.truth.group_of(key)
            wrong = of_gang(gang, group)
            if wrong:
                yield f"gang {gang} {wrong}"
            elif group is not None:
                yield from self._of_priority(gang, group, before)

    def _of_basic_groups(self, gang: Gang, before: int) -> Iterator[str]:
        """Pods of a native PodGroup are gangs of one if it has the policy basic and nothing else."""
        pod = self.truth.pods.get(gang.members[0].uid)
        if pod is None or not is_of_dialect(pod.gang.name):
            return
        if len(self.truth.groups_since(pod.gang, before)) > 1 or self.truth.pod_changed_at(pod.uid) > before:
            return
        if pod.gang.name.startswith(YUNIKORN_PREFIX) and pod.is_finished:
            return  # it may be of an earlier application of the same ID
        group = self.truth.group_of(pod.gang)
        is_basic = group is not None and group.spec["isBasic"]
        if is_basic != (gang.kind is GangKind.POD):
            yield f"gang {gang} is cached as {gang.kind}, its PodGroup is {'' if is_basic else 'not '}basic"

    def _of_priority(self, gang: Gang, group: GroupFact, before: int) -> Iterator[str]:
        """The priority is that of the class, or the lower one that pods and queue allow."""
        entry = self.context.store.get(Key(PRIORITY_CLASSES, "", group.spec.get("priorityClassName") or ""))
        if entry is None or entry.revision > before or self._is_rearranged(before):
            return
        value, lowest = entry.data["value"], min(pod.priority for pod in gang.members)
        bounds = [lowest, *self._max_priorities(gang.queue)]
        if gang.priority > value or (gang.priority < value and gang.priority not in (*bounds, 0)):
            yield f"gang {gang} has the priority {value}, cached {gang.priority}"

    def _max_priorities(self, queue: str) -> Iterator[int]:
        specs = {entry.key.name: entry.data.get("spec") or {} for entry in self.context.store.entries(QUEUES)}
        for name in path_of(queue, specs):
            if "maxPodGroupPriority" in specs[name]:
                yield specs[name]["maxPodGroupPriority"]

    def _of_accounts(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        """Each gang is charged to the queue that the objects say, whatever the process has seen before."""
        if self._is_rearranged(before):
            return
        for gang in snapshot.gangs.values():
            pods = [self.truth.pods.get(pod.uid) for pod in gang.members]
            members = [pod for pod in pods if pod is not None]
            if len(members) < len(pods) or any(pod.assumed for pod in gang.members):
                continue
            if any(self.truth.pod_changed_at(pod.uid) > before for pod in members):
                continue
            key = members[0].gang
            if len(self.truth.groups_since(key, before)) > 1 if key.kind == "group" else False:
                continue
            has_group = gang.kind is GangKind.POD_GROUP or is_of_dialect(key.name)
            group = self.truth.group_of(key) if has_group else None
            queue = self._accounts.queue_of(group, members)
            if gang.queue != queue and len(self._accounts.started_in(members)) < _MIXED:
                yield f"gang {gang} is in queue {queue}, cached {gang.queue}"

    def _is_rearranged(self, before: int) -> bool:
        """Whether a queue or a namespace changed since this revision."""
        entries = [*self.context.store.entries(QUEUES), *self.context.store.entries("namespaces")]
        gone = [revision for key, revision in self._gone.items() if key.resource != PRIORITY_CLASSES]
        return any(entry.revision > before for entry in entries) or any(each > before for each in gone)

    def _of_queues(self, snapshot: Snapshot, before: int) -> Iterator[str]:
        written = {
            entry.key.name: entry.data.get("spec") or {} for entry in self.context.store.entries(QUEUES)
        }
        for name in sorted(written.keys() | snapshot.queues.keys()):
            key, queue, spec = Key(QUEUES, "", name), snapshot.queues.get(QueueName(name)), written.get(name)
            if self._changed(key, before) or self._gone.get(key, 0) > before:
                continue
            if spec is None and queue is not None and queue != DEFAULT:
                yield f"queue {name} is deleted, and still in the cache"
            elif spec is not None and (wrong := of_queue(queue, spec) if queue else "is not in the cache"):
                yield f"queue {name} {wrong}"

    def _changed(self, key: Key, before: int) -> bool:
        entry = self.context.store.get(key)
        return entry is not None and entry.revision > before


class NothingIsLeaked(Check):
    """S18: after everything was deleted, no live process knows a gang or counts usage for one.

    Pods of other schedulers may still exist.
    """

    name = "S18"

    def at_end(self) -> None:
        if any(pod.is_ours for pod in self.truth.pods.values()):
            return
        for replica in self.context.replicas:
            process = replica.process
            if process is None or process.host.state is not State.RUNNING or process.task.done():
                continue
            snapshot = _snapshot_of(process)
            if snapshot.gangs:
                self.violated(process.host.name, f"still caches gangs: {sorted(snapshot.gangs)[:3]}")
            if snapshot.queue_usage:
                self.violated(process.host.name, f"still counts usage: {dict(snapshot.queue_usage)}")
            if not self.truth.pods and any(any(state.used.values()) for state in snapshot.nodes.values()):
                self.violated(process.host.name, "still counts pods on nodes")


def _snapshot_of(process: Process) -> Snapshot:
    return process.cache.snapshot(now=0, seed=0, memory=Memory())


_OPEN: Final = "Open"
_MISSING: Final = "missing:"


def of_node(node: Node, true: NodeFact) -> str:
    """How a cached node differs in health, constraints or capacity; empty if it does not."""
    taints = {(taint.key, taint.value, taint.effect) for taint in node.taints}
    if node.uid != true.uid:
        return "has another UID"
    if node.unschedulable != true.is_cordoned:
        return f"is {'' if true.is_cordoned else 'not '}cordoned"
    if taints != {
        (taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")) for taint in true.taints
    }:
        return "has other taints"
    if dict(node.labels) != dict(true.labels):
        return "has other labels"
    if dict(node.conditions) != dict(true.conditions):
        return "has other conditions"
    return (
        "" if node.problems or not differ(node.allocatable, true.allocatable) else "has another allocatable"
    )


def of_gang(gang: Gang, true: GroupFact | None) -> str:
    """How a cached gang differs from its PodGroup, which is None if missing; empty if it does not."""
    if true is None:
        return "" if gang.id.startswith(_MISSING) else "has lost its PodGroup"
    if gang.id != true.uid:
        return "has another PodGroup" if not gang.id.startswith(_MISSING) else "has a PodGroup"
    cached = (
        gang.min_member,
        gang.reserves,
        gang.topology.name or "",
        gang.topology.required or "",
        gang.topology.preferred or "",
        tuple((part.name, part.parent) for part in gang.subgroups),
    )
    actual = (
        true.min_member,
        true.reserves,
        true.topology,
        true.required,
        (true.spec.get("topology") or {}).get("preferred") or "",
        tuple((part.name, part.parent) for part in true.subgroups),
    )
    return "" if cached == actual else f"is {actual}, cached {cached}"


def of_queue(queue: Queue, true: Object) -> str:
    """How a cached queue differs from its spec; empty if it does not.

    A missing or circular parent counts as none.
    """
    if queue.parent != (true.get("parent") or None) and not (queue.parent is None and queue.problems):
        return f"has the parent {true.get('parent')}, cached {queue.parent}"
    for name, amounts in (("guarantee", queue.guarantee), ("limit", queue.limit)):
        written = amounts_of(true.get(name) or {})
        if differ(amounts, written):
            return f"has the {name} {written}, cached {dict(amounts)}"
    cached = (queue.weight, queue.priority, queue.state.value)
    actual = (max(true.get("weight", 1), 1), true.get("priority") or 0, true.get("state") or _OPEN)
    return "" if cached == actual else f"is {actual}, cached {cached}"


def differ(cached: Resources, true: Resources) -> bool:
    """Whether the amounts differ; NUMA zone pseudo-resources are ignored."""
    names = [name for name in cached.keys() | true.keys() if not is_chosen_by_kubelet(name)]
    return any(cached.get(name, 0) != true.get(name, 0) for name in names)
