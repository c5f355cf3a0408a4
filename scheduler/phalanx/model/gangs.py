"""Gangs: pods that start together or not at all."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Final

from msgspec import Struct, json

from phalanx.model.api.pod_groups import (
    SUBGROUP_LEVELS_MAX,
    Disruption,
    PodGroupSpec,
    Recovery,
    Runtime,
    TopologyRequest,
)
from phalanx.model.names import API_GROUP, GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.pods import ClaimCharge, Pod, PodPhase, PodShape, without_affinity_state
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import GangRecord, RecordKind, record_kinds
from phalanx.model.supplies.devices.claims import ClaimSpec
from phalanx.model.supplies.devices.extended_resources import ExtendedRequests

QueuePlace = tuple[int, int, str, str, GangId]
"""The usual place of a gang in its queue: by priority, the highest first, then by the time in line."""

Kind = tuple[str, str, ShapeKey]
"""Role, subgroup and shape key of a member."""


class MemberClaims(Struct, frozen=True, gc=False):
    """What a member asks of devices, and the pod asks that is created in its place.

    `own`: what the claims ask for that were made for the pod, in their order. `named`: the names of its other
    claims. `extended`: its extended resources, if devices may satisfy them.
    """

    own: tuple[ClaimSpec, ...] = ()
    named: tuple[str, ...] = ()
    extended: ExtendedRequests | None = None


class MemberCount(Struct, frozen=True):
    """Number of members of one role, subgroup and shape, with equal claims."""

    role: str
    shape: PodShape
    count: int
    subgroup: str = ""
    charges: tuple[ClaimCharge, ...] = ()
    """What a queue is charged for the claims of one of them, those that the next such member gets too."""
    claims: MemberClaims | None = None
    """None if it asks for no devices, or if that is not known."""


def kind_of(pod: Pod) -> Kind:
    """The kind of a member, whatever its affinity state."""
    return (pod.role, pod.subgroup, without_affinity_state(pod.shape).key)


def count_members(
    pods: Iterable[Pod], claims_of: Callable[[Pod], MemberClaims | None] = lambda pod: None
) -> tuple[MemberCount, ...]:
    """Members by kind and claims, sorted by kind."""
    shapes: dict[Kind, PodShape] = {}
    counts: Counter[tuple[Kind, MemberClaims | None]] = Counter()
    charges: dict[tuple[Kind, MemberClaims | None], tuple[ClaimCharge, ...]] = {}
    for pod in pods:
        key = kind, _ = kind_of(pod), claims_of(pod)
        counts[key] += 1
        shapes[kind] = without_affinity_state(pod.shape)
        if pod.charges:
            charges[key] = _renewed(pod)
    return tuple(
        MemberCount(kind[0], shapes[kind], counts[key], kind[1], charges.get(key, ()), claims)
        for key in sorted(counts, key=lambda each: each[0])
        for kind, claims in [key]
    )


def _renewed(pod: Pod) -> tuple[ClaimCharge, ...]:
    """The charges for claims that were made for the pod: the next one gets claims like them."""
    own = {f"{pod.namespace}/{each.claim}" for each in pod.device_claims if each.is_own}
    return tuple(ClaimCharge(each.amounts) for each in pod.charges if not each.claim or each.claim in own)


class GangKind(StrEnum):
    """What defines a gang: a PodGroup, a workload, the label min-member, or a single pod."""

    POD_GROUP = "PodGroup"
    WORKLOAD = "Workload"
    LABEL = "Label"
    POD = "Pod"


class RoleSpec(Struct, frozen=True):
    """A role that a PodGroup declares."""

    name: str
    count: int
    """Members of the complete gang."""
    min_member: int
    """Members that must start."""
    shape: PodShape | None = None
    """Shape of members that do not exist yet; None without declared requests."""
    unit: int = 1
    """Members beyond the minimum start in units of so many, each whole."""
    unit_label: str = ""
    """The label by which members of a unit know each other; without a value, any of them are one."""


class SubgroupSpec(Struct, frozen=True):
    """A subgroup that a PodGroup declares."""

    name: str
    min_member: int
    """Members that start together, including those of nested subgroups."""
    parent: str = ""
    """The subgroup that contains this one, empty for none."""
    required: str | None = None
    """All members are in one domain of this level."""
    segment: int = 0
    """If above 0: each domain of the required level holds a multiple of so many members instead."""
    preferred: str | None = None
    """The members are in as few domains as possible down to this level."""
    topology: str = ""
    """The Topology of the levels; empty for that of the gang."""


class Minimum(Struct, frozen=True):
    """Members that a gang needs to start: in all, per role, and per subgroup."""

    members: int
    roles: tuple[RoleSpec, ...] = ()
    subgroups: tuple[SubgroupSpec, ...] = ()
    of_subgroups: int = 0
    """If above 0: so many outer subgroups are enough, and members of incomplete ones do not count."""
    reserves: bool = False
    """Capacity may be reserved for members that do not exist yet."""

    def is_reached(self, counted: Sequence[Pod]) -> bool:
        """Whether these members are enough."""
        if not self.of_subgroups:
            return not missing_by_subgroup(counted, self.subgroups) and self._has_members(counted)
        whole = complete_subgroups(counted, self.subgroups)
        inside = members_within(counted, self.subgroups, whole)
        return len(whole) >= self.of_subgroups and self._has_members(inside)

    def has_started_with(self, counted: Sequence[Pod]) -> bool:
        """Whether a gang has started when these members have nodes.

        A gang that reserves has started with its first member: none gets a node without the reservation.
        """
        return self.is_reached(counted) or (self.reserves and bool(counted))

    def _has_members(self, counted: Sequence[Pod]) -> bool:
        return len(counted) >= self.members and not missing_by_role(counted, self.roles)


_NO_TOPOLOGY: Final = TopologyRequest()
_NO_RECOVERY: Final = Recovery()
_NO_DISRUPTION: Final = Disruption()
_NO_RUNTIME: Final = Runtime()
NO_POD_GROUP: Final = PodGroupSpec(min_member=1)
"""Spec of gangs without a PodGroup."""


class Gang(Struct, frozen=True, dict=True):
    """A gang with all its known members: waiting, bound, running and finished.

    Properties of the members are computed once: most gangs do not change from one cycle to the next.
    """

    id: GangId
    kind: GangKind
    namespace: str
    name: str
    queue: QueueName
    """The queue that it names while it waits; while it holds nodes, the one that is charged."""
    min_member: int
    priority: int
    """Of its PodGroup as far as that is allowed, else the lowest of its members."""
    created: int
    """Seconds since the epoch: of its PodGroup, else of its oldest member."""
    members: tuple[Pod, ...]
    """In the order in which they count: higher priority, lower index, older, name."""
    dialect: str = API_GROUP
    """API group of its PodGroup."""
    workload: str = ""
    """Name of the `WorkloadKind` of the object that its pods belong to; empty for none."""
    spec: PodGroupSpec = NO_POD_GROUP
    """Spec of its PodGroup as it is. The fields around it are resolved from several objects."""
    roles: tuple[RoleSpec, ...] = ()
    """Empty if the PodGroup declares none."""
    subgroups: tuple[SubgroupSpec, ...] = ()
    refused_queue: QueueName | None = None
    """The queue that it names, if that one does not accept it while it holds nodes. Another is charged."""
    started: bool = False
    """Whether minMember was reached once in the API. It stays true while a member counts."""
    started_at: int = 0
    """When its PodGroup first had minMember bound members, in seconds since the epoch, 0 if unknown."""
    record: GangRecord | None = None
    """What the scheduler remembers of it, as it is written in the cluster."""
    starts_over: bool = False
    """Whether it had started and lost all members: it starts again as a whole."""
    preemption_policy: str = "PreemptLowerPriority"
    resource_version: str = ""
    problems: tuple[Objection, ...] = ()
    """Errors that make it unschedulable until an object changes, also those of its waiting members."""
    checkpointed: int = 0
    """When the work of all members was last saved, in seconds since the epoch, 0 if unknown."""
    prefers_to_stay: bool = False
    """Whether it asks not to be preemptible where that is not in force: it goes after its equals."""
    ignored: tuple[str, ...] = ()
    """Fields that are ignored, or that count for less than they ask for, each with the reason."""

    @cached_property
    def topology(self) -> TopologyRequest:
        """Levels that it requests; without a request, the first Topology that its subgroups name."""
        named = next((part.topology for part in self.subgroups if part.topology), "")
        return self.spec.topology or (TopologyRequest(name=named) if named else _NO_TOPOLOGY)

    @cached_property
    def required_levels(self) -> Mapping[str, int]:
        """The levels that it and all its subgroups require, each with the depth of the innermost one."""
        return self.levels_required_of({part.topology for part in self.subgroups})

    @cached_property
    def names_topologies(self) -> bool:
        """Whether a subgroup names a Topology."""
        return any(part.topology for part in self.subgroups)

    def levels_required_of(self, topologies: Collection[str]) -> Mapping[str, int]:
        """The levels that it, and those of its subgroups that name one of these topologies, require.

        Each with the depth of the innermost one.
        """
        found = {self.topology.required: 0} if self.topology.required is not None else {}
        around = ancestor_chains(self.subgroups) if any(part.required for part in self.subgroups) else {}
        for part in self.subgroups:
            if part.required is not None and part.topology in topologies:
                found[part.required] = max(found.get(part.required, 0), len(around[part.name]))
        return found

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
    def held(self) -> Objection | None:
        """The objection to its starts if its own field holds them back."""
        if not self.spec.hold:
            return None
        return Objection(
            Reason.HELD,
            "spec.hold of the PodGroup is true: the gang is not started",
            f"Run `phalanx release {self.name} -n {self.namespace}`, or remove spec.hold",
        )

    @property
    def min_subgroups(self) -> int:
        """How many outer subgroups must start together, 0 for all of them."""
        return self.spec.required_subgroups

    @property
    def may_preempt(self) -> bool:
        """Whether other gangs may be evicted for it."""
        return self.preemption_policy != "Never"

    @property
    def minimum(self) -> Minimum:
        """Members that it needs to start."""
        return Minimum(self.min_member, self.roles, self.subgroups, self.min_subgroups, self.reserves)

    @cached_property
    def active(self) -> int:
        """Number of members that count towards minMember."""
        return len(self.counted)

    @cached_property
    def counted(self) -> tuple[Pod, ...]:
        """The members that count towards minMember."""
        return tuple([pod for pod in self.members if pod.counts_for_gang])

    @property
    def deadline(self) -> int | None:
        """The time (ms) by which it should start for the first time; None without one or after it."""
        return None if self.started or self.starts_over else self.spec.start_by_ms

    @cached_property
    def bound(self) -> tuple[Pod, ...]:
        """Members that count and have nodes in the API, and stay."""
        return tuple([pod for pod in self.counted if not pod.assumed and not pod.deleting])

    @property
    def reaches_minimum(self) -> bool:
        """Whether the bound members are enough for a start."""
        return self.minimum.has_started_with(self.bound)

    @cached_property
    def has_waiting(self) -> bool:
        """Whether a member needs a node."""
        return any(pod.is_waiting for pod in self.members)

    @cached_property
    def is_untouched(self) -> bool:
        """Whether it waits, and no member has or had a node: nothing depends on it yet."""
        has_record = self.record is not None and bool(self.record.placed)
        has_started = self.started or self.starts_over or has_record
        return self.has_waiting and not has_started and all(pod.node is None for pod in self.members)

    @property
    def uid(self) -> str:
        """The UID of its object, without the names that its id may contain: see GangId."""
        return self.id.rpartition("/")[2]

    @cached_property
    def complete_since(self) -> int:
        """When the last member came that its minimum needs, in seconds since the epoch; not before it was
        created. While too few members without scheduling gates exist, when the newest one came."""
        there = [pod for pod in self.members if not pod.gated and pod.phase is not PodPhase.FAILED]
        times = sorted(pod.created for pod in there)
        if not times:
            return self.created
        first = 0 if self.reserves else min(self.min_member, len(times)) - 1
        if self.roles or self.subgroups:
            first += bisect_left(
                times[first:-1],
                1,
                key=lambda at: self.minimum.has_started_with([pod for pod in there if pod.created <= at]),
            )
        return max(self.created, times[first])

    @cached_property
    def is_complete(self) -> bool:
        """Whether its minimum exists without members that have scheduling gates."""
        there = [pod for pod in self.members if not pod.gated and pod.phase is not PodPhase.FAILED]
        return self.minimum.has_started_with(there)

    @cached_property
    def is_gated(self) -> bool:
        """Whether only scheduling gates keep its minimum from being complete."""
        there = [pod for pod in self.members if pod.phase is not PodPhase.FAILED]
        return not self.is_complete and self.minimum.has_started_with(there)

    @cached_property
    def by_uid(self) -> Mapping[PodUid, Pod]:
        return {pod.uid: pod for pod in self.members}

    @cached_property
    def placed_uids(self) -> tuple[tuple[RecordKind, tuple[PodUid, ...]], ...]:
        """The members that count and have not ended, by kind."""
        found: dict[RecordKind, list[PodUid]] = {}
        for pod in self.counted:
            if pod.phase is not PodPhase.SUCCEEDED:
                found.setdefault(self.record_kinds[pod.uid], []).append(pod.uid)
        return tuple((kind, tuple(found[kind])) for kind in sorted(found))

    @cached_property
    def has_deleting(self) -> bool:
        """Whether members are being deleted."""
        return any(pod.deleting for pod in self.members)

    @cached_property
    def record_kinds(self) -> Mapping[PodUid, RecordKind]:
        """The kind of each member in its record."""
        return record_kinds(self.members)

    @cached_property
    def digest(self) -> bytes:
        """A digest of all fields on which answers about its demands depend.

        Without fields that only the scheduler's own writes change: conditions of pods, the version of the
        PodGroup.
        """
        head = (self.id, self.queue, self.priority, self.min_member, self.started, self.starts_over)
        request = (self.spec, self.roles, self.subgroups, self.preemption_policy, self.problems)
        members = [
            (
                *(pod.uid, pod.shape.key, pod.node, pod.is_waiting, pod.counts_for_gang, pod.gated),
                *(pod.role, pod.subgroup, pod.priority, pod.bind_backoff),
                *(pod.labels.pairs, pod.per_pod_labels.pairs, pod.annotations),
                *pod.device_claims,
            )
            for pod in self.members
        ]
        content = json.encode((head, request, members), order="deterministic")
        return blake2b(content, digest_size=16).digest()

    @cached_property
    def claims_devices(self) -> bool:
        """Whether members have claims to devices."""
        return any(pod.device_claims for pod in self.members)

    @cached_property
    def nodes(self) -> frozenset[NodeName]:
        """Nodes on which members hold capacity."""
        return frozenset(pod.node for pod in self.members if pod.node is not None and pod.holds_node)

    @cached_property
    def composition(self) -> tuple[MemberCount, ...]:
        """Members by kind."""
        return count_members(self.members)

    @cached_property
    def is_stable(self) -> bool:
        """Whether all members are bound and stay, and they are enough."""
        return all(pod.is_stable for pod in self.members) and self.minimum.is_reached(self.members)

    @property
    def is_finishing(self) -> bool:
        """Whether a member has succeeded. Missing members may then never be created again."""
        return self.succeeded > 0

    @property
    def awaits_members(self) -> bool:
        """Whether its workload says that members will be created, whether others have succeeded or not."""
        return bool(self.workload) and not self.problems and self.active < self.min_member

    @cached_property
    def succeeded(self) -> int:
        """Number of members that have succeeded."""
        return sum(1 for pod in self.members if pod.phase is PodPhase.SUCCEEDED)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def missing_by_role(counted: Iterable[Pod], roles: Iterable[RoleSpec]) -> dict[str, int]:
    """Missing members per declared role, if these members count; only roles that miss some."""
    missing = {role.name: role.min_member for role in roles}
    for pod in counted if roles else ():
        if pod.role in missing:
            missing[pod.role] -= 1
    return {role: count for role, count in missing.items() if count > 0}


def missing_by_subgroup(counted: Iterable[Pod], subgroups: Sequence[SubgroupSpec]) -> dict[str, int]:
    """Missing members per subgroup, if these members count; only subgroups that miss some."""
    missing = {subgroup.name: subgroup.min_member for subgroup in subgroups}
    around = ancestor_chains(subgroups)
    for pod in counted if subgroups else ():
        for name in around.get(pod.subgroup, ()):
            missing[name] -= 1
    return {name: count for name, count in missing.items() if count > 0}


def ancestor_chains(subgroups: Sequence[SubgroupSpec]) -> dict[str, tuple[str, ...]]:
    """Per subgroup its name and those of its ancestors, innermost first. A cycle ends where it starts, and a
    chain that is too long one level beyond the bound."""
    parents = {subgroup.name: subgroup.parent for subgroup in subgroups}
    found: dict[str, tuple[str, ...]] = {}
    for subgroup in subgroups:
        names: list[str] = []
        name = subgroup.name
        while name in parents and name not in names and len(names) <= SUBGROUP_LEVELS_MAX:
            names.append(name)
            name = parents[name]
        found[subgroup.name] = tuple(names)
    return found


def outer_subgroups(subgroups: Sequence[SubgroupSpec]) -> dict[str, str]:
    """Per subgroup its outermost ancestor; an outer subgroup is its own."""
    return {name: around[-1] for name, around in ancestor_chains(subgroups).items()}


def complete_subgroups(counted: Iterable[Pod], subgroups: Sequence[SubgroupSpec]) -> tuple[str, ...]:
    """Outer subgroups that reach their minimum, nested ones included, if these members count."""
    outer = outer_subgroups(subgroups)
    lacking = [outer[name] for name in missing_by_subgroup(counted, subgroups)]
    return tuple(part.name for part in subgroups if not part.parent and part.name not in lacking)


def members_within(pods: Iterable[Pod], subgroups: Sequence[SubgroupSpec], names: Iterable[str]) -> list[Pod]:
    """Pods that are in one of these outer subgroups or in no subgroup."""
    if not subgroups:
        return list(pods)
    outer, known = outer_subgroups(subgroups), frozenset(names)
    return [pod for pod in pods if outer.get(pod.subgroup) in known or pod.subgroup not in outer]
