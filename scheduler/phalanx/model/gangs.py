"""What a set of members consists of, when pods of one kind are counted instead of listed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.model.api.pod_groups import Disruption, PodGroupSpec, Recovery, Runtime, TopologyRequest
from phalanx.model.names import GangId, NodeName, QueueName, ShapeKey
from phalanx.model.pods import Pod, PodPhase, PodShape, without_affinity_state
from phalanx.model.reasons import Objection

Kind = tuple[str, str, ShapeKey]
"""Role, subgroup and shape: what makes two members alike."""


class MemberCount(Struct, frozen=True):
    """So many members of one role, subgroup and shape."""

    role: str
    shape: PodShape
    count: int
    subgroup: str = ""


def kind_of(pod: Pod) -> Kind:
    """The kind of a member, whatever its affinity state."""
    return (pod.role, pod.subgroup, without_affinity_state(pod.shape).key)


def count_members(pods: Iterable[Pod]) -> tuple[MemberCount, ...]:
    """What these members consist of, in the order of their kinds."""
    shapes: dict[Kind, PodShape] = {}
    counts: Counter[Kind] = Counter()
    for pod in pods:
        kind = kind_of(pod)
        counts[kind] += 1
        shapes[kind] = without_affinity_state(pod.shape)
    return tuple(
        MemberCount(role=kind[0], subgroup=kind[1], shape=shapes[kind], count=counts[kind])
        for kind in sorted(counts)
    )


class GangKind(StrEnum):
    """Where a gang comes from."""

    POD_GROUP = "PodGroup"
    LABEL = "Label"
    POD = "Pod"


class RoleSpec(Struct, frozen=True):
    """A role as its PodGroup declares it: how many pods it has and how many of them must start.

    `shape` is that of members which do not exist yet; None where the PodGroup does not tell their requests.
    """

    name: str
    count: int
    min_member: int
    shape: PodShape | None = None


class SubgroupSpec(Struct, frozen=True):
    """A named part of a gang. `min_member` of its members, those of parts inside it included, start together.

    `required` is a level: all of its members lie in one domain of it, or, with a `segment` above 0, each
    domain holds a multiple of so many of them. `preferred`: in the fewest domains down to it. `parent` is the
    part around it, empty for none.
    """

    name: str
    min_member: int
    parent: str = ""
    required: str | None = None
    segment: int = 0
    preferred: str | None = None


class Minimum(Struct, frozen=True):
    """How many members are enough to start: in all, of each role, and of each subgroup.

    With `of_subgroups` above 0 so many outer subgroups are enough. Members of those that lack some of their
    own minimum then count for nothing. `reserves`: room may be kept for those that do not exist yet.
    """

    members: int
    roles: tuple[RoleSpec, ...] = ()
    subgroups: tuple[SubgroupSpec, ...] = ()
    of_subgroups: int = 0
    reserves: bool = False

    def is_reached(self, counted: Sequence[Pod]) -> bool:
        """Whether these members are enough."""
        if not self.of_subgroups:
            return not missing_by_subgroup(counted, self.subgroups) and self._has_members(counted)
        whole = complete_subgroups(counted, self.subgroups)
        inside = members_within(counted, self.subgroups, whole)
        return len(whole) >= self.of_subgroups and self._has_members(inside)

    def has_started_with(self, counted: Sequence[Pod]) -> bool:
        """Whether a gang of which these members have nodes has started.

        Where room is kept for those that do not exist yet, no member gets a node without that.
        """
        return self.is_reached(counted) or (self.reserves and bool(counted))

    def _has_members(self, counted: Sequence[Pod]) -> bool:
        return len(counted) >= self.members and not missing_by_role(counted, self.roles)


_NO_TOPOLOGY: Final = TopologyRequest()
_NO_RECOVERY: Final = Recovery()
_NO_DISRUPTION: Final = Disruption()
_NO_RUNTIME: Final = Runtime()


class Gang(Struct, frozen=True, dict=True):
    """One gang with all its known members (waiting, bound, running, ended).

    `members` are in the order in which they count: higher priority, lower index, older, name. `roles` is
    empty when the PodGroup declares none. `min_subgroups` of the subgroups without a parent must start
    together, 0 for all of them. `priority` is the PodGroup's, or else the lowest of its members.
    `created` is in seconds since the epoch: the PodGroup's, or the oldest member's. `started` tells whether
    minMember was reached once in the API; such a gang stays started while some member counts. With none left
    it begins anew (`starts_over`), whole as the first time. One that `reserves` starts with the members that
    exist, when there is room for those that its roles declare besides. `start_by`: when it should have
    started for the first time, in milliseconds since the epoch; None for no such wish. `problems` make the
    gang unplaceable until its objects change; those of its waiting members are among them. `checkpointed`:
    when the work of all members was last saved, in seconds since the epoch, 0 when nobody tells. `ignored`:
    hints that count for nothing.

    What follows from the members is worked out once: from one cycle to the next most gangs do not change.
    """

    id: GangId
    kind: GangKind
    namespace: str
    name: str
    queue: QueueName
    min_member: int
    priority: int
    created: int
    members: tuple[Pod, ...]
    spec: PodGroupSpec = PodGroupSpec(min_member=1)
    roles: tuple[RoleSpec, ...] = ()
    subgroups: tuple[SubgroupSpec, ...] = ()
    started: bool = False
    starts_over: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    resource_version: str = ""
    problems: tuple[Objection, ...] = ()
    checkpointed: int = 0
    ignored: tuple[str, ...] = ()

    @property
    def topology(self) -> TopologyRequest:
        """Levels that it requests."""
        return self.spec.topology or _NO_TOPOLOGY

    @property
    def recovery(self) -> Recovery:
        """Reaction to lost members."""
        return self.spec.recovery or _NO_RECOVERY

    @property
    def disruption(self) -> Disruption:
        """How it may be evicted."""
        return self.spec.disruption or _NO_DISRUPTION

    @property
    def runtime(self) -> Runtime:
        """Expected and maximum run time."""
        return self.spec.runtime or _NO_RUNTIME

    @property
    def reserves(self) -> bool:
        """Whether capacity is reserved for members that do not exist when it starts."""
        return self.spec.reserves

    @property
    def min_subgroups(self) -> int:
        """How many outer subgroups must start together, 0 for all of them."""
        return self.spec.required_subgroups

    @property
    def may_preempt(self) -> bool:
        """Whether others may be evicted for it at all."""
        return self.preemption_policy != "Never"

    @property
    def minimum(self) -> Minimum:
        """What it takes to start."""
        return Minimum(self.min_member, self.roles, self.subgroups, self.min_subgroups, self.reserves)

    @cached_property
    def active(self) -> int:
        """Members that count towards minMember now."""
        return sum(1 for pod in self.members if pod.counts_for_gang)

    @property
    def is_satisfied(self) -> bool:
        """Whether minMember is reached now."""
        return self.active >= self.min_member

    @property
    def deadline(self) -> int | None:
        """The time by which a gang that has never started should start, in milliseconds; else None."""
        return None if self.started or self.starts_over else self.spec.start_by_ms

    @cached_property
    def has_waiting(self) -> bool:
        """Whether a member still needs a node."""
        return any(pod.is_waiting for pod in self.members)

    @cached_property
    def nodes(self) -> frozenset[NodeName]:
        """Where members take room."""
        return frozenset(pod.node for pod in self.members if pod.node is not None and pod.holds_node)

    @cached_property
    def parts(self) -> tuple[MemberCount, ...]:
        """What the members consist of."""
        return count_members(self.members)

    @cached_property
    def is_stable(self) -> bool:
        """Whether each member is bound to its node, none is to leave it, and they are enough."""
        is_stable = all(pod.is_stable for pod in self.members)
        return is_stable and self.minimum.is_reached(self.members)

    @cached_property
    def is_finishing(self) -> bool:
        """Whether a member has succeeded: others that are missing then may be missing for good."""
        return any(pod.phase is PodPhase.SUCCEEDED for pod in self.members)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def missing_by_role(counted: Iterable[Pod], roles: Iterable[RoleSpec]) -> dict[str, int]:
    """How many members each declared role lacks to its own minimum when these count; only those that lack."""
    missing = {role.name: role.min_member for role in roles}
    for pod in counted:
        if pod.role in missing:
            missing[pod.role] -= 1
    return {role: count for role, count in missing.items() if count > 0}


def missing_by_subgroup(counted: Iterable[Pod], subgroups: Sequence[SubgroupSpec]) -> dict[str, int]:
    """How many members each subgroup lacks to its own minimum when these count; only those that lack."""
    missing = {subgroup.name: subgroup.min_member for subgroup in subgroups}
    around = ancestor_chains(subgroups)
    for pod in counted:
        for name in around.get(pod.subgroup, ()):
            missing[name] -= 1
    return {name: count for name, count in missing.items() if count > 0}


def ancestor_chains(subgroups: Sequence[SubgroupSpec]) -> dict[str, tuple[str, ...]]:
    """Per subgroup its own name and those around it, innermost first; a circle ends where it began."""
    parents = {subgroup.name: subgroup.parent for subgroup in subgroups}
    found: dict[str, tuple[str, ...]] = {}
    for subgroup in subgroups:
        names: list[str] = []
        name = subgroup.name
        while name in parents and name not in names:
            names.append(name)
            name = parents[name]
        found[subgroup.name] = tuple(names)
    return found


def outer_subgroups(subgroups: Sequence[SubgroupSpec]) -> dict[str, str]:
    """Per subgroup the one without a parent in which it lies: itself for an outer one."""
    return {name: around[-1] for name, around in ancestor_chains(subgroups).items()}


def complete_subgroups(counted: Iterable[Pod], subgroups: Sequence[SubgroupSpec]) -> tuple[str, ...]:
    """The outer subgroups that have their minimum, and those inside them theirs, when these count."""
    outer = outer_subgroups(subgroups)
    lacking = [outer[name] for name in missing_by_subgroup(counted, subgroups)]
    return tuple(part.name for part in subgroups if not part.parent and part.name not in lacking)


def members_within(pods: Iterable[Pod], subgroups: Sequence[SubgroupSpec], names: Iterable[str]) -> list[Pod]:
    """Those of the pods that lie in one of these outer subgroups, or in no subgroup at all."""
    outer, known = outer_subgroups(subgroups), frozenset(names)
    return [pod for pod in pods if outer.get(pod.subgroup) in known or pod.subgroup not in outer]
