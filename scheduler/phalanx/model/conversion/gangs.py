"""Gangs: the pods of one key, and their PodGroup where they have one, as gangs.

The result is one gang of those that belong together, and a gang of one, with a problem, for each pod that
names a PodGroup it is no member of.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, structs

from phalanx.limits import IGNORED_HINTS_SHOWN, PARTIAL_GANG_RELEASED_S
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.conversion.cluster_objects import PriorityLevel, resolve
from phalanx.model.conversion.gang_problems import gang_problems
from phalanx.model.conversion.pod_groups import GangKey, PodGroup, gang_id, is_member
from phalanx.model.gangs import Gang, GangKind, Minimum
from phalanx.model.names import DEFAULT_QUEUE, LABEL_QUEUE, GangId, QueueName
from phalanx.model.pods import Pod, PodFailure, PodPhase
from phalanx.model.reasons import Objection, Reason


class _Start(Enum):
    """Whether a gang has reached its minimum, or has lost all that it had reached."""

    NOT_YET = "not yet"
    STARTED = "started"
    OVER = "over"


class GangContext(Struct, frozen=True):
    """What surrounds the pods of one key.

    `before` holds the gangs of this key as they were read last. `namespace_labels` are those of the pods'
    namespace.
    """

    scheduler_name: str
    group: PodGroup | None
    namespace_labels: Mapping[str, str]
    classes: Mapping[str, PriorityLevel]
    before: Mapping[GangId, Gang]


def read_gangs(key: GangKey, pods: Sequence[Pod], context: GangContext) -> tuple[Gang, ...]:
    """The gangs of these pods, all of one key; none of which no pod names our scheduler."""
    members = sorted(pods, key=_rank)
    strangers: list[Pod] = []
    if context.group is not None and context.group.controller is not None:
        strangers = [pod for pod in members if not is_member(pod, context.group)]
        members = [pod for pod in members if is_member(pod, context.group)]
    gangs = [_gang(key, tuple(members), context)] if members else []
    gangs += [_stranger(pod, context) for pod in strangers]
    ours = context.scheduler_name
    return tuple([gang for gang in gangs if any(pod.scheduler_name == ours for pod in gang.members)])


def _rank(pod: Pod) -> tuple[int, bool, int, int, str, str]:
    """The order in which members count: higher priority, lower index, older, name."""
    return (-pod.priority, pod.index is None, pod.index or 0, pod.created, pod.name, pod.uid)


def _gang(key: GangKey, members: tuple[Pod, ...], context: GangContext) -> Gang:
    group = context.group
    identity = gang_id(key, group)
    level = _priority(members, context)
    min_member = _min_member(key, members, group)
    minimum = Minimum(min_member)
    if group is not None:
        minimum = Minimum(
            min_member, group.roles, group.subgroups, group.spec.required_subgroups, group.spec.reserves
        )
    start = _start(members, minimum, group, context.before.get(identity))
    return Gang(
        id=identity,
        kind=key.kind,
        namespace=key.namespace,
        name=_name(key, members[0]),
        queue=_queue(members, context),
        min_member=min_member,
        priority=level.value,
        preemption_policy=level.preemption_policy,
        created=group.created if group is not None else min([pod.created for pod in members]),
        members=members,
        spec=group.spec if group is not None else PodGroupSpec(min_member=min_member),
        roles=minimum.roles,
        subgroups=minimum.subgroups,
        started=start is _Start.STARTED,
        starts_over=start is _Start.OVER,
        resource_version=group.resource_version if group is not None else "",
        checkpointed=group.checkpointed if group is not None else 0,
        ignored=_ignored(members, group),
        problems=gang_problems(key, members, group, context.classes),
    )


def _ignored(members: Sequence[Pod], group: PodGroup | None) -> tuple[str, ...]:
    """Each fault once: those of the PodGroup as they are, of members by the first that has it."""
    found = {group.ignored: f"PodGroup {group.name}: {group.ignored}"} if group and group.ignored else {}
    for pod in members:
        if pod.ignored:
            found.setdefault(pod.ignored, f"pod {pod.name}: {pod.ignored}")
    return tuple(found.values())[:IGNORED_HINTS_SHOWN]


def _stranger(pod: Pod, context: GangContext) -> Gang:
    """A pod that names a PodGroup whose controller does not own it: alone, and refused."""
    group = context.group
    assert group is not None
    assert group.controller is not None
    owner = f"{group.controller.kind} {group.controller.name}"
    key = GangKey(GangKind.POD, pod.namespace, pod.uid)
    alone = _gang(key, (pod,), structs.replace(context, group=None))
    problem = Objection(
        Reason.NOT_A_MEMBER,
        f"PodGroup {group.name} belongs to {owner}, which does not own pod {pod.name}",
        f"Let {owner} create the pod, or create a PodGroup without a controller",
    )
    return structs.replace(alone, problems=(problem, *alone.problems))


def _name(key: GangKey, first: Pod) -> str:
    if key.kind is GangKind.LABEL and first.controller is not None:
        return first.controller.name
    return first.name if key.kind is GangKind.POD else key.name


def _min_member(key: GangKey, members: tuple[Pod, ...], group: PodGroup | None) -> int:
    if group is not None:
        return group.min_member
    if key.kind is GangKind.LABEL:
        return max([pod.min_member or 1 for pod in members])
    return 1


def _priority(members: tuple[Pod, ...], context: GangContext) -> PriorityLevel:
    """The PodGroup's; without one the lowest member's, so that no single pod can lift the gang."""
    group, lowest = context.group, members[-1]
    level = PriorityLevel(value=lowest.priority, preemption_policy=lowest.preemption_policy)
    if group is None:
        return level
    if group.priority_class:
        level = resolve(group.priority_class, context.classes) or PriorityLevel()
    if group.spec.preemption_policy is None:
        return level
    return PriorityLevel(value=level.value, preemption_policy=group.spec.preemption_policy)


def _queue(members: tuple[Pod, ...], context: GangContext) -> QueueName:
    """The PodGroup's, else the label of the first member with one, else the namespace's, else `default`."""
    if context.group is not None and context.group.spec.queue:
        return QueueName(context.group.spec.queue)
    for pod in members:
        if pod.queue is not None:
            return QueueName(pod.queue)
    return QueueName(context.namespace_labels.get(LABEL_QUEUE) or DEFAULT_QUEUE)


def _start(members: tuple[Pod, ...], minimum: Minimum, group: PodGroup | None, before: Gang | None) -> _Start:
    """What we assume does not count: a bind that fails has started nothing.

    The PodGroup's status is not asked once the gang begins anew: it may still tell of the time before.
    """
    counted = [pod for pod in members if pod.counts_for_gang and not pod.assumed]
    if minimum.has_started_with(counted):
        return _Start.STARTED
    if before is not None and before.starts_over:
        return _Start.OVER
    known = (before is not None and before.started) or (group is not None and group.started)
    if not known and not (group is None and _has_lost_members(members, minimum.members)):
        return _Start.NOT_YET
    is_lost = not counted and any(pod.is_waiting for pod in members)
    return _Start.OVER if is_lost else _Start.STARTED


def _has_lost_members(members: tuple[Pod, ...], min_member: int) -> bool:
    """Whether a gang without a PodGroup must have started, though nobody has written it down.

    No member gets a node before all of a minimum exist. If fewer of that time are left than it takes, and one
    was made anew so late that a broken gang would have been released before, the gang was whole.
    """
    first = min((pod.running_since for pod in members if pod.running_since), default=0)
    if not first or max(pod.created for pod in members) < first + PARTIAL_GANG_RELEASED_S:
        return False
    rejected = PodFailure.REJECTED
    left = [pod for pod in members if pod.phase is not PodPhase.FAILED or pod.failure is rejected]
    return sum(1 for pod in left if pod.created <= first) < min_member
