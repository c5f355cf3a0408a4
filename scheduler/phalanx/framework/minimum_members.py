"""Choose the members with which a gang reaches its minimum.

Any members will do that satisfy the minimums of the gang, of its roles and of its subgroups. Members that no
node can take are chosen last. Among the others the order of the gang decides: of two sets of members, the one
with the first member that only one of them has goes first. Sets with a member too many do not count.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from phalanx.framework.member_units import in_whole_units
from phalanx.framework.placeholders import placeholders
from phalanx.model.gangs import (
    Gang,
    SubgroupSpec,
    ancestor_chains,
    complete_subgroups,
    members_within,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
)
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod


class MissingMembers(Struct, frozen=True):
    """The number of missing members: in total, and by the roles and subgroups that lack some."""

    members: int
    roles: Mapping[str, int] = {}
    subgroups: Mapping[str, int] = {}


def without_node(pods: Sequence[Pod], can_run: Callable[[Pod], bool]) -> frozenset[PodUid]:
    """The pods that no node can take, if the pods are of several shapes: else there is nothing to choose."""
    if len({pod.shape.key for pod in pods}) < 2:
        return frozenset()
    return frozenset(pod.uid for pod in pods if not can_run(pod))


def placed_last(pods: Sequence[Pod], last: Collection[PodUid]) -> list[Pod]:
    """The pods in their order, but these last."""
    return sorted(pods, key=lambda pod: pod.uid in last) if last else list(pods)


def pods_to_minimum(gang: Gang, can_run: Callable[[Pod], bool]) -> list[Pod]:
    """As many waiting members as the gang lacks to its minimum; none while too few exist to start.

    If only some of the subgroups must start, the minimums of subgroups do not count. A gang that reserves
    includes placeholders for members that do not exist.
    """
    counted = gang.counted
    waiting = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    arriving = incomplete_roles(gang, waiting, counted) if gang.started else {}
    ready = in_whole_units(gang, [pod for pod in waiting if pod.role not in arriving])
    missing = MissingMembers(
        members=gang.min_member - len(counted),
        roles=missing_by_role(counted, gang.roles),
        subgroups={} if gang.min_subgroups else missing_by_subgroup(counted, gang.subgroups),
    )
    ordered = placed_last(ready, without_node(ready, can_run))
    pods = first_members(ordered, missing, gang.subgroups)
    if gang.reserves and pods:
        pods += placeholders(gang, [*counted, *ready])
    return pods if gang.started or len(pods) >= missing.members else []


def incomplete_roles(gang: Gang, ready: Sequence[Pod], there: Sequence[Pod]) -> dict[str, int]:
    """The roles that come later and whose pods still arrive, with their minimums: each starts whole.

    Those for which capacity is reserved were placed with the gang: their pods may arrive one by one.
    """
    started, waiting = {pod.role for pod in there}, Counter(pod.role for pod in ready)
    return {
        role.name: role.min_member
        for role in gang.roles
        if 0 < waiting[role.name] < role.min_member and role.name not in started and role.shape is None
    }


def first_members(ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]) -> list[Pod]:
    """The pods that roles and subgroups need, in their order, then the first others up to the minimum.

    Where pods have both a role and a subgroup, more may be among them than are needed.
    """
    if not missing.roles and not missing.subgroups:
        return list(ready[: max(0, missing.members)])
    roles, subgroups = dict(missing.roles), dict(missing.subgroups)
    around = ancestor_chains(parts)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in ready:
        names = around.get(pod.subgroup, ())
        if roles.get(pod.role, 0) > 0 or any(subgroups.get(name, 0) > 0 for name in names):
            roles[pod.role] = roles.get(pod.role, 0) - 1
            for name in names:
                subgroups[name] = subgroups.get(name, 0) - 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others[: max(0, missing.members - len(first))]]


def needed_besides(gang: Gang, there: Sequence[Pod], pods: Sequence[Pod]) -> list[Pod]:
    """Those of the pods that the minimum lacks besides the members that are `there`.

    If only some subgroups must start together, only as many more count as are missing.
    """
    if gang.minimum.is_reached(there):
        return []
    lacking = missing_by_subgroup(there, gang.subgroups)
    if gang.min_subgroups:
        outer, whole = outer_subgroups(gang.subgroups), complete_subgroups(there, gang.subgroups)
        concerned = [outer[pod.subgroup] for pod in pods if pod.subgroup in outer]
        others = [name for name in dict.fromkeys(concerned) if name not in whole]
        names = others[: max(0, gang.min_subgroups - len(whole))]
        lacking = {name: count for name, count in lacking.items() if outer[name] in names}
        pods = members_within(pods, gang.subgroups, [*names, *whole])
    missing = MissingMembers(
        gang.min_member - len(there), missing_by_role(there, gang.roles), subgroups=lacking
    )
    return first_members(pods, missing, gang.subgroups)


def minimal(pods: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]) -> list[Pod]:
    """The pods without those, the last first, that are not needed because of the others."""
    if len(pods) <= missing.members:
        return list(pods)
    tally = _Tally(pods, missing, ancestor_chains(parts))
    redundant = set()
    for pod in reversed(pods):
        if tally.is_enough_without(pod):
            tally.remove(pod)
            redundant.add(pod.uid)
    return [pod for pod in pods if pod.uid not in redundant]


def is_enough(pods: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]) -> bool:
    """Whether these pods are what is missing, or more."""
    return _Tally(pods, missing, ancestor_chains(parts)).is_enough


def missing_besides(
    pods: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]
) -> MissingMembers:
    roles, subgroups, around = dict(missing.roles), dict(missing.subgroups), ancestor_chains(parts)
    for pod in pods:
        roles[pod.role] = roles.get(pod.role, 0) - 1
        for name in around.get(pod.subgroup, ()):
            subgroups[name] = subgroups.get(name, 0) - 1
    return MissingMembers(
        members=missing.members - len(pods),
        roles={name: count for name, count in roles.items() if count > 0},
        subgroups={name: count for name, count in subgroups.items() if count > 0},
    )


class _Tally:
    """Counts a set of pods against what is missing."""

    def __init__(
        self, pods: Sequence[Pod], missing: MissingMembers, around: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._missing = missing
        self._around = around
        self._count = len(pods)
        self._roles = Counter(pod.role for pod in pods)
        self._subgroups = Counter(chain.from_iterable(around.get(pod.subgroup, ()) for pod in pods))

    @property
    def is_enough(self) -> bool:
        return (
            self._count >= self._missing.members
            and all(self._roles[name] >= count for name, count in self._missing.roles.items())
            and all(self._subgroups[name] >= count for name, count in self._missing.subgroups.items())
        )

    def is_enough_without(self, pod: Pod) -> bool:
        """Whether the set without this pod of it is enough, if the whole set is."""
        missing = self._missing
        return (
            self._count > missing.members
            and self._roles[pod.role] > missing.roles.get(pod.role, 0)
            and all(
                self._subgroups[name] > missing.subgroups.get(name, 0)
                for name in self._around.get(pod.subgroup, ())
            )
        )

    def remove(self, pod: Pod) -> None:
        self._count -= 1
        self._roles[pod.role] -= 1
        self._subgroups.subtract(self._around.get(pod.subgroup, ()))
