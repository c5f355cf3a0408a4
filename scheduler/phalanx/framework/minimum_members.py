"""Choose the members with which a gang reaches its minimum.

Any members will do that satisfy the minimums of the gang, of its roles and of its subgroups. Members that no
node can take are chosen last. Among the others the order of the gang decides: of two sets of members, the one
with the first member that only one of them has goes first. Sets with a member too many do not count.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from phalanx.framework.placeholders import placeholders
from phalanx.limits import MEMBER_SET_PASSES_EACH_MAX, MEMBER_SET_PASSES_MAX
from phalanx.model.gangs import (
    Gang,
    Kind,
    SubgroupSpec,
    ancestor_chains,
    kind_of,
    missing_by_role,
    missing_by_subgroup,
)
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod


_Part = tuple[str, str]
"""The role and the subgroup of a pod."""


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


def first_sufficient(
    ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]
) -> list[Pod]:
    """The first sufficient set of these pods; all that are needed if they are not enough."""
    return _SetSearch(ready, missing, parts, MEMBER_SET_PASSES_MAX).first_sufficient()


def pods_to_minimum(gang: Gang, can_run: Callable[[Pod], bool]) -> list[Pod]:
    """As many waiting members as the gang lacks to its minimum; none while too few exist to start.

    If only some of the subgroups must start, the minimums of subgroups do not count. A gang that reserves
    includes placeholders for members that do not exist.
    """
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    ready = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
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


def first_members(ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec]) -> list[Pod]:
    """The pods that roles and subgroups need, in their order, then the first others up to the minimum.

    Where pods have both a role and a subgroup, more may be among them than are needed.
    """
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
    """What is missing if these pods are there."""
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


def _part(pod: Pod) -> _Part:
    return pod.role, pod.subgroup


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

    def add(self, pod: Pod) -> None:
        self._count += 1
        self._roles[pod.role] += 1
        self._subgroups.update(self._around.get(pod.subgroup, ()))

    @property
    def lacks_members(self) -> bool:
        return self._count < self._missing.members

    def lacks(self, pod: Pod) -> bool:
        """Whether its role or one of its subgroups has too few pods."""
        subgroups = self._missing.subgroups
        return self._roles[pod.role] < self._missing.roles.get(pod.role, 0) or any(
            self._subgroups[name] < subgroups.get(name, 0) for name in self._around.get(pod.subgroup, ())
        )

    def would_exceed(self, pod: Pod) -> bool:
        """Whether the total, the role or a subgroup has just what is missing, and more with this pod."""
        subgroups = self._missing.subgroups
        return (
            self._count == self._missing.members
            or self._roles[pod.role] == self._missing.roles.get(pod.role, 0)
            or any(
                self._subgroups[name] == subgroups.get(name, 0)
                for name in self._around.get(pod.subgroup, ())
            )
        )


class _Beside:
    """Takes pods beside those of a tally, as long as none of `kept` becomes redundant."""

    def __init__(self, tally: _Tally, kept: Sequence[Pod], closed: Collection[_Part]) -> None:
        self._tally = tally
        self._kept = list({_part(pod): pod for pod in kept}.values())
        self._refused = set(closed)

    def takes_for_part(self, pod: Pod) -> bool:
        """Whether the pod was taken because its role or a subgroup lacks pods."""
        return self._tally.lacks(pod) and self._takes(pod)

    def takes_for_total(self, pod: Pod) -> bool:
        return self._tally.lacks_members and self._takes(pod)

    def _takes(self, pod: Pod) -> bool:
        if _part(pod) in self._refused:
            return False
        is_harmless = not self._tally.would_exceed(pod)
        self._tally.add(pod)
        if is_harmless or not any(map(self._tally.is_enough_without, self._kept)):
            return True
        self._tally.remove(pod)
        self._refused.add(_part(pod))
        return False


# --- other sets of members --------------------------------------------------------------------------------


def sets_of_members(
    ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec], *, passes: int
) -> Iterator[list[Pod]]:
    """Yield the sufficient sets of these pods in order; of each kind, the first ones are in a set.

    The search is depth-first: it keeps the longest part of the last set that can be completed without the
    member after it. After the first set it ends after this number of `passes` over the pods.
    """
    first = first_sufficient(ready, missing, parts)
    if not is_enough(first, missing, parts):
        return
    yield first
    search = _SetSearch(ready, missing, parts, passes)
    chosen = search.indices_of(first)
    while chosen:
        kept, last, chosen = len(chosen), chosen, []
        while kept > 0 and not chosen and search.has_passes_left:
            kept -= 1
            chosen = search.first_after(last[:kept], last[kept] + 1)
        if chosen:
            yield [ready[index] for index in chosen]


class _Branch(Struct, frozen=True):
    """What one pass takes first, and the roles and subgroups of which it takes nothing else."""

    kept: Mapping[int, None] = {}
    """The indices in the order in which they were taken."""

    closed: frozenset[_Part] = frozenset()


class _SetSearch:
    """Completes sets of pods, which are given by their indices in ascending order."""

    def __init__(
        self, ready: Sequence[Pod], missing: MissingMembers, parts: Sequence[SubgroupSpec], passes: int
    ) -> None:
        self._ready = ready
        self._missing = missing
        self._parts = parts
        self._around = ancestor_chains(parts)
        self._kinds = [kind_of(pod) for pod in ready]
        self._passes_left = passes

    @property
    def has_passes_left(self) -> bool:
        return self._passes_left > 0

    def indices_of(self, pods: Sequence[Pod]) -> list[int]:
        uids = {pod.uid for pod in pods}
        return [index for index, pod in enumerate(self._ready) if pod.uid in uids]

    def first_sufficient(self) -> list[Pod]:
        """The first sufficient set; all pods that are needed if they are not enough.

        Where a pod counts for several minimums, it is the best set after the passes.
        """
        first = first_members(self._ready, self._missing, self._parts)
        chosen = minimal(first, self._missing, self._parts)
        if not is_enough(chosen, self._missing, self._parts):
            return chosen
        return self._pods(self._with_earlier(self.indices_of(chosen), 0))

    def first_after(self, begin: Sequence[int], since: int) -> list[int]:
        """The first set that begins so and goes on from index `since` on; empty without one."""
        completed = self._completed(begin, since)
        return self._with_earlier(completed, since) if completed else []

    def _with_earlier(self, found: list[int], since: int) -> list[int]:
        """The first sufficient set, from one in which pods that roles and subgroups need go first.

        A pod that only the total needs may be earlier than one that has a role, if a later pod has this role
        and a subgroup. The choice before index `since` is kept.
        """
        if not self._missing.subgroups or not (self._missing.roles or any(part.parent for part in self._parts)):
            return found
        inside = set(found)
        refused = {self._kinds[index] for index in range(since) if index not in inside}
        for index in range(since, len(self._ready)):
            if index > found[-1] or self._passes_left <= 0:
                break
            if index in inside or self._kinds[index] in refused:
                continue
            earlier = self._completed([*(other for other in found if other < index), index], index + 1)
            if earlier:
                found, inside = earlier, set(earlier)
            else:
                refused.add(self._kinds[index])
        return found

    def _completed(self, begin: Sequence[int], since: int) -> list[int]:
        """A sufficient set without redundant members that begins so; empty without one.

        Each pass takes the pods that roles and subgroups lack, then others up to the total. If that is not
        enough, the next pass takes a smaller number of one kind: this is a depth-first search.
        """
        self._passes_left -= 1
        pods, rest = self._pods(begin), self._rest(begin, since)
        if len(minimal(pods, self._missing, self._parts)) < len(pods):
            return []
        if not is_enough([*pods, *self._pods(rest)], self._missing, self._parts):
            return []
        branches = [iter([_Branch()])]
        end = max(0, self._passes_left - MEMBER_SET_PASSES_EACH_MAX)
        while branches and self._passes_left > end:
            branch = next(branches[-1], None)
            if branch is None:
                branches.pop()
                continue
            self._passes_left -= 1
            tally = _Tally(self._pods([*begin, *branch.kept]), self._missing, self._around)
            beside = _Beside(tally, pods, branch.closed)
            left = [index for index in rest if index not in branch.kept]
            for_parts = [index for index in left if beside.takes_for_part(self._ready[index])]
            taken = dict.fromkeys([*branch.kept, *for_parts])
            others = [index for index in left if index not in taken and beside.takes_for_total(self._ready[index])]
            if tally.is_enough:
                found = self._pods(sorted([*begin, *taken, *others]))
                return self.indices_of(minimal(found, self._missing, self._parts))
            branches.append(self._with_fewer(branch, list(taken)))
        return []

    def _with_fewer(self, branch: _Branch, taken: Sequence[int]) -> Iterator[_Branch]:
        """The branches without one of the pods that were taken beyond the branch, the last one first."""
        for count in reversed(range(len(branch.kept), len(taken))):
            part = _part(self._ready[taken[count]])
            yield _Branch(dict.fromkeys(taken[:count]), branch.closed | {part})

    def _pods(self, indices: Sequence[int]) -> list[Pod]:
        return [self._ready[index] for index in indices]

    def _rest(self, begin: Sequence[int], since: int) -> list[int]:
        """The pods from `since` on, without the kinds of which an earlier pod is left out."""
        inside = set(begin)
        closed = {self._kinds[index] for index in range(since) if index not in inside}
        return [index for index in range(since, len(self._ready)) if self._kinds[index] not in closed]
