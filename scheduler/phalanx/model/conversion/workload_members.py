"""Workloads: their roles, and how many pods of each are a gang, in view of the pods that exist.

docs/workloads.md states the rules.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.awaited_pods import is_awaited
from phalanx.model.conversion.partial_admission import PartialAdmission
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.gangs import RoleSpec
from phalanx.model.pods import Controller, Pod, PodPhase, PodShape
from phalanx.model.reasons import Objection
from phalanx.model.workloads.apps import DEPLOYMENT
from phalanx.model.workloads.known import POD

NUMBER_MAX: Final = 2**31 - 1
"""The largest number in an object, and of pods of one role: their sums can be recorded."""


class WorkloadRole(Struct, frozen=True, gc=False):
    """A set of `owners` objects, such as Jobs, that make `pods` pods each."""

    name: str
    owners: int
    pods: int
    completions: int | None = None
    """Pods of each owner that succeed in all; None if nobody counts them."""
    exists: bool = True
    """Whether its pods are made by now. Otherwise it counts once one of them exists."""
    ours: bool | None = True
    """Whether its template names this scheduler; None if it names none: then the pods that exist decide."""
    least: int | None = None
    """Pods of each owner that must start, if an autoscaler decides on the others, or partial admission."""
    shape: PodShape | None = None
    """The shape of its pods. If it is set, capacity is reserved for those that do not exist yet."""
    unit: int = 1
    """How many of them start together beyond the minimum."""
    unit_label: str = ""
    """The label that these share."""
    one_first: bool = False
    """Whether each owner makes its other pods when its first one has a node."""
    in_group: bool = False
    """Whether its template names a PodGroup, whose gang its pods are then."""

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
    eviction: Objection | None = None
    """Set while it is suspended and its pods, but not those that are awaited, are about to be deleted."""
    ended_role: str | None = None
    """The role of its pods in the workload that owns it, if all of them have succeeded: they may be gone."""
    has_parts: bool = False
    """Whether it is several gangs: then the objects that own its pods may own those of several gangs."""
    partial: PartialAdmission | None = None
    """Set if it may be started with fewer pods, and be made smaller then."""


def without_progress(workload: Workload) -> Workload:
    """The same without the numbers that grow while pods end."""
    partial = workload.partial
    if partial is not None:
        partial = replace(partial, has_run=False, version="")
    return replace(workload, succeeded=0, group=replace(workload.group, started_at=0), partial=partial)


OwnerLookup = Callable[[str], Workload | None]
"""The workload with this UID, if it is known."""


def no_owner(_uid: str) -> Workload | None:
    """None is known."""
    return None


def group_of_pods(
    workload: Workload,
    pods: Sequence[Pod],
    owner_of: OwnerLookup,
    *,
    foreign: Collection[str] = (),
    ended: Mapping[str, int],
) -> PodGroup:
    """The PodGroup of a workload with the minimums that these pods of it still need.

    A pod of ours has its role by a label that its controller sets, and its owner by UID. Pods without a role,
    such as the one that submits the work to the others, count once they exist. `foreign`: the roles of its
    pods that name another scheduler. `ended`: how many owners of each role have succeeded and have no pods.
    """
    if workload.has_parts:
        owner_of = _below_pods(owner_of)
    by_role: dict[str, dict[str, list[Pod]]] = {}
    names = {role.name for role in workload.roles}
    for pod in pods:
        if pod.controller is not None and not pod.deleting:
            role = pod.role if pod.role in names else ""
            by_role.setdefault(role, {}).setdefault(pod.controller.uid, []).append(pod)
    roles = _decided(workload.roles, by_role, foreign)
    needs = [needed(role, by_role.get(role.name, {}), owner_of, ended.get(role.name, 0)) for role in roles]
    if workload.kind == DEPLOYMENT.name:
        needs = [max(need, role.whole) for role, need in zip(roles, needs, strict=True)]
    label = _label(pods)
    if label:
        roles = [replace(role, shape=None) if role.name else role for role in roles]
    needs = at_most(label or workload.minimum, needs)
    others = by_role.get("", {}).values() if "" not in names else ()
    others_needed = sum(pod.phase is not PodPhase.FAILED for pods_of_owner in others for pod in pods_of_owner)
    uids = {pod.controller.uid for pod in pods if pod.controller is not None}
    has_run = any((owner := owner_of(uid)) is not None and owner.group.started for uid in uids)
    has_run = has_run or any(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    group = workload.group
    if group.spec.reserves and all(role.shape is None for role in roles):
        group = replace(group, spec=replace(group.spec, start_when=None))
    if workload.eviction is not None and not any(is_awaited(pod.uid) for pod in pods):
        group = replace(group, problems=(*group.problems, workload.eviction))
    return replace(
        group,
        min_member=label or max(sum(needs) + others_needed, 1),
        roles=tuple(
            RoleSpec(
                role.name,
                count=max(min(role.owners * role.pods, NUMBER_MAX), need),
                min_member=need,
                shape=role.shape,
                unit=role.unit,
                unit_label=role.unit_label,
            )
            for role, need in zip(roles, needs, strict=True)
            if (role.name and not label) or role.shape is not None
        ),
        started_at=group.started_at or (max(group.created, 1) if has_run else 0),
    )


def _below_pods(owner_of: OwnerLookup) -> OwnerLookup:
    """Only owners that a pod owns: each makes pods of one part. Other ones make pods of several."""

    def found(uid: str) -> Workload | None:
        owner = owner_of(uid)
        above = owner.owner if owner is not None else None
        return owner if above is not None and above.workload == POD else None

    return found


def _label(pods: Sequence[Pod]) -> int:
    """The minimum that the label `min-member` of the newest pods sets: in a rolling update older ones may
    have another. 0 without one."""
    present = [pod for pod in pods if not pod.deleting]
    newest = max((pod.created for pod in present), default=0)
    return max((pod.min_member or 0 for pod in present if pod.created == newest), default=0)


def is_undecided(workload: Workload, pods: Sequence[Pod]) -> bool:
    """Whether a role whose template names no scheduler has no pod among these."""
    unnamed = {role.name for role in workload.roles if role.ours is None}
    return bool(unnamed) and not unnamed.issubset(pod.role for pod in pods)


def _decided(
    roles: Sequence[WorkloadRole], ours: Collection[str], foreign: Collection[str]
) -> list[WorkloadRole]:
    """The roles; those of other schedulers, and of PodGroups, as ones that do not exist.

    `ours` and `foreign`: the roles that have pods of this scheduler, and of others. A role whose template
    names no scheduler, and that has no pods, is like the other such roles: whatever names the scheduler on
    their pods names it on all. With none to compare it counts: to wait for its first pod is better than to
    start without it.
    """
    unnamed = {role.name for role in roles if role.ours is None}
    not_ours = unnamed.intersection(foreign).difference(ours)
    if not_ours and unnamed.isdisjoint(ours):
        not_ours = unnamed
    others = {role.name for role in roles if role.ours is False or role.in_group}
    left_out = others.difference(ours) | not_ours
    return [replace(role, exists=False, shape=None) if role.name in left_out else role for role in roles]


def at_most(minimum: int | None, needs: list[int]) -> list[int]:
    """These minimums of roles, the last ones lower, so that the gang needs no more than `minimum`."""
    left = sum(needs) if minimum is None else minimum
    lowered: list[int] = []
    for need in needs:
        lowered.append(min(need, left))
        left -= lowered[-1]
    return lowered


def needed(
    role: WorkloadRole, by_owner: Mapping[str, Sequence[Pod]], owner_of: OwnerLookup, ended: int = 0
) -> int:
    """How many pods of the role the gang consists of by now, succeeded ones included. `ended`: so many other
    owners have no pods any more."""
    if not role.exists and not by_owner and role.shape is None:
        return 0
    there = sum(_needed_of_owner(role, pods, owner_of(uid)) for uid, pods in by_owner.items())
    return min(there + max(role.owners - len(by_owner) - ended, 0) * _first(role), NUMBER_MAX)


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
    at_once = role.pods if role.least is None else role.least
    return max(min(succeeded + at_once, role.completions - gone), 0)
