"""PodGroup: API structs of its spec and status. Every gang carries the spec of its PodGroup as it is.

To add a field: one line in PodGroupSpec, its schema in `crds/podgroups.yaml`, a value in the example
`crds/examples/valid/podgroup-every-field.yaml`, and the code that reads `gang.spec.<field>`. Texts with a
unit stay texts. A property returns the parsed value, and None or the default where the text is invalid.
`phalanx.model.conversion.pod_groups` reports invalid values.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import field

from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import ApiStruct, Condition, Int32, Int64, KubeObject, WrittenQuantity
from phalanx.model.api.values import duration_ms, time_s
from phalanx.model.names import API_VERSION

RESERVED = "Reserved"
"""The value of startWhen that reserves capacity for members which do not exist yet."""

START_MODES = ("Arrived", RESERVED)

SUB_GROUPS_MAX = 64
"""Subgroups of a gang, as the schema says. Each is a constraint of the placement."""

SUBGROUP_LEVELS_MAX = 64
"""Levels of nested subgroups. A PodGroup of ours has at most 64 subgroups; other API groups have no
bound, and every decision reads all ancestors of each."""

TRAFFIC_ENTRIES_MAX = 64
"""Entries of `traffic`: both directions and the members themselves, for eight roles."""

TRAFFIC_WEIGHT_MAX = 1_000_000
"""The largest weight of traffic. With 100,000 members and 64 entries sums stay below 2^63."""


class RecoveryMode(StrEnum):
    """Reaction to the loss of members of a started gang."""

    REPLACE = "Replace"
    """Members on lost nodes are evicted, so that their controller creates them again."""

    RESTART = "Restart"
    """The whole gang is evicted."""

    WAIT = "Wait"
    """Nothing is evicted."""


class DisruptionMode(StrEnum):
    """How the members that count towards the minimum may be evicted."""

    ALL = "All"
    """Together or not at all."""

    SINGLE = "Single"
    """One by one."""


class TopologyRequest(ApiStruct, frozen=True):
    """Topology levels that a gang or a subgroup requests, by name."""

    name: str | None = None
    """The Topology; None for the default one of the cluster."""

    required: str | None = None
    """All members are in one domain of this level."""

    preferred: str | None = None
    """The members are in as few domains as possible down to this level."""


class Role(ApiStruct, frozen=True):
    """One kind of pods of a gang."""

    name: str
    count: Int32
    min_member: Int32 | None = None
    """None: all of `count`."""

    requests: Mapping[str, WrittenQuantity] = {}
    """Requests of one member, for members that do not exist yet."""


class SubGroup(ApiStruct, frozen=True):
    """A named part of a gang."""

    name: str
    min_member: Int32 | None = None
    """None: the sum of the minimums of the subgroups inside it."""
    parent: str | None = None
    """The subgroup that contains this one."""

    topology: TopologyRequest | None = None
    segment_size: Int32 | None = None


class Traffic(ApiStruct, frozen=True):
    """How much the members of one role send to those of another one."""

    sender: str = field(name="from")
    receiver: str = field(name="to")
    weight: Int32 = 1
    """What each member of the one role sends to each other member of the other one, in any unit."""


class Runtime(ApiStruct, frozen=True):
    """Expected and maximum run time of a gang."""

    estimate: str | None = None
    max: str | None = None

    @property
    def estimate_ms(self) -> int | None:
        """Milliseconds, more than 0; None if unknown."""
        return duration_ms(self.estimate or "") or None

    @property
    def max_ms(self) -> int | None:
        """Milliseconds, more than 0; None if unknown."""
        return duration_ms(self.max or "") or None


class Disruption(ApiStruct, frozen=True):
    """How a gang may be evicted for other gangs."""

    mode: str | None = None
    preemptible: bool | None = None
    min_runtime: str | None = None

    @property
    def eviction_mode(self) -> DisruptionMode:
        return _DISRUPTION_MODES.get(self.mode or "", DisruptionMode.ALL)

    @property
    def is_preemptible(self) -> bool:
        """Whether it may be evicted at all; True by default."""
        return self.preemptible is not False

    @property
    def min_runtime_ms(self) -> int:
        """Milliseconds that it runs at least before it may be evicted; 0 by default."""
        return duration_ms(self.min_runtime or "") or 0


class Recovery(ApiStruct, frozen=True):
    """Reaction to a failed member and to a lost node."""

    on_member_failure: str | None = None
    on_node_loss: str | None = None
    grace_period: str | None = None

    @property
    def member_failure_mode(self) -> RecoveryMode:
        """The reaction to a failed member; WAIT by default."""
        return _RECOVERY_MODES.get(self.on_member_failure or "", RecoveryMode.WAIT)

    @property
    def node_loss_mode(self) -> RecoveryMode:
        """The reaction to a lost node; WAIT by default."""
        return _RECOVERY_MODES.get(self.on_node_loss or "", RecoveryMode.WAIT)

    @property
    def grace_ms(self) -> int | None:
        """Milliseconds before members are evicted; None for the default of the scheduler."""
        return duration_ms(self.grace_period) if self.grace_period is not None else None


_RECOVERY_MODES: Mapping[str, RecoveryMode] = {mode.value: mode for mode in RecoveryMode}
_DISRUPTION_MODES: Mapping[str, DisruptionMode] = {mode.value: mode for mode in DisruptionMode}


class PodGroupSpec(ApiStruct, frozen=True):
    """Desired behaviour of a gang. Fields are those of `crds/podgroups.yaml`."""

    min_member: Int32 | None = None
    """None: it follows from the minimums of subgroups and roles."""
    queue: str | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    preemption_delay: str | None = None
    topology: TopologyRequest | None = None
    roles: tuple[Role, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    start_when: str | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: Int32 | None = None
    hold: bool | None = None
    """True: the gang is not started."""
    surplus_adds_nodes: bool | None = None
    """True: members beyond the minimum may ask a cluster autoscaler for nodes."""
    start_by: str | None = None
    runtime: Runtime | None = None
    disruption: Disruption | None = None
    recovery: Recovery | None = None

    @property
    def reserves(self) -> bool:
        """Whether capacity is reserved for members that do not exist when the gang starts."""
        return self.start_when == RESERVED

    @property
    def required_subgroups(self) -> int:
        """How many outer subgroups must start together, 0 for all of them."""
        return max(self.min_sub_groups or 0, 0)

    @property
    def preemption_delay_ms(self) -> int:
        """Milliseconds in which nothing is evicted for the gang; 0 by default."""
        return duration_ms(self.preemption_delay or "") or 0

    @property
    def start_by_ms(self) -> int | None:
        """The time by which the gang should start, in milliseconds since the epoch."""
        at = time_s(self.start_by) if self.start_by is not None else None
        return None if at is None else at * 1000


class Counts(ApiStruct, frozen=True, omit_defaults=False):
    """Members by state."""

    total: Int32 = 0
    pending: Int32 = 0
    bound: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PlacementStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Where the gang was placed."""

    level: str | None = None
    """The level of `domain`."""

    domain: str | None = None
    """The narrowest domain that holds the whole gang."""

    domains: tuple[str, ...] = ()
    """The domains of the narrowest requested level."""


