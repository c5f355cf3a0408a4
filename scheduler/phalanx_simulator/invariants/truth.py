"""Ground truth: the API's state, updated by each change, and the state that each scheduler has received."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct
from phalanx.model.api.meta import ListMeta
from phalanx.model.resources import Resources, subtract

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object, Store
from phalanx_simulator.hosts.host import State, WorldClock
from phalanx_simulator.hosts.replica import Process, Replica
from phalanx_simulator.invariants.applications import application_group
from phalanx_simulator.invariants.bounds import BREAKER_OPEN_S, CONVERGED_S, GONE_KEPT_S, RECEIVED_MARGIN_S
from phalanx_simulator.invariants.calls import Call
from phalanx_simulator.invariants.facts import (
    GangKey,
    GroupFact,
    NodeFact,
    PodFact,
    group_fact,
    missing_for_start,
    node_fact,
    pod_fact,
    pods_of_job,
)
from phalanx_simulator.invariants.history import UNKNOWN, History, Unknown
from phalanx_simulator.invariants.native_groups import GROUPS, OF_DIALECTS, as_ours
from phalanx_simulator.invariants.topology import Trees

JOBS = "jobs.batch"
PODS = "pods"
NODES = "nodes"
QUEUES = "queues.scheduling.phalanx.dev"


class GangFact:
    """One gang: all pods that name it.

    `active`: number of members that count for minMember. `succeeded`: number of succeeded pods.
    `has_started`: minMember was reached once for this PodGroup, or any member was bound if the PodGroup
    reserves capacity for the others. `starts_over`: since the start all members were lost, and minMember was
    not reached again. `partial_since`: since when some members, but fewer than minMember, are bound.
    """

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.uid = ""
        self.pods: dict[str, None] = {}
        self.active = 0
        self.succeeded = 0
        self.has_started = False
        self.starts_over = False
        self.partial_since: float | None = None

    def count(self, pod: PodFact, times: int) -> None:
        """Add one of its pods, or remove it with -1.

        Counting all of them each time would be too slow.
        """
        self.active += times * pod.counts_for_gang
        self.succeeded += times * (pod.phase == "Succeeded")

    def __str__(self) -> str:
        return f"{self.key.namespace}/{self.key.name}"


class PodChange(Struct, frozen=True):
    """A pod before and after a write; None where it did not exist."""

    before: PodFact | None
    after: PodFact | None

    @property
    def pod(self) -> PodFact:
        """The version that exists; the later of two."""
        found = self.after or self.before
        assert found is not None
        return found


class Truth:
    """The present state, and the state that a host has received. All queries are cheap.

    `partial`: gangs that have not started and are partly bound. `broken`: since when started gangs that are
    not finishing are below their minimum. `bad_nodes` and `good_nodes`: since when nodes are faulty or
    deleted, or healthy. `trees`: the node labels of topology levels.
    """

    def __init__(self, store: Store, clock: WorldClock, replicas: tuple[Replica, ...]) -> None:
        self.store = store
        self.trees = Trees(store)
        self.pods: dict[str, PodFact] = {}
        self.nodes: dict[str, NodeFact] = {}
        self.groups: dict[tuple[str, str], GroupFact] = {}
        self.gangs: dict[GangKey, GangFact] = {}
        self.partial: dict[GangKey, GangFact] = {}
        self.broken: dict[GangKey, float] = {}
        self.bad_nodes: dict[str, float] = {}
        self.good_nodes: dict[str, float] = {}
        self._started: dict[str, None] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.changed_pod: PodChange | None = None
        self._capacity_appeared: dict[str, float] = {}
        self._clock = clock
        self._replicas = replicas
        self._pod_histories: dict[str, History[PodFact]] = {}
        self._node_histories: dict[str, History[NodeFact]] = {}
        self._group_histories: dict[tuple[str, str], History[GroupFact]] = {}
        self._group_by_uid: dict[str, GroupFact] = {}
        self._pods_of_jobs: dict[str, int] = {}
        self._applications: dict[str, dict[str, None]] = {}
        """Pods that define applications, by UID of the application."""
        self._on_node: dict[str, dict[str, None]] = {}
        self._left: deque[tuple[float, str, str]] = deque()
        self._revisions: deque[tuple[float, int]] = deque(maxlen=_TICKS_KEPT)
        self._disturbed_at: dict[str, float] = {}
        for resource in (GROUPS, *OF_DIALECTS, JOBS, NODES, PODS):
            for entry in store.entries(resource):
                self.take(Change(ChangeType.ADDED, entry, None))

    # --- changes -------------------------------------------------------------------------------------------

    def take(self, change: Change) -> None:
        """Apply a write; `changed_pod` describes it if it is of a pod, else it is None."""
        resource = change.entry.key.resource
        self.changed_pod = None
        if resource == PODS:
            self._take_pod(change)
        elif resource == NODES:
            self._take_node(change)
        elif resource == GROUPS:
            self._take_group(change, change.entry.data)
        elif resource in OF_DIALECTS:
            self._take_group(change, as_ours(resource, change.entry.data))
        elif resource == JOBS:
            self._pods_of_jobs[change.entry.data["metadata"]["uid"]] = pods_of_job(change.entry.data)

    def tick(self) -> None:
        """Record the revision of this second, and drop old history."""
        now = self._clock.monotonic()
        self._revisions.append((now, self.store.revision))
        for replica in self._replicas:
            self._check_replica(replica, now)
        while self._left and self._left[0][0] <= now - GONE_KEPT_S:
            _, uid, node = self._left.popleft()
            pod = self.pods.get(uid)
            if pod is None:
                self._pod_histories.pop(uid, None)
            if pod is None or not pod.holds_node or pod.node != node:
                self._on_node.get(node, {}).pop(uid, None)

    def _check_replica(self, replica: Replica, now: float) -> None:
        process = replica.process
        if process is None or process.task.done() or process.host.state is not State.RUNNING:
            self._disturbed_at[replica.name] = now
            return
        if process.network.partitioned or process.network.is_faulty:
            self._disturbed_at[replica.name] = now

    def _take_pod(self, change: Change) -> None:
        data = change.entry.data
        before = self.pods.get(data["metadata"]["uid"])
        after = None
        if change.type is not ChangeType.DELETED:
            after = pod_fact(data, before, _same_containers(change))
        self.changed_pod = PodChange(before, after)
        uid = self.changed_pod.pod.uid
        if after is None:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = after
        self._pod_histories.setdefault(uid, History()).add(change.entry.revision, after)
        self._move_usage(before, after)
        defined = application_group(data) if after is not None else None
        if defined is not None:
            self._applications.setdefault(group_fact(defined).uid, {})[uid] = None
            self._take_group(change, defined)
        self._move_gang(before, after)
        if after is None:
            self._leave_application(change)
        if after is None:
            self._left.append((self._clock.monotonic(), uid, before.node if before is not None else ""))

    def _leave_application(self, change: Change) -> None:
        """The last pod that defines an application takes it with it."""
        defined = application_group(change.entry.data)
        if defined is not None:
            pods = self._applications[defined["metadata"]["uid"]]
            pods.pop(change.entry.data["metadata"]["uid"], None)
            if not pods:
                self._take_group(change, defined)

    def _move_usage(self, before: PodFact | None, after: PodFact | None) -> None:
        held = before if before is not None and before.holds_node else None
        holds = after if after is not None and after.holds_node else None
        if held is not None and (holds is None or holds.node != held.node or holds.used != held.used):
            self._add(held.node, held.used, -1)
            self._capacity_appeared[held.node] = self._clock.monotonic()
            self._left.append((self._clock.monotonic(), held.uid, held.node))
        if holds is not None and (held is None or holds.node != held.node or holds.used != held.used):
            self._add(holds.node, holds.used, 1)
            self._on_node.setdefault(holds.node, {})[holds.uid] = None

    def _add(self, node: str, requests: Resources | None, times: int) -> None:
        used = self.used.setdefault(node, {})
        for name, amount in (requests or {}).items():
            used[name] = used.get(name, 0) + times * amount

    def _move_gang(self, before: PodFact | None, after: PodFact | None) -> None:
        if before is not None and (after is None or after.gang != before.gang):
            gang = self.gangs[before.gang]
            del gang.pods[before.uid]
            gang.count(before, -1)
            self._update_gang(gang)
            if not gang.pods:
                del self.gangs[before.gang]
            before = None
        if after is not None:
            gang = self.gangs.setdefault(after.gang, GangFact(after.gang))
            gang.pods[after.uid] = None
            if before is not None:
                gang.count(before, -1)
            gang.count(after, 1)
            self._update_gang(gang)

    def _update_gang(self, gang: GangFact) -> None:
        """Update whether the gang has started, is partly bound, or is broken."""
        group = self.group_of(gang.key)
        uid = group.uid if group is not None else f"{gang.key.namespace}/{gang.key.name}"
        if uid != gang.uid:
            gang.uid, gang.has_started, gang.partial_since = uid, uid in self._started, None
        needed = self.min_member(gang.key)
        is_short = gang.active < needed or (group is not None and self._lacks_subgroups(gang, group))
        reserves = group is not None and group.reserves and gang.active > 0
        if not gang.has_started and needed > 0 and (reserves or not is_short):
            gang.has_started = True
            self._started[uid] = None
        gang.starts_over = gang.has_started and is_short and (gang.starts_over or not gang.active)
        self._update_broken(gang, is_short=is_short)
        if gang.active > 0 and is_short and not gang.has_started:
            if gang.partial_since is None:
                gang.partial_since = self._clock.monotonic()
            self.partial[gang.key] = gang
        else:
            gang.partial_since = None
            self.partial.pop(gang.key, None)

    def _lacks_subgroups(self, gang: GangFact, group: GroupFact) -> bool:
        if not group.subgroups:
            return False
        counted = [self.pods[uid].subgroup for uid in gang.pods if self.pods[uid].counts_for_gang]
        return bool(missing_for_start(group, counted))

    def _update_broken(self, gang: GangFact, *, is_short: bool) -> None:
        is_below = gang.has_started and is_short
        if is_below and gang.key.kind != "pod" and not gang.succeeded:
            since = self.broken.setdefault(gang.key, self._clock.monotonic())
            # If all pods were deleted, a scheduler sees the loss when new pods are created.
            self.broken[gang.key] = since if gang.pods else self._clock.monotonic()
        else:
            self.broken.pop(gang.key, None)

    def _take_node(self, change: Change) -> None:
        name = change.entry.key.name
        history = self._node_histories.setdefault(name, History())
        fact = None if change.type is ChangeType.DELETED else node_fact(change.entry.data)
        if fact is None:
            self.nodes.pop(name, None)
        elif fact == self.nodes.get(name):
            return
        else:
            self.nodes[name] = fact
        history.add(change.entry.revision, fact)
        self._capacity_appeared[name] = self._clock.monotonic()
        if fact is None or fact.fault:
            self.good_nodes.pop(name, None)
            self.bad_nodes.setdefault(name, self._clock.monotonic())
        else:
            self.bad_nodes.pop(name, None)
            self.good_nodes.setdefault(name, self._clock.monotonic())

    def _take_group(self, change: Change, data: Object) -> None:
        place = (data["metadata"]["namespace"], data["metadata"]["name"])
        fact = None if change.type is ChangeType.DELETED else group_fact(data)
        gang = self.gangs.get(GangKey("group", *place))
        if gang is not None and fact is not None and (data.get("status") or {}).get("startedAt"):
            self._accept_reported_start(gang)
        if fact is None:
            self.groups.pop(place, None)
        elif fact == self.groups.get(place):
            return
        else:
            self.groups[place] = fact
            self._group_by_uid[fact.uid] = fact
        self._group_histories.setdefault(place, History()).add(change.entry.revision, fact)
        if gang is not None:
            self._update_gang(gang)

    def _accept_reported_start(self, gang: GangFact) -> None:
        """Accept a reported start; its reporter may not know a recent increase of minMember."""
        recent = self.groups_since(gang.key, self.revision_before(CONVERGED_S))
        least = min((group.min_member for group in recent if group is not None), default=0)
        if not gang.has_started and 0 < least <= gang.active:
            gang.has_started = True
            self._started[gang.uid] = None
            self._update_gang(gang)

    # --- present state -------------------------------------------------------------------------------------

    def group_of(self, key: GangKey) -> GroupFact | None:
        """The PodGroup of a gang that has one."""
        return self.groups.get((key.namespace, key.name)) if key.kind == "group" else None

    def group_with(self, uid: str) -> GroupFact | None:
        """The last version of the PodGroup with this UID, even if it is deleted."""
        return self._group_by_uid.get(uid)

    def min_member(self, key: GangKey) -> int:
        """Number of members that a gang needs; 0 where its PodGroup does not exist."""
        if key.kind == "group":
            group = self.group_of(key)
            return group.min_member if group is not None else 0
        gang = self.gangs.get(key)
        if key.kind == "pod" or gang is None:
            return 1
        if key.kind == "job":
            return self._pods_of_jobs.get(key.name, 1)
        return max((self.pods[uid].min_member for uid in gang.pods if uid in self.pods), default=1)

    def members(self, key: GangKey) -> Iterator[PodFact]:
        """The pods that name a gang, in order of their creation."""
        gang = self.gangs.get(key)
        return (self.pods[uid] for uid in (gang.pods if gang is not None else ()))

    def free(self, node: NodeFact) -> dict[str, int]:
        """Free resources of a node; negative where it is overcommitted."""
        return dict(subtract(node.allocatable, self.used.get(node.name, {})))

    def our_gangs(self) -> Iterable[GangFact]:
        """All gangs with a pod that names our scheduler."""
        return [gang for gang in self.gangs.values() if any(self.pods[uid].is_ours for uid in gang.pods)]

    # --- lists that hosts receive --------------------------------------------------------------------------

    def note_list_response(self, call: Call) -> None:
        """Record the version of a list when its last page is answered."""
        response = call.exchange.response
        if call.verb != "list" or response is None or not call.answered_ok:
            return
        meta = _decode_page(response.body).metadata
        process = self.process_of(call.host)
        if process is not None and not meta.continue_token and meta.resource_version.isdecimal():
            process.network.received.update(call.key.resource, int(meta.resource_version))
            process.network.received.note_list(call.key.resource)

    # --- earlier states ------------------------------------------------------------------------------------

    def known_to_sender(self, call: Call, resource: str, *, before_s: float = 0.0) -> int:
        """The revision of a kind that the sender must have known `before_s` before sending; 0 if unknown."""
        return self._received_by(call.host, resource, call.exchange.sent_at - before_s)

    def received(self, host: str, resource: str, *, before_s: float = 0.0) -> int:
        """The revision of a kind that a process must have known `before_s` ago; 0 if unknown."""
        return self._received_by(host, resource, self._clock.monotonic() - before_s)

    def _received_by(self, host: str, resource: str, at_s: float) -> int:
        process = self.process_of(host)
        return (
            process.network.received.version_at(resource, at_s - RECEIVED_MARGIN_S)
            if process is not None
            else 0
        )

    def process_of(self, host: str) -> Process | None:
        """The process of that name, if it is the latest of its replica."""
        replica = self.replica_of(host)
        return replica.process if replica is not None else None

    def replica_of(self, host: str) -> Replica | None:
        """The replica whose latest process has this name."""
        for replica in self._replicas:
            if replica.process is not None and replica.process.host.name == host:
                return replica
        return None

    def has_capacity_appeared(self, within_s: float, *, excluding: Collection[str] = ()) -> bool:
        """Whether a pod freed capacity or a node changed recently, except on these nodes."""
        since = self._clock.monotonic() - within_s
        return any(at > since for node, at in self._capacity_appeared.items() if node not in excluding)

    @property
    def breaker_may_be_open(self) -> bool:
        """Whether so many nodes turned bad recently that a scheduler may suspend evictions."""
        lately = self._clock.monotonic() - BREAKER_OPEN_S
        turned = sum(since > lately for since in self.bad_nodes.values())
        return 3 * turned > len(self.nodes)

    def healthy_s(self, host: str) -> float:
        """Seconds for which this process has run with a healthy connection to the API server."""
        replica = self.replica_of(host)
        if replica is None:
            return 0.0
        return self._clock.monotonic() - self._disturbed_at.get(replica.name, 0.0)

    def revision_before(self, seconds: float) -> int:
        """The revision of that many seconds ago, or slightly earlier; 0 before the beginning."""
        limit = self._clock.monotonic() - seconds
        return next((revision for at, revision in reversed(self._revisions) if at <= limit), 0)

    def pod_changed_at(self, uid: str) -> int:
        """The revision of the last write of a pod; 0 if it is forgotten."""
        history = self._pod_histories.get(uid)
        return history.changed_at if history is not None else 0

    def pod_created_at(self, uid: str) -> int:
        """The revision of the first remembered write of a pod."""
        history = self._pod_histories.get(uid)
        return history.began_at if history is not None else 0

    def node_changed_at(self, name: str) -> int:
        """The revision at which a node last changed, appeared or was deleted."""
        history = self._node_histories.get(name)
        return history.changed_at if history is not None else 0

    def pod_at(self, uid: str, revision: int) -> PodFact | Unknown | None:
        """A pod as of a revision."""
        history = self._pod_histories.get(uid)
        return history.at(revision) if history is not None else UNKNOWN

    def pod_since(self, uid: str, revision: int) -> list[PodFact | None]:
        """A pod as of a revision and in all its later versions."""
        history = self._pod_histories.get(uid)
        return history.since(revision) if history is not None else [None]

    def node_at(self, name: str, revision: int) -> NodeFact | Unknown | None:
        """A node as of a revision."""
        history = self._node_histories.get(name)
        return history.at(revision) if history is not None else None

    def nodes_since(self, name: str, revision: int) -> list[NodeFact | None]:
        """A node as of a revision and in all its later versions."""
        history = self._node_histories.get(name)
        return history.since(revision) if history is not None else [None]

    def groups_since(self, key: GangKey, revision: int) -> list[GroupFact | None]:
        """A gang's PodGroup as of a revision and in all its later versions."""
        history = self._group_histories.get((key.namespace, key.name))
        return history.since(revision) if history is not None else [None]

    def recent_pods_on(self, name: str) -> list[str]:
        """UIDs of all pods that use a node's capacity or did so recently."""
        return list(self._on_node.get(name, ()))

    def key_of(self, pod: PodFact) -> Key:
        """The key of a pod in the store."""
        return Key(PODS, pod.namespace, pod.name)


_TICKS_KEPT: Final = 64


class _Page(Struct):
    metadata: ListMeta = ListMeta()


_decode_page: Final = msgspec.json.Decoder(_Page).decode


def _same_containers(change: Change) -> bool:
    if change.previous is None:
        return False
    now, then = change.entry.data.get("spec") or {}, change.previous.data.get("spec") or {}
    return all(now.get(part) == then.get(part) for part in ("containers", "initContainers", "overhead"))
