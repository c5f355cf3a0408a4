"""Errors that make a gang unschedulable until an object changes: of its PodGroup, its pods, or both together.

They are ordered by importance: users see the first one first.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from phalanx.limits import GANG_PROBLEMS_MAX, GANG_SHAPES_MAX
from phalanx.model.api.kinds import KINDS
from phalanx.model.conversion.cluster_objects import PriorityLevel, resolve
from phalanx.model.conversion.gang_label import problems_of_pods_of_pods
from phalanx.model.conversion.min_resources import min_resources_problems
from phalanx.model.conversion.pod_groups import GangKey, PodGroup, free_application, is_counted_by_label
from phalanx.model.dialects.known import DIALECTS, minimum_field_of_pods
from phalanx.model.gangs import GangKind, SubgroupSpec
from phalanx.model.names import (
    API_GROUP,
    KUEUE_GROUP_LABEL,
    LABEL_MIN_MEMBER,
    LABEL_QUEUE,
    ShapeKey,
)
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.supplies.known import contradictions


def gang_problems(
    key: GangKey,
    members: tuple[Pod, ...],
    group: PodGroup | None,
    classes: Mapping[str, PriorityLevel],
    others: Mapping[GangKey, PodGroup],
    unknown: Objection | None,
) -> tuple[Objection, ...]:
    """At most GANG_PROBLEMS_MAX errors. Pods that have ended or are being deleted cause none.

    `others`: the PodGroups that its pods name as well, as far as they exist. `unknown`: why nothing is known
    of the workload of its pods.
    """
    found: Iterable[Objection] = _own_problems(members)
    if key.kind is not GangKind.POD or group is not None:
        found = _all_problems(key, members, group, classes)
    first = () if unknown is None else (unknown,)
    found = chain(
        first, _claimed_twice(key, members, others), problems_of_pods_of_pods(members, group), found
    )
    return tuple(islice(found, GANG_PROBLEMS_MAX))


def _all_problems(
    key: GangKey, members: tuple[Pod, ...], group: PodGroup | None, classes: Mapping[str, PriorityLevel]
) -> Iterator[Objection]:
    active = [pod for pod in members if not pod.deleting and not pod.is_finished]
    if group is not None:
        yield from group.problems
        if group.priority_class and resolve(group.priority_class, classes) is None:
            yield Objection(
                Reason.INVALID_OBJECT,
                f"PodGroup field spec.priorityClassName: no PriorityClass {group.priority_class!r} exists",
            )
    elif key.kind is GangKind.POD_GROUP:
        yield _not_found(key)
    yield from _disagreements(key, active, group)
    may_add_roles = key.kind is GangKind.WORKLOAD or (group is not None and group.allows_other_roles)
    if group is not None and group.roles and not may_add_roles:
        yield from _role_problems(active, group)
    if key.kind is not GangKind.POD:
        yield from _subgroup_problems(active, group.subgroups if group is not None else ())
    if group is not None:
        yield from _mark_problems(active, group)
        yield from min_resources_problems(group.min_resources, group.min_member, members)
    yield from _shape_count_problems(active)
    yield from _contradicting_shapes(active)
    yield from _own_problems(members)


def _claimed_twice(
    key: GangKey, members: tuple[Pod, ...], others: Mapping[GangKey, PodGroup]
) -> Iterator[Objection]:
    """Errors of PodGroups that waiting members name as well. Each must exist, and must be no gang."""
    reported: set[GangKey] = set()
    for pod in members:
        for dialect, name in pod.other_groups if pod.other_groups and pod.is_waiting else ():
            other = GangKey(GangKind.POD_GROUP, pod.namespace, name, dialect)
            if other in reported or other == free_application(pod):
                continue
            reported.add(other)
            if other not in others and DIALECTS[dialect].kind:
                yield _not_found(other)
            elif other not in others or others[other].is_gang:
                yield _two_gangs(key, pod, other)


def _two_gangs(key: GangKey, pod: Pod, other: GangKey) -> Objection:
    by = f"label {LABEL_MIN_MEMBER if pod.controller is not None else KUEUE_GROUP_LABEL}"
    if not is_counted_by_label(pod):
        by = f"{_shown(pod.dialect, pod.group)} by {DIALECTS[pod.dialect].field}"
    return Objection(
        Reason.INCONSISTENT_GANG,
        f"pod {pod.name} is in two gangs: {by}, and {_shown(other.dialect, other.name)} by "
        f"{DIALECTS[other.dialect].field}",
        "Remove one of them: a pod is in one gang",
    )


def _shown(dialect: str, name: str | None) -> str:
    return f"{DIALECTS[dialect].noun} {name} of {dialect}"


def _not_found(key: GangKey) -> Objection:
    dialect = DIALECTS[key.dialect]
    if dialect.not_found is not None:
        return dialect.not_found(key.namespace, key.name)
    of = "" if key.dialect == API_GROUP else f" of {KINDS[dialect.kind].api_version}"
    return Objection(
        Reason.POD_GROUP_NOT_FOUND,
        f"no PodGroup {key.name!r}{of} exists in namespace {key.namespace}",
        f"Create PodGroup {key.namespace}/{key.name}{of}, or correct the pods' {dialect.field}",
    )


def _disagreements(key: GangKey, active: list[Pod], group: PodGroup | None) -> Iterator[Objection]:
    """Errors of fields that must be equal in all members."""
    yield from _differ("spec.schedulerName", {pod.scheduler_name: pod for pod in active})
    if group is None or not group.spec.queue:
        yield from _differ(f"label {LABEL_QUEUE}", {pod.queue or "": pod for pod in active})
    if key.kind is GangKind.LABEL:
        has_controller = not active or active[0].controller is not None
        field = minimum_field_of_pods(has_controller=has_controller)
        yield from _differ(field, {str(pod.min_member): pod for pod in active})


def _differ(field: str, by_value: Mapping[str, Pod]) -> Iterator[Objection]:
    """An error if there is more than one value. It names a pod for each of two values."""
    if len(by_value) > 1:
        (one, first), (other, second) = sorted(by_value.items())[:2]
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"the members differ in {field}: {one!r} in pod {first.name}, {other!r} in pod {second.name}",
            "Set the same value in all pods of the gang",
        )


def _role_problems(active: list[Pod], group: PodGroup) -> Iterator[Objection]:
    """Pods must name one of the roles that their PodGroup declares."""
    names = [role.name for role in group.roles]
    for pod in active:
        if pod.role not in names and (pod.role or not group.allows_no_role):
            dialect = DIALECTS[pod.dialect]
            yield Objection(
                Reason.INCONSISTENT_GANG,
                f"{dialect.role_field} of pod {pod.name} is {pod.role!r}, not one of {', '.join(names)}",
                f"Set the {dialect.role_field.partition(' ')[0]} to a role of the {dialect.noun}",
            )


def _mark_problems(active: list[Pod], group: PodGroup) -> Iterator[Objection]:
    """What only pods say about their group would not count. The same mark is reported once."""
    marks = {mark: pod.name for pod in active for mark in pod.group_marks}
    for (key, value), pod in sorted(marks.items()):
        if group.marks.get(key) == value or key in group.marks_of_first:
            continue
        if group.defined_by:
            yield Objection(
                Reason.INCONSISTENT_GANG,
                f"the pods of {group.title} differ in {key}: {pod} has not what {group.defined_by} has",
                "Set the same value in all pods of the application",
            )
        else:
            yield Objection(
                Reason.UNSUPPORTED_FIELD,
                f"{key}: {value!r} of pod {pod} is not supported yet where its PodGroup has another value",
                f"Set {key}: {value!r} on the PodGroup too, or remove it from the pods",
            )


def _subgroup_problems(active: list[Pod], subgroups: tuple[SubgroupSpec, ...]) -> Iterator[Objection]:
    """The subgroup of a pod must be declared. Pods without a subgroup belong to the gang only."""
    names = [subgroup.name for subgroup in subgroups]
    for pod in active:
        if pod.subgroup and pod.subgroup not in names:
            known = f"not one of {', '.join(names)}" if names else "and the gang declares no subgroups"
            yield Objection(
                Reason.INCONSISTENT_GANG,
                f"{DIALECTS[pod.dialect].subgroup_field} of pod {pod.name} is {pod.subgroup!r}, {known}",
                "Set the label to a subgroup of the PodGroup",
            )


def _shape_count_problems(active: list[Pod]) -> Iterator[Objection]:
    """A placement compares each shape of waiting members with every node."""
    if len(active) <= GANG_SHAPES_MAX:
        return
    shapes = len({pod.shape.key for pod in active if pod.is_waiting})
    if shapes > GANG_SHAPES_MAX:
        yield Objection(
            Reason.INVALID_OBJECT,
            f"the waiting members differ in requests or constraints: {shapes} shapes, at most "
            f"{GANG_SHAPES_MAX} are supported",
            "Give members equal requests and constraints, or split the gang",
        )


def _contradicting_shapes(active: list[Pod]) -> Iterator[Objection]:
    """Waiting members are placed together."""
    by_shape = {pod.shape.key: pod for pod in active}
    if len(by_shape) > 1:
        yield from contradictions([(pod.shape, pod.name) for pod in by_shape.values() if pod.is_waiting])


def _own_problems(members: tuple[Pod, ...]) -> Iterator[Objection]:
    """Errors of the waiting pods themselves. The same label or shape is reported once."""
    reported: set[Objection | ShapeKey] = set()
    for pod in members:
        if not pod.is_waiting:
            continue
        for problem in pod.problems:
            if problem not in reported:
                reported.add(problem)
                yield problem
        if pod.shape.key not in reported:
            reported.add(pod.shape.key)
            yield from _shape_problems(pod)


def _shape_problems(pod: Pod) -> Iterator[Objection]:
    for fault in pod.shape.invalid:
        yield Objection(Reason.INVALID_OBJECT, f"pod {pod.name}: {fault}")
    for path in pod.shape.unsupported:
        yield Objection(
            Reason.UNSUPPORTED_FIELD, f"pod {pod.name}: {path} is not supported yet", f"Remove {path}"
        )