class PlacementEpoch(ApiStruct, frozen=True):
    """Which placement the binds belong to; written before the first bind."""

    leader: Int64
    """The term of the leader."""

    decision: str
    """The decision within this term."""


class CertificateStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Quality of the placement: objective and its proven lower bound, both in lexicographic order."""

    proven: bool
    terms: tuple[str, ...] = ()
    objective: tuple[Int64, ...] = ()
    bound: tuple[Int64, ...] = ()
    by: str | None = None


class StartStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Expected start of a waiting gang."""

    at: str
    earliest: str | None = None
    latest: str | None = None
    method: str | None = None
    """What the times are based on."""


class PlacedStatus(ApiStruct, frozen=True):
    """Members of one role and subgroup with equal requests, see `model.records.PlacedMembers`."""

    role: str = ""
    subgroup: str = ""
    requests: Mapping[str, WrittenQuantity] = {}
    bound: Int32 = 0
    reserved: Int32 = 0


class LetInStatus(ApiStruct, frozen=True):
    """See `model.records.LetInRecord`."""

    ends: str = ""
    before: tuple[str, ...] = ()
    surplus_only: bool = False


class RecordStatus(ApiStruct, frozen=True, omit_defaults=False):
    """What the scheduler remembers of the gang, see `model.records.GangRecord`."""

    queued_since: str | None = None
    placed: tuple[PlacedStatus, ...] = ()
    finishing_since: str | None = None
    launched: bool | None = None
    let_in: LetInStatus | None = None


class PodGroupStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Observed state of a gang."""

    phase: str | None = None
    """Pending, Scheduling, Running, Degraded, Finished, Failed or Releasing."""

    counts: Counts | None = None
    conditions: tuple[Condition, ...] = ()
    reason: str | None = None
    message: str | None = None
    next_step: str | None = None
    placement: PlacementStatus | None = None
    placement_epoch: PlacementEpoch | None = None
    certificate: CertificateStatus | None = None
    queue: str | None = None
    """The queue that is charged while members hold nodes."""
    priority: Int32 | None = None
    """The priority that counts."""
    queue_position: Int32 | None = None
    expected_start: StartStatus | None = None
    started_at: str | None = None
    record: RecordStatus | None = None


class PodGroup(KubeObject, frozen=True):
    """A gang."""

    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()


KINDS: Final = (Kind(PodGroup, API_VERSION, "podgroups", namespaced=True),)
