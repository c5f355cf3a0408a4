"""All gangs that the user may see: state, queue, place in line, since when, where."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from phalanx.cli.verbs.seen import Seen
from phalanx.limits import PARTIAL_GANG_RELEASED_S
from phalanx.model.api.pod_groups import PodGroup, PodGroupStatus
from phalanx.model.api.values import seconds, time_s, utc
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.charges import total_charges
from phalanx.model.conversion.pod_groups import GangKey, gang_id
from phalanx.model.conversion.workloads import read_workload
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import (
    ANNOTATION_SUSPENSION,
    API_GROUP,
    DEFAULT_QUEUE,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
)
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Reason
from phalanx.model.resources import Resources
from phalanx.model.workloads.kind import WorkloadKind, value_at
from phalanx.model.workloads.known import WORKLOADS
from phalanx.service.pod_group_status import GangReport, status_of

POD_GROUP: Final = "PodGroup"
RESUMED: Final = "Wait: it is resumed when there is capacity for it"


class State(StrEnum):
    """The state of a gang, as its PodGroup shows it, or as its pods are."""

    WAITING = "Waiting"
    STARTING = "Starting"
    DEGRADED = "Degraded"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"
    RELEASING = "Releasing"


_STATES: Final = {
    "Pending": State.WAITING,
    "Scheduling": State.STARTING,
    "Degraded": State.DEGRADED,
    "Running": State.RUNNING,
    "Finished": State.FINISHED,
    "Failed": State.FAILED,
    "Releasing": State.RELEASING,
}

_ORDER: Final = {state: place for place, state in enumerate(State)}


class NodeShare(Struct, frozen=True, rename="camel"):
    """A node, and how many pods of a gang it has."""

    node: str
    pods: int


class GangRow(Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    kind: str
    """PodGroup, the kind of a workload, such as Job, or Pod."""
    state: State
    queue: str = ""
    position: int | None = None
    """Place in the order of its queue, if the scheduler has written it."""
    since: str = ""
    """When the state began: for a waiting gang, when it was created."""
    reason: str = ""
    message: str = ""
    next_step: str = ""
    expected_start: str = ""
    pods: int = 0
    pods_waiting: int = 0
    pods_running: int = 0
    min_member: int = 0
    priority: int = 0
    domain: str = ""
    nodes: tuple[NodeShare, ...] = ()
    requests: Resources = {}
    """What all its pods request that have not ended."""

    @property
    def reference(self) -> str:
        """How users name it: podgroup/name, job/name, pod/name."""
        return f"{self.kind.lower()}/{self.name}"


class GangEntry(Struct, frozen=True):
    """A gang with the objects that it was made of."""

    row: GangRow
    gang: Gang | None = None
    """None for a PodGroup or a workload without pods."""
    group: PodGroup | None = None


def gang_rows(seen: Seen) -> tuple[GangRow, ...]:
    """All gangs of the namespaces that were asked for: waiting ones first, in the order of their queues."""
    return tuple(entry.row for entry in gang_entries(seen))


def gang_entries(seen: Seen) -> list[GangEntry]:
    """The same with their objects."""
    groups = {group.metadata.uid: group for group in seen.of(PodGroup)}
    found: list[GangEntry] = []
    for gang in seen.cluster.gangs.values():
        group = groups.pop(gang.id, None)
        if seen.shows(gang.namespace):
            named = _named_queue(gang, seen) if "Queue" in seen.unread else ""
            row = _row(gang, group, seen.now_ms, named)
            found.append(GangEntry(row, gang, group))
    found += [
        GangEntry(_without_pods(group), None, group)
        for group in groups.values()
        if seen.shows(group.metadata.namespace)
    ]
    found += [GangEntry(row) for row in _suspended(seen)]
    return sorted(found, key=_place)


def _place(entry: GangEntry) -> tuple[int, str, bool, int, str, str, str]:
    row = entry.row
    return (
        _ORDER[row.state],
        row.queue,
        row.position is None,
        row.position or 0,
        row.since,
        row.namespace,
        row.name,
    )


def _row(gang: Gang, group: PodGroup | None, now_ms: int, named_queue: str) -> GangRow:
    """`named_queue`: the queue that it names, if queues could not be read, so that none accepts it here."""
    seen_status = group.status if group is not None and group.status.phase else PodGroupStatus()
    before = seen_status if group is not None else _started(gang, now_ms)
    computed = status_of(gang, GangReport(), before=before, now_ms=now_ms)
    status = seen_status if seen_status.phase else computed
    state = _STATES.get(status.phase or "", State.WAITING)
    reason, message = (seen_status.reason or "", seen_status.message or "")
    if not reason:
        reason, message = _verdict_of_pods(gang, status) or (status.reason or "", status.message or "")
    counts = computed.counts
    waits = state is State.WAITING
    return GangRow(
        namespace=gang.namespace,
        name=gang.name,
        kind=kind_of_gang(gang),
        state=state,
        queue=seen_status.queue or named_queue or gang.queue,
        position=status.queue_position,
        since=since(gang, state, seen_status),
        reason=reason,
        message=message,
        next_step=status.next_step or "",
        expected_start=status.expected_start.at if status.expected_start and waits else "",
        pods=counts.total if counts else 0,
        pods_waiting=counts.pending if counts else 0,
        pods_running=counts.running if counts else 0,
        min_member=gang.min_member,
        priority=gang.priority if status.priority is None else status.priority,
        domain=_domain(status) if gang.nodes else "",
        nodes=tuple(_nodes(gang.members)),
        requests=total_charges([pod for pod in gang.members if is_alive(pod)]),
    )


def _named_queue(gang: Gang, seen: Seen) -> str:
    """The queue that its pods are charged to or name, or its PodGroup, or the label of its namespace."""
    of_pods = [name for pod in gang.members for name in (pod.charged_queue, pod.queue) if name]
    labels = seen.cluster.namespace_labels.get(gang.namespace, {})
    return next(iter((*of_pods, *filter(None, (gang.spec.queue, labels.get(LABEL_QUEUE))))), "")


def _without_pods(group: PodGroup) -> GangRow:
    status, spec = group.status, group.spec
    return GangRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        kind=POD_GROUP,
        state=_STATES.get(status.phase or "", State.WAITING),
        queue=status.queue or spec.queue or "",
        since=group.metadata.creation_timestamp or "",
        reason=status.reason or ("" if status.phase in ("Finished", "Failed") else "NoPods"),
        message=status.message or "the gang has no pods",
        min_member=spec.min_member or 0,
    )


def _suspended(seen: Seen) -> Iterator[GangRow]:
    """Workloads that were read, whose gangs wait without pods. Those with a PodGroup are shown as such."""
    for kind in WORKLOADS.values():
        for written in seen.objects.get(kind.name, ()):
            if not isinstance(written, WorkloadObject) or not is_suspended_by_eviction(kind, written):
                continue
            meta, workload = written.metadata, read_workload(kind, "", written)
            group = workload.group
            gang = gang_id(GangKey(GangKind.WORKLOAD, meta.namespace, group.uid, kind.name), None)
            if seen.shows(meta.namespace) and gang not in seen.cluster.gangs and not _has_group(written):
                labels = seen.cluster.namespace_labels.get(meta.namespace, {})
                yield GangRow(
                    namespace=meta.namespace,
                    name=meta.name,
                    kind=kind.kind,
                    state=State.WAITING,
                    queue=group.spec.queue or labels.get(LABEL_QUEUE) or DEFAULT_QUEUE,
                    since=meta.creation_timestamp or "",
                    reason=Reason.PREEMPTED.value,
                    message=f"the {kind.kind} was suspended to evict its pods",
                    next_step=RESUMED,
                    min_member=sum(role.owners * role.whole for role in workload.roles),
                )


def is_suspended_by_eviction(kind: WorkloadKind, written: WorkloadObject) -> bool:
    """Whether the gang of the workload waits, and has no pods meanwhile."""
    is_suspended = value_at({"spec": written.spec}, kind.suspended) is True
    return is_suspended and ANNOTATION_SUSPENSION in written.metadata.annotations


def _has_group(written: WorkloadObject) -> bool:
    """Whether the pods of a Job are in a PodGroup."""
    return LABEL_POD_GROUP in (value_at(written.spec, "template.metadata.labels") or ())


def kind_of_gang(gang: Gang) -> str:
    """The kind of the object that users know the gang by."""
    if gang.kind is GangKind.WORKLOAD and gang.workload:
        return gang.workload.partition(".")[0]
    if gang.kind is GangKind.POD_GROUP:
        return POD_GROUP if gang.dialect == API_GROUP else f"{POD_GROUP}.{gang.dialect}"
    if gang.kind is GangKind.LABEL:
        controllers = {pod.controller.kind for pod in gang.members if pod.controller is not None}
        return controllers.pop() if len(controllers) == 1 else "Pod"
    return "Pod"


def is_alive(pod: Pod) -> bool:
    """Whether the pod has not ended."""
    return pod.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def _nodes(members: Iterable[Pod]) -> Iterator[NodeShare]:
    counts = Counter(pod.node for pod in members if pod.node is not None and is_alive(pod))
    for node, number in sorted(counts.items()):
        yield NodeShare(node, number)


def _domain(status: PodGroupStatus) -> str:
    placement = status.placement
    return f"{placement.level} {placement.domain}" if placement and placement.domain else ""


def _started(gang: Gang, now_ms: int) -> PodGroupStatus:
    """A status without more than the start, if its pods show that it must have started.

    One that never was complete would have been released.
    """
    first = min((pod.running_since for pod in gang.members if pod.running_since), default=0)
    has_started = first and now_ms // 1000 > first + PARTIAL_GANG_RELEASED_S
    return PodGroupStatus(started_at=_written(first) if has_started else None)


def _verdict_of_pods(gang: Gang, status: PodGroupStatus) -> tuple[str, str] | None:
    """Reason and message that the condition of most waiting pods has."""
    texts = Counter(
        pod.scheduled.message
        for pod in gang.members
        if pod.node is None and pod.scheduled is not None and pod.scheduled.message
    )
    if not texts or status.phase not in ("Pending", "Scheduling", "Degraded", "Running", None):
        return None
    return split_message(texts.most_common(1)[0][0])


def split_message(text: str) -> tuple[str, str]:
    """The reason and the rest of the message of a pod's condition, which is written as `Reason: message`."""
    reason, colon, rest = text.partition(": ")
    return (reason, rest) if colon and reason in _REASONS else ("", text)


_REASONS: Final = frozenset(reason.value for reason in Reason)


def since(gang: Gang, state: State, status: PodGroupStatus) -> str:
    """When the state began, in RFC 3339. `status`: of its PodGroup, as it was read."""
    if state is State.WAITING:
        return _written(gang.created)
    if state is State.DEGRADED and status.phase:
        return _condition_time(status)
    if state in (State.FINISHED, State.FAILED, State.DEGRADED):
        ends = [pod.ran[1] for pod in gang.members if pod.ran] + [pod.ended for pod in gang.members]
        return _written(max(ends, default=0)) or _condition_time(status)
    started = time_s(status.started_at) if status.started_at else None
    bound = [pod.bound_since or pod.running_since for pod in gang.members]
    return _written(started or max(bound, default=0))


def _condition_time(status: PodGroupStatus) -> str:
    times = [each.last_transition_time for each in status.conditions if each.type == "Scheduled"]
    return times[0] if times else ""


def _written(at: int) -> str:
    return utc(at).isoformat().replace("+00:00", "Z") if at else ""


def seconds_since(written: str, now_ms: int) -> int | None:
    """The seconds from this time of the API to now; None without a time."""
    at = seconds(written) if written else 0
    return now_ms // 1000 - at if at else None
