"""Gangs: built from the pods of one gang key, and their PodGroup if they have one.

The result is one gang of the members, and for each pod that names a PodGroup without being a member of it, a
gang of one with an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct, structs

from phalanx.limits import PARTIAL_GANG_RELEASED_S
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.api.values import duration_text
from phalanx.model.conversion.cluster_objects import PriorityLevel, resolve
from phalanx.model.conversion.gang_problems import gang_problems
from phalanx.model.conversion.gang_protection import Protection, protection
from phalanx.model.conversion.gang_queues import gang_queue
from phalanx.model.conversion.pod_groups import GangKey, PodGroup, gang_id, is_member
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.records import joined
from phalanx.model.conversion.subgroup_policies import divided
from phalanx.model.gangs import Gang, GangKind, Minimum
from phalanx.model.names import API_GROUP, GangId, QueueName
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.queues import allows_start_by
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import GangRecord

_IGNORED_HINTS_SHOWN: Final = 3
"""Ignored hints that a verdict lists. The others usually have the same mistake."""


_NEVER: Final = "Never"


class _GangPriority(NamedTuple):
    """Of its PodGroup, as far as its members or its queue allow it: `docs/tenants.md` states the rule.

    Kubernetes checks who may use a PriorityClass for pods only. `hint`: why the priority is lower than the
    PodGroup asks for; empty if it is not.
    """

    level: PriorityLevel
    hint: str = ""


def _gang_priority(
    members: Sequence[Pod],
    group: PodGroup | None,
    classes: Mapping[str, PriorityLevel],
    queue_max: int | None,
) -> _GangPriority:
    """The priority of the gang of these members, of which there is at least one.

    Members that do not exist yet count like pods without a class. `queue_max`: the priority up to which its
    queue lets PodGroups ignore the priorities of their pods.
    """
    lowest = min(pod.priority for pod in members)
    if group is not None and group.spec.reserves and _lacks_members(members, group):
        lowest = min(lowest, (resolve("", classes) or PriorityLevel()).value)
    never = any(pod.preemption_policy == _NEVER for pod in members)
    allowed = PriorityLevel(lowest, _NEVER) if never else PriorityLevel(lowest)
    if group is None:
        return _GangPriority(allowed)
    written = resolve(group.priority_class, classes) if group.priority_class else allowed
    asked = _with_policy(written or PriorityLevel(), group.spec.preemption_policy)
    if group.priority_class and queue_max is not None and asked.value <= queue_max:
        return _GangPriority(asked)
    value = min(asked.value, max(lowest, queue_max) if queue_max is not None else lowest)
    hint = ""
    if value < asked.value:
        hint = (
            f"{group.title}: priorityClassName {group.priority_class} ({asked.value}) "
            f"counts as {value}, the most that its pods and its queue allow"
        )
    policy = _NEVER if never else asked.preemption_policy
    return _GangPriority(PriorityLevel(value, policy), hint)


def _lacks_members(members: Sequence[Pod], group: PodGroup) -> bool:
    existing = sum(1 for pod in members if not pod.deleting and pod.phase is not PodPhase.FAILED)
    return existing < group.min_member


def _with_policy(level: PriorityLevel, policy: str | None) -> PriorityLevel:
    return level if policy is None else PriorityLevel(level.value, policy)


class _Start(Enum):
    """Whether a gang has reached its minimum, or has lost all its members since."""

    NOT_YET = "not yet"
    STARTED = "started"
    OVER = "over"


class GangContext(Struct, frozen=True):
    """The other objects that determine the gangs of one key.

    `before` holds the previous gangs of this key.
    """

    scheduler_name: str
    group: PodGroup | None
    rules: QueueRules
    classes: Mapping[str, PriorityLevel]
    before: Mapping[GangId, Gang]
    unknown: tuple[str, Objection] | None = None
    """The name of the workload that the pods belong to, and why nothing else is known of it."""
    others: Mapping[GangKey, PodGroup] = {}
    """The PodGroups that pods of this key name as well, as far as they exist."""
    record: GangRecord | None = None
    """What is recorded of the gang of this key, if its PodGroup has no place for it."""


def read_gangs(key: GangKey, pods: Sequence[Pod], context: GangContext) -> tuple[Gang, ...]:
    """The gangs of these pods, all of one key. Gangs without a pod of our scheduler are left out."""
    if context.group is not None and context.group.policies:
        group, pods = divided(context.group, pods)
        context = structs.replace(context, group=group)
    members = sorted(pods, key=_rank)
    rejected: list[Pod] = []
    if context.group is not None and context.group.controller is not None:
        rejected = [pod for pod in members if not is_member(pod, context.group)]
        members = [pod for pod in members if is_member(pod, context.group)]
    earlier = _of_earlier_steps(key, members)
    members = [pod for pod in members if pod not in earlier] if earlier else members
    gangs = [_gang(key, tuple(members), context)] if members else []
    gangs += [_alone(pod, context) for pod in earlier]
    if context.group is not None and not context.group.is_gang:
        gangs = [_single_gang(pod, context) for pod in members]
    gangs += [_rejected_gang(pod, context) for pod in rejected]
    ours = context.scheduler_name
    return tuple([gang for gang in gangs if any(pod.scheduler_name == ours for pod in gang.members)])


def _of_earlier_steps(key: GangKey, members: Sequence[Pod]) -> list[Pod]:
    """Members of a gang by label that had succeeded before any other member was created.

    A workflow makes the pods of one step after those of another. Owners of kinds that are read say how many
    pods must succeed in all: there these are members of one gang.
    """
    first = members[0].controller if members else None
    if key.kind is not GangKind.LABEL or (first is not None and first.workload):
        return []
    begins = min([pod.created for pod in members if pod.ran is None], default=0)
    return [pod for pod in members if pod.ran is not None and pod.ran[1] <= begins]


def _rank(pod: Pod) -> tuple[int, bool, int, int, str, str]:
    """The order in which members count: higher priority, lower index, older, name."""
    return (-pod.priority, pod.index is None, pod.index or 0, pod.created, pod.name, pod.uid)


def _gang(key: GangKey, members: tuple[Pod, ...], context: GangContext) -> Gang:
    group = context.group
    identity = gang_id(key, group)
    queue = gang_queue(members, group, context.rules, scheduler_name=context.scheduler_name)
    queue_max = context.rules.max_pod_group_priority(queue.charged) if group is not None else None
    level, priority_hint = _gang_priority(members, group, context.classes, queue_max)
    runtime_hint = _runtime_hint(group, queue.charged, context.rules)
    min_member = _min_member(key, members, group)
    minimum, kept = Minimum(min_member), Protection(PodGroupSpec(min_member=min_member))
    if group is not None:
        kept = protection(group, members, context.classes, context.rules.path(queue.charged))
        minimum = Minimum(
            min_member, group.roles, group.subgroups, group.spec.required_subgroups, group.spec.reserves
        )
    is_workload = key.kind is GangKind.WORKLOAD
    unknown = context.unknown[1] if context.unknown is not None else None
    start = _start(key, members, minimum, context)
    return Gang(
        id=identity,
        kind=key.kind,
        namespace=key.namespace,
        name=_name(key, members[0], context),
        queue=queue.charged,
        refused_queue=queue.refused,
        min_member=min_member,
        priority=level.value,
        preemption_policy=level.preemption_policy,
        created=group.created if group is not None else min([pod.created for pod in members]),
        members=members,
        dialect=API_GROUP if is_workload else key.dialect,
        workload=key.dialect if is_workload else "",
        spec=kept.spec,
        prefers_to_stay=kept.prefers_to_stay,
        roles=minimum.roles,
        subgroups=minimum.subgroups,
        started=start is _Start.STARTED,
        starts_over=start is _Start.OVER,
        resource_version=group.resource_version if group is not None else "",
        checkpointed=group.checkpointed if group is not None else 0,
        started_at=group.started_at if group is not None else 0,
        record=joined(group.record if group is not None else None, context.record),
        ignored=_hints(
            (
                *(queue.hint, priority_hint, runtime_hint, kept.hint),
                _start_by_hint(group, queue.charged, start, context.rules),
                _first_hint(members, group),
            ),
            members,
            group,
        ),
        problems=gang_problems(key, members, group, context.classes, context.others, unknown),
    )


def _single_gang(pod: Pod, context: GangContext) -> Gang:
    """The gang of a pod whose PodGroup is no gang. Queue and class of the PodGroup count for each pod."""
    assert context.group is not None
    group = structs.replace(
        context.group, created=pod.created, started_at=0, resource_version="", record=None
    )
    key = GangKey(GangKind.POD, pod.namespace, pod.uid)
    return _gang(key, (pod,), structs.replace(context, group=group, record=None))


def _alone(pod: Pod, context: GangContext) -> Gang:
    """A gang of one, of which no PodGroup says anything."""
    key = GangKey(GangKind.POD, pod.namespace, pod.uid)
    return _gang(key, (pod,), structs.replace(context, group=None, record=None))


def _hints(own: Iterable[str], members: Sequence[Pod], group: PodGroup | None) -> tuple[str, ...]:
    """Fields that do not count as they are written, each once: those of the gang, those of its PodGroup, and
    those of members with the first pod that has them."""
    found = {hint: hint for hint in own if hint}
    if group is not None and group.ignored:
        found[group.ignored] = f"{group.title}: {group.ignored}"
    for pod in members:
        if pod.ignored:
            found.setdefault(pod.ignored, f"pod {pod.name}: {pod.ignored}")
    return tuple(found.values())[:_IGNORED_HINTS_SHOWN]


def _first_hint(members: Sequence[Pod], group: PodGroup | None) -> str:
    """A pod that says about its gang what only the first pod may say."""
    if group is None or not group.marks_of_first:
        return ""
    for pod in members:
        for key, value in pod.group_marks:
            if key in group.marks_of_first and group.marks.get(key) != value:
                return f"pod {pod.name}: {key} counts on the first pod only, {group.defined_by}"
    return ""


def _runtime_hint(group: PodGroup | None, queue: QueueName, rules: QueueRules) -> str:
    disruption = group.spec.disruption if group is not None else None
    if group is None or disruption is None:
        return ""
    most = rules.max_min_runtime_ms(queue)
    if disruption.min_runtime_ms <= most:
        return ""
    asked, counted = disruption.min_runtime, duration_text(most)
    return (
        f"PodGroup {group.name}: disruption.minRuntime {asked} counts as {counted}, "
        f"the most that queue {queue} allows"
    )


def _start_by_hint(group: PodGroup | None, queue: QueueName, start: _Start, rules: QueueRules) -> str:
    if group is None or group.spec.start_by_ms is None or start is not _Start.NOT_YET:
        return ""
    path = rules.path(queue)
    if not path or allows_start_by(path):
        return ""
    return (
        f"PodGroup {group.name}: startBy gives no place before other gangs: "
        f"queue {queue} does not have allowStartBy"
    )


def _rejected_gang(pod: Pod, context: GangContext) -> Gang:
    """A gang of one, with an error, for a pod that names a PodGroup whose controller does not own it."""
    group = context.group
    assert group is not None
    assert group.controller is not None
    owner = f"{group.controller.kind} {group.controller.name}"
    alone = _alone(pod, context)
    problem = Objection(
        Reason.NOT_A_MEMBER,
        f"PodGroup {group.name} belongs to {owner}, which does not own pod {pod.name}",
        f"Let {owner} create the pod, or create a PodGroup without a controller",
    )
    return structs.replace(alone, problems=(problem, *alone.problems))


def _name(key: GangKey, first: Pod, context: GangContext) -> str:
    if key.kind is not GangKind.POD and context.group is not None:
        return f"{context.group.name}-{key.part}" if key.part else context.group.name
    if context.unknown is not None:
        return context.unknown[0]
    if key.kind is GangKind.LABEL and first.controller is not None:
        return first.controller.name
    return first.name if key.kind is GangKind.POD else key.name.rpartition("/")[2]


def _min_member(key: GangKey, members: tuple[Pod, ...], group: PodGroup | None) -> int:
    if group is not None:
        return group.min_member
    if key.kind is GangKind.LABEL:
        return max([pod.min_member or 1 for pod in members])
    return 1


def _start(key: GangKey, members: tuple[Pod, ...], minimum: Minimum, context: GangContext) -> _Start:
    """Assumed pods do not count: a bind may still fail. Nor does a minimum that is not known yet.

    Once the gang starts over, the status of the PodGroup does not count: it may still describe the time
    before.
    """
    group, before = context.group, context.before.get(gang_id(key, context.group))
    is_workload = key.kind is GangKind.WORKLOAD
    counted = [pod for pod in members if pod.counts_for_gang and not pod.assumed]
    if minimum.has_started_with(counted) and not (is_workload and group is None):
        return _Start.STARTED
    if before is not None and before.starts_over:
        return _Start.OVER
    known = (before is not None and before.started) or (group is not None and group.started)
    has_record = group is not None and group.records_start and not is_workload
    if not known and (has_record or not _has_lost_members(members, minimum.members)):
        return _Start.NOT_YET
    is_lost = not counted and any(pod.is_waiting for pod in members)
    return _Start.OVER if is_lost else _Start.STARTED


def _has_lost_members(members: tuple[Pod, ...], min_member: int) -> bool:
    """Whether a gang must have started, although no PodGroup records it.

    No member gets a node before a whole minimum exists. The gang was complete if two things hold: fewer
    members of that time are left than the minimum, and a member was recreated so late that a partially bound
    gang would have been released before.
    """
    first = min((pod.running_since for pod in members if pod.running_since), default=0)
    if not first or max(pod.created for pod in members) < first + PARTIAL_GANG_RELEASED_S:
        return False
    left = [pod for pod in members if pod.phase is not PodPhase.FAILED or _is_rejected(pod)]
    return sum(1 for pod in left if pod.created <= first) < min_member


def _is_rejected(pod: Pod) -> bool:
    return pod.failure is not None and pod.failure.is_rejection
