"""Workloads: from an object and the paths of its kind to a PodGroup, in view of the pods that exist.

docs/workloads.md states the rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.api.values import seconds
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.metadata import controller_of, identity, read_checkpoint
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.gangs import RoleSpec
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.pods import Controller, Pod, PodPhase
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.kind import RolePaths, WorkloadKind

_NUMBER_MAX: Final = 2**31 - 1
"""The largest number in an object, and of pods of one role: their sums can be recorded."""


class WorkloadRole(Struct, frozen=True, gc=False):
    """A set of `owners` objects, such as Jobs, that make `pods` pods each."""

    name: str
    owners: int
    pods: int
    completions: int | None = None
    """Pods of each owner that succeed in all; None if nobody counts them."""
    exists: bool = True
    """Whether its pods are made by now, for this scheduler. Otherwise it counts once one of them exists."""
    least: int | None = None
    """Pods of each owner that must start, if an autoscaler decides on the others."""
    one_first: bool = False
    """Whether each owner makes its other pods when its first one has a node."""

    @property
    def whole(self) -> int:
        """How many pods of each owner must exist at the same time."""
        if self.least is not None:
            return self.least
        return self.pods if self.completions is None else min(self.pods, self.completions)


class Workload(Struct, frozen=True, gc=False):
    """An object that owns pods, and the PodGroup that follows from it before any pod exists."""

    kind: str
    """The name of its `WorkloadKind`."""
    group: PodGroup
    roles: tuple[WorkloadRole, ...]
    owner: Controller | None = None
    """Its own controller."""
    succeeded: int = 0
    """Succeeded pods, of which some may not exist any more."""
    failed_indexes: int = 0
    """Completions for which no pod is made any more."""
    minimum: int | None = None
    """How many pods must start in all, if not all of them."""


def without_progress(workload: Workload) -> Workload:
    """The same without the numbers that grow while pods end."""
    return replace(workload, succeeded=0, group=replace(workload.group, started_at=0))


OwnerLookup = Callable[[str], Workload | None]
"""The workload with this UID, if it is known."""


# --- reading ----------------------------------------------------------------------------------------------


def read_workload(kind: WorkloadKind, scheduler_name: str, written: WorkloadObject) -> Workload:
    """Convert one object."""
    meta = written.metadata
    fields = {"spec": written.spec, "status": written.status}
    checkpointed, ignored = read_checkpoint(meta.annotations)
    roles = _roles(kind, {**fields, "annotations": meta.annotations}, scheduler_name)
    minimum = next((number for path in kind.minimum if (number := _number(fields, path))), None)
    needs = _at_most(minimum, [_needed(role, {}, lambda uid: None) for role in roles])
    least = max(sum(needs), 1)
    has_run = any(_number(fields, path) for path in kind.has_run)
    group = PodGroup(
        uid=identity(kind.kind, meta),
        namespace=meta.namespace,
        name=meta.name,
        created=seconds(meta.creation_timestamp),
        spec=PodGroupSpec(
            min_member=least,
            queue=meta.labels.get(LABEL_QUEUE) or _text(fields, kind.queue),
            priority_class_name=_text(fields, kind.priority_class),
        ),
        min_member=least,
        started_at=max(seconds(meta.creation_timestamp), 1) if has_run else 0,
        checkpointed=checkpointed,
        ignored=ignored,
        problems=tuple(_problems(kind, meta, fields)),
    )
    return Workload(
        kind=kind.name,
        group=group,
        roles=roles,
        owner=controller_of(meta.owner_references),
        succeeded=_number(fields, kind.succeeded) or 0,
        failed_indexes=_count_of_indexes(_at(fields, kind.failed_indexes)),
        minimum=minimum,
    )


def _problems(kind: WorkloadKind, meta: ObjectMeta, fields: Mapping[str, Any]) -> Iterator[Objection]:
    """Pods that their controller is about to delete must not start."""
    name = f"{kind.kind} {meta.namespace}/{meta.name}"
    if meta.deletion_timestamp is not None:
        yield Objection(Reason.MEMBERS_MISSING, f"{name} is being deleted", f"Create another {kind.kind}")
    if _has_ended(kind, fields):
        yield Objection(Reason.MEMBERS_MISSING, f"{name} has ended", f"Create another {kind.kind}")
    if _at(fields, kind.suspended) is True:
        yield Objection(
            Reason.MEMBERS_MISSING,
            f"{name} is suspended: its controller deletes the pods",
            f"Resume it: set {kind.suspended} to false",
        )


def _has_ended(kind: WorkloadKind, fields: Mapping[str, Any]) -> bool:
    conditions = _at(fields, "status.conditions") if kind.ended_conditions else None
    found = conditions if isinstance(conditions, list) else ()
    types = [_at(each, "type") for each in found if _at(each, "status") == "True"]
    return bool(_at(fields, kind.ended)) or any(each in types for each in kind.ended_conditions)


def _roles(kind: WorkloadKind, fields: Mapping[str, Any], scheduler_name: str) -> tuple[WorkloadRole, ...]:
    is_elastic = _at(fields, kind.elastic) is True
    is_first = _is_annotated(fields.get("annotations"), kind)
    ordered = kind.in_order is not None and _at(fields, kind.in_order[0]) == kind.in_order[1]
    found: list[WorkloadRole] = []
    for paths in kind.roles:
        described = _at(fields, paths.at) if paths.at else fields
        for each in described if isinstance(described, list) else [described]:
            if isinstance(each, Mapping):
                is_later = bool(_at(each, paths.depends_on)) or (ordered and bool(found))
                role = _role(paths, each, scheduler_name, is_later=is_later)
                role = role if is_elastic else replace(role, least=None)
                one_first = is_first or _is_annotated(_at(each, paths.annotations), kind)
                found.append(replace(role, one_first=one_first))
    return tuple(found)


def _is_annotated(annotations: object, kind: WorkloadKind) -> bool:
    return isinstance(annotations, Mapping) and kind.one_pod_first in annotations


def _role(
    paths: RolePaths, described: Mapping[str, Any], scheduler_name: str, *, is_later: bool
) -> WorkloadRole:
    names_us = _at(described, f"{paths.template}.schedulerName") == scheduler_name
    hosts = _or_one(_number(described, paths.hosts))
    least = _number(described, paths.least) or 0
    return WorkloadRole(
        name=str(_at(described, paths.name) or paths.called),
        owners=_or_one(_number(described, paths.owners)),
        pods=max(_or_one(_number(described, paths.pods)), least) * hosts,
        least=least * hosts if paths.least else _or_one(_number(described, paths.pods)),
        completions=_number(described, paths.completions),
        exists=names_us and not is_later,
    )


def _at(described: object, path: str) -> Any:
    """The value at a path; None without one."""
    if not path:
        return None
    for name in path.split("."):
        if not isinstance(described, Mapping):
            return None
        described = described.get(name)
    return described


def _number(described: object, path: str) -> int | None:
    """The whole number at a path; None if it is missing or none that Kubernetes could have accepted."""
    value = _at(described, path)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _NUMBER_MAX:
        return None
    return value


def _text(described: object, path: str) -> str | None:
    """The text at a path; None without one."""
    value = _at(described, path)
    return value if isinstance(value, str) and value else None


def _or_one(number: int | None) -> int:
    return 1 if number is None else number


def _count_of_indexes(written: object) -> int:
    """How many indexes a text such as "1,3-5" names."""
    count = 0
    for part in written.split(",") if isinstance(written, str) else ():
        first, _, last = part.partition("-")
        if first.isascii() and first.isdigit() and (last or first).isascii() and (last or first).isdigit():
            count += max(int(last or first) - int(first) + 1, 0)
    return count


# --- in view of its pods ----------------------------------------------------------------------------------


def group_of_pods(workload: Workload, pods: Sequence[Pod], owner_of: OwnerLookup) -> PodGroup:
    """The PodGroup of a workload with the minimums that these pods of it still need.

    A pod of ours has its role by a label that its controller sets, and its owner by UID. Pods without a role,
    such as the one that submits the work to the others, count once they exist.
    """
    by_role: dict[str, dict[str, list[Pod]]] = {}
    names = {role.name for role in workload.roles}
    for pod in pods:
        if pod.controller is not None and not pod.deleting:
            role = pod.role if pod.role in names else ""
            by_role.setdefault(role, {}).setdefault(pod.controller.uid, []).append(pod)
    needs = [_needed(role, by_role.get(role.name, {}), owner_of) for role in workload.roles]
    needs = _at_most(workload.minimum, needs)
    others = by_role.get("", {}).values() if "" not in names else ()
    others_needed = sum(pod.phase is not PodPhase.FAILED for pods_of_owner in others for pod in pods_of_owner)
    uids = {pod.controller.uid for pod in pods if pod.controller is not None}
    has_run = any((owner := owner_of(uid)) is not None and owner.group.started for uid in uids)
    has_run = has_run or any(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    group = workload.group
    return replace(
        group,
        min_member=max(sum(needs) + others_needed, 1),
        roles=tuple(
            RoleSpec(role.name, count=max(min(role.owners * role.pods, _NUMBER_MAX), need), min_member=need)
            for role, need in zip(workload.roles, needs, strict=True)
            if role.name
        ),
        started_at=group.started_at or (max(group.created, 1) if has_run else 0),
    )


def _at_most(minimum: int | None, needs: list[int]) -> list[int]:
    """These minimums of roles, the last ones lower, so that the gang needs no more than `minimum`."""
    left = sum(needs) if minimum is None else minimum
    lowered: list[int] = []
    for need in needs:
        lowered.append(min(need, left))
        left -= lowered[-1]
    return lowered


def _needed(role: WorkloadRole, by_owner: Mapping[str, Sequence[Pod]], owner_of: OwnerLookup) -> int:
    """How many pods of the role the gang consists of by now, succeeded ones included."""
    if not role.exists and not by_owner:
        return 0
    there = sum(_needed_of_owner(role, pods, owner_of(uid)) for uid, pods in by_owner.items())
    return min(there + max(role.owners - len(by_owner), 0) * _first(role), _NUMBER_MAX)


def _first(role: WorkloadRole) -> int:
    """How many pods an owner makes before any of its pods has a node."""
    return min(role.whole, 1) if role.one_first else role.whole


def _needed_of_owner(role: WorkloadRole, pods: Sequence[Pod], owner: Workload | None) -> int:
    """Of one owner. What its own object says counts more than what its template says."""
    if role.one_first and len(pods) == 1:
        return _first(role)
    if owner is not None:
        role = next((own for own in owner.roles if own.name in ("", role.name)), role)
    succeeded = sum(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    if role.completions is None:
        left = [pod for pod in pods if pod.phase is not PodPhase.FAILED]
        return len(left) if succeeded else role.whole
    gone = max(owner.succeeded - succeeded, 0) + owner.failed_indexes if owner is not None else 0
    return max(min(succeeded + role.pods, role.completions - gone), 0)
