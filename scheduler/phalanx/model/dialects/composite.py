"""CompositePodGroups of Kubernetes: `scheduling.k8s.io/v1alpha3`, which contain PodGroups and each other.

The outermost one that holds its parts together is a gang, and all groups inside are its subgroups.
docs/dialects.md states what becomes of each field.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import GANG_PROBLEMS_MAX
from phalanx.model.api.native_pod_groups import COMPOSITE_DEPTH_MAX, CompositePodGroup, CompositePodGroupSpec
from phalanx.model.api.pod_groups import SUB_GROUPS_MAX, Disruption, DisruptionMode, PodGroupSpec, SubGroup
from phalanx.model.conversion.pod_groups import PodGroup, fields_of_metadata, min_member_of, subgroups_of
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.native import (
    NATIVE,
    is_unconstrained,
    required_level,
    unsupported_alternatives,
    unsupported_fields,
)
from phalanx.model.gangs import Gang
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason

_NOUN: Final = CompositePodGroup.__name__


# --- one object ---------------------------------------------------------------------------------------------


def read_composite_pod_group(written: CompositePodGroup) -> PodGroup:
    """Convert one CompositePodGroup. How many of its groups must start is `min_sub_groups` of its spec."""
    meta, spec = written.metadata, written.spec
    problems = tuple(_problems(written))
    is_basic = spec.scheduling_policy.gang is None and is_unconstrained(spec)
    return PodGroup(
        **fields_of_metadata(_NOUN, meta),
        spec=_spec(spec, meta.labels.get(LABEL_QUEUE) or None),
        problems=problems,
        is_gang=bool(problems) or not is_basic,
        parent=spec.parent_composite_pod_group_name or "",
    )


def _spec(spec: CompositePodGroupSpec, queue: str | None) -> PodGroupSpec:
    gang = spec.scheduling_policy.gang
    together = spec.disruption_mode is not None and spec.disruption_mode.all is not None
    return PodGroupSpec(
        queue=queue,
        priority_class_name=spec.priority_class_name or None,
        preemption_policy=spec.preemption_policy,
        topology=required_level(spec.scheduling_constraints),
        min_sub_groups=max(gang.min_group_count, 1) if gang is not None else 1,
        disruption=Disruption(mode=DisruptionMode.ALL if together else DisruptionMode.SINGLE),
    )


def _problems(written: CompositePodGroup) -> Iterator[Objection]:
    refused = unsupported_alternatives(written.spec, written.unknown_fields)
    yield from unsupported_fields(refused, written.unknown_fields, _NOUN)
    gang = written.spec.scheduling_policy.gang
    if gang is not None and gang.min_group_count < 1:
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"{_NOUN} field spec.schedulingPolicy.gang.minGroupCount: {gang.min_group_count} is not at "
            "least 1",
        )


# --- the groups of a tree -----------------------------------------------------------------------------------


class Part(Struct, frozen=True):
    """A group inside a composite group."""

    group: PodGroup
    is_composite: bool

    @property
    def subgroup(self) -> str:
        """The name of its subgroup. Groups of the two kinds may have one name; no name contains a slash."""
        return f"{_NOUN}/{self.group.name}" if self.is_composite else self.group.name

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"{_NOUN if self.is_composite else 'PodGroup'} {self.group.name}"


PartsOf = Callable[[str], Sequence[Part]]
"""The groups inside the CompositePodGroup of this name, in a fixed order."""


def gang_of_tree(root: PodGroup, around: Sequence[PodGroup], parts_of: PartsOf) -> PodGroup:
    """The gang of a composite group: the PodGroup of Phalanx with the same meaning.

    `around`: the composite groups around it, innermost first, which hold nothing together.
    """
    top, levels = Part(root, is_composite=True), COMPOSITE_DEPTH_MAX - len(around)
    inside = list(islice(_inside(root.name, parts_of, levels), SUB_GROUPS_MAX + 1))
    if len(inside) > SUB_GROUPS_MAX:
        text = f"{top.title} contains more than {SUB_GROUPS_MAX} groups"
        problem = Objection(Reason.UNSUPPORTED_FIELD, text, "Divide the groups among several of them")
        return _inherited(replace(root, problems=(problem, *root.problems)), around)
    outer, least = len(parts_of(root.name)), root.spec.min_sub_groups or 1
    spec = replace(
        root.spec,
        sub_groups=tuple(_subgroup(part, level) for part, level in inside),
        min_sub_groups=least if least < outer else None,
    )
    whole = replace(
        root,
        spec=spec,
        min_member=min_member_of(spec),
        subgroups=subgroups_of(spec.sub_groups),
        started_at=_started_at(top, parts_of, levels),
        problems=(*root.problems, *_problems_of_tree(top, inside, parts_of, levels)),
    )
    return _inherited(whole, (*[part.group for part, _ in inside], *around))


def pod_group_in_tree(group: PodGroup, around: Sequence[PodGroup]) -> PodGroup:
    """A PodGroup inside composite groups that hold nothing together."""
    return _inherited(group, around)


def _inside(name: str, parts_of: PartsOf, levels: int, level: int = 2) -> Iterator[tuple[Part, int]]:
    """The groups inside with their levels, outer ones first, down to the last level that is allowed."""
    if level > levels:
        return
    for part in parts_of(name):
        yield part, level
        if part.is_composite:
            yield from _inside(part.group.name, parts_of, levels, level + 1)


def _subgroup(part: Part, level: int) -> SubGroup:
    group = part.group
    return SubGroup(
        name=part.subgroup,
        min_member=None if part.is_composite else group.min_member,
        parent=f"{_NOUN}/{group.parent}" if level > 2 else None,
        topology=group.spec.topology,
    )


def _started_at(part: Part, parts_of: PartsOf, levels: int) -> int:
    """When so many of its groups had started that it had; 0 if they have not."""
    if not part.is_composite or not levels:
        return part.group.started_at
    times = [_started_at(each, parts_of, levels - 1) for each in parts_of(part.group.name)]
    started, least = sorted(filter(None, times)), part.group.spec.min_sub_groups or 1
    return started[least - 1] if len(started) >= least else 0


def _problems_of_tree(
    top: Part, inside: Sequence[tuple[Part, int]], parts_of: PartsOf, levels: int
) -> Iterator[Objection]:
    for part, level in ((top, 1), *inside):
        if part.is_composite and level == levels:
            yield too_deep(part.group.name)
        elif part.is_composite:
            yield from _count_problems(part, len(parts_of(part.group.name)), is_outer=level == 1)
    for part, _ in inside:
        yield from (
            replace(problem, message=f"{part.title}: {problem.message}") for problem in part.group.problems
        )
        if _ends_together(part.group) and not _ends_together(top.group):
            yield _refused(part, "spec.disruptionMode.all", f"beside single of {top.title}")


def _ends_together(group: PodGroup) -> bool:
    return group.spec.disruption is not None and group.spec.disruption.eviction_mode is DisruptionMode.ALL


def _count_problems(part: Part, count: int, *, is_outer: bool) -> Iterator[Objection]:
    least = part.group.spec.min_sub_groups or 1
    if count < least:
        yield Objection(
            Reason.MEMBERS_MISSING,
            f"{part.title} needs {least} groups, and {count} exist",
            f"Create the missing groups with parentCompositePodGroupName {part.group.name}",
        )
    elif least < count and not is_outer:
        yield _refused(
            part, "spec.schedulingPolicy", f"that needs {least} of {count} groups, inside another one"
        )


def _refused(part: Part, path: str, why: str) -> Objection:
    text = f"{part.title} field {path} {why} is not supported yet"
    return Objection(Reason.UNSUPPORTED_FIELD, text, f"Create {part.title} without it")


def too_deep(name: str) -> Objection:
    """The error of a composite group on the last level or below it."""
    return Objection(
        Reason.INCONSISTENT_GANG,
        f"CompositePodGroup {name} is on level {COMPOSITE_DEPTH_MAX} or below, where only PodGroups may be",
        f"Use at most {COMPOSITE_DEPTH_MAX} levels, PodGroups included",
    )


def in_circle(name: str) -> Objection:
    """The error of groups that contain each other."""
    return Objection(
        Reason.INCONSISTENT_GANG,
        f"CompositePodGroup {name} is inside itself by parentCompositePodGroupName",
        "Create it without a parent, or with another one",
    )


def _inherited(group: PodGroup, others: Sequence[PodGroup]) -> PodGroup:
    """The gang with queue, class and policy of its tree, of which the outermost group counts first."""
    ranked = sorted((group, *others), key=lambda each: bool(each.parent))
    spec, problems = group.spec, list(group.problems)
    for field, label in _SHARED.items():
        values = {value: each.name for each in ranked if (value := getattr(each.spec, field))}
        spec = replace(spec, **{field: next(iter(values), None)})
        if len(values) > 1:
            (one, first), (other, second) = islice(values.items(), 2)
            text = f"groups of one tree differ in {label}: {one!r} in {first}, {other!r} in {second}"
            problems.append(
                Objection(Reason.INCONSISTENT_GANG, text, "Set one value in all groups of the tree")
            )
    return replace(group, spec=spec, problems=tuple(problems[:GANG_PROBLEMS_MAX]))


_SHARED: Final = {
    "priority_class_name": "spec.priorityClassName",
    "preemption_policy": "spec.preemptionPolicy",
    "queue": f"label {LABEL_QUEUE}",
}
"""Fields that count for the whole tree."""


# --- the gang -----------------------------------------------------------------------------------------------


def as_part(pod: Pod, group: PodGroup) -> Pod:
    """A pod as a member of the gang: in the subgroup of its PodGroup."""
    return replace(pod, subgroup=pod.group or "") if group.subgroups and not pod.subgroup else pod


def gangs_of_parts(gang: Gang) -> Iterator[Gang]:
    """Each PodGroup in the gang that has pods, as a gang of its own, for its status.

    While the gang has not started, none of them has. If it may start without some of them, each has started
    when enough of its pods are bound.
    """
    has_started = gang.started or gang.reaches_minimum
    least = {part.name: part.min_member for part in gang.subgroups}
    for name in dict.fromkeys(pod.subgroup for pod in gang.members):
        members = tuple(pod for pod in gang.members if pod.subgroup == name)
        count = least.get(name, 1)
        yield replace(
            gang,
            members=members,
            min_member=count if has_started else len(members) + 1,
            subgroups=(),
            spec=replace(gang.spec, sub_groups=(), min_sub_groups=None),
            started=gang.started and not gang.min_subgroups,
        )


def _not_found(namespace: str, name: str) -> Objection:
    return Objection(
        Reason.POD_GROUP_NOT_FOUND,
        f"no CompositePodGroup {name!r} of scheduling.k8s.io/v1alpha3 exists in namespace {namespace}",
        f"Create CompositePodGroup {namespace}/{name}; the API server must serve scheduling.k8s.io/v1alpha3",
    )


COMPOSITE: Final = Dialect(
    name=f"compositepodgroups.{NATIVE.name}",
    kind=_NOUN,
    field="parentCompositePodGroupName of the PodGroup",
    minimum_field="spec.schedulingPolicy.gang.minCount of its PodGroups",
    topology_field=NATIVE.topology_field,
    group_of=lambda _pod: "",
    read=read_composite_pod_group,
    noun=_NOUN,
    not_found=_not_found,
)
