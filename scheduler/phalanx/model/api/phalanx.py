"""Spec and status of PodGroup, Queue and Topology: every field that `crds/` declares, and no other.

Fields that are absent decode to their defaults. A spec is encoded without defaults and comes back as it was
written. A status is encoded whole, null where nothing is known: sent as a merge patch it replaces what was
there, but a resource stays in a map until it is written as 0. Unknown fields are ignored. Times are RFC 3339,
durations look like "1h30m".
"""

from collections.abc import Mapping

from phalanx.model.api.meta import Int32, Int64, LabelSelector, Wire

Quantity = Int64 | str
"""An amount as users write it: 8, "8", "500m" or "64Gi"."""


class Condition(Wire, frozen=True):
    """One condition, as in every Kubernetes API. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: Int64 | None = None


# --- PodGroup -----------------------------------------------------------------------------------------------


class TopologyRequest(Wire, frozen=True):
    """The levels that a gang or a subgroup asks for, by name. `name` None: the cluster's default topology."""

    name: str | None = None
    required: str | None = None
    preferred: str | None = None


class Role(Wire, frozen=True):
    """`min_member` None means all of `count`. `requests` are for members that do not exist yet."""

    name: str
    count: Int32
    min_member: Int32 | None = None
    requests: Mapping[str, Quantity] = {}


class SubGroup(Wire, frozen=True):
    """A named part of a gang; `parent` names the subgroup it lies in."""

    name: str
    min_member: Int32
    parent: str | None = None
    topology: TopologyRequest | None = None
    segment_size: Int32 | None = None


class Runtime(Wire, frozen=True):
    """How long the gang is expected, and allowed at most, to run."""

    estimate: str | None = None
    max: str | None = None


class Disruption(Wire, frozen=True):
    """How the gang may be evicted. `mode` is "All" or "Single"."""

    mode: str | None = None
    preemptible: bool | None = None
    min_runtime: str | None = None


class Recovery(Wire, frozen=True):
    """What to do when a member or its node fails: "Replace", "Restart" or "Wait"."""

    on_member_failure: str | None = None
    on_node_loss: str | None = None
    grace_period: str | None = None


class PodGroupSpec(Wire, frozen=True):
    """What a gang asks for."""

    min_member: Int32
    queue: str | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    topology: TopologyRequest | None = None
    roles: tuple[Role, ...] = ()
    start_when: str | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: Int32 | None = None
    start_by: str | None = None
    runtime: Runtime | None = None
    disruption: Disruption | None = None
    recovery: Recovery | None = None


class Counts(Wire, frozen=True, omit_defaults=False):
    """Members by state."""

    total: Int32 = 0
    pending: Int32 = 0
    bound: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PlacementStatus(Wire, frozen=True, omit_defaults=False):
    """Where the gang went: `domain` is the tightest one that holds all of it, `domains` what it lies in."""

    level: str | None = None
    domain: str | None = None
    domains: tuple[str, ...] = ()


class PlacementEpoch(Wire, frozen=True):
    """Whose placement the binds carry out: the leader's term and the decision, written before any bind."""

    leader: Int64
    decision: str


class CertificateStatus(Wire, frozen=True, omit_defaults=False):
    """How good the placement is: objective and proven bound per term, smaller is better, and by whom."""

    proven: bool
    terms: tuple[str, ...] = ()
    objective: tuple[Int64, ...] = ()
    bound: tuple[Int64, ...] = ()
    by: str | None = None


class StartStatus(Wire, frozen=True, omit_defaults=False):
    """When a gang that waits is to start, between which times, and what that rests on."""

    at: str
    earliest: str | None = None
    latest: str | None = None
    method: str | None = None


class PodGroupStatus(Wire, frozen=True, omit_defaults=False):
    """How a gang stands. `phase` is Pending, Scheduling, Running, Finished, Failed or Releasing."""

    phase: str | None = None
    counts: Counts | None = None
    conditions: tuple[Condition, ...] = ()
    reason: str | None = None
    message: str | None = None
    next_step: str | None = None
    placement: PlacementStatus | None = None
    placement_epoch: PlacementEpoch | None = None
    certificate: CertificateStatus | None = None
    queue_position: Int32 | None = None
    expected_start: StartStatus | None = None
    started_at: str | None = None


# --- Queue --------------------------------------------------------------------------------------------------


class FlavorSpec(Wire, frozen=True):
    """A part of the cluster with its own guarantee and limit: the nodes that carry these labels."""

    name: str
    node_selector: Mapping[str, str]
    guarantee: Mapping[str, Quantity] = {}
    limit: Mapping[str, Quantity] = {}


class Cell(Wire, frozen=True):
    """Whole domains that are guaranteed: `count` of this level of this topology."""

    level: str
    count: Int32
    topology: str | None = None


class Reclaim(Wire, frozen=True):
    """What holds when another queue reclaims from this one."""

    min_runtime: str | None = None


class QueueSpec(Wire, frozen=True):
    """What a tenant may use."""

    parent: str | None = None
    namespace_selector: LabelSelector | None = None
    weight: Int32 | None = None
    guarantee: Mapping[str, Quantity] = {}
    limit: Mapping[str, Quantity] = {}
    priority: Int32 | None = None
    flavors: tuple[FlavorSpec, ...] = ()
    cells: tuple[Cell, ...] = ()
    ordering: str | None = None
    backfill: str | None = None
    objective: str | None = None
    admission: str | None = None
    user_label: str | None = None
    state: str | None = None
    reclaim: Reclaim | None = None


class QueueStatus(Wire, frozen=True, omit_defaults=False):
    """How a queue stands. The amounts include the queue's descendants."""

    allocated: Mapping[str, Quantity] = {}
    guarantee: Mapping[str, Quantity] = {}
    fair_share: Mapping[str, Quantity] = {}
    borrowed: Mapping[str, Quantity] = {}
    average_use: Mapping[str, Quantity] = {}
    average_use_at: str | None = None
    pending_gangs: Int32 | None = None
    pending_pods: Int32 | None = None
    conditions: tuple[Condition, ...] = ()


# --- Topology -----------------------------------------------------------------------------------------------


class LevelSpec(Wire, frozen=True):
    """One tier: its name and the node label whose value names a node's domain in it."""

    name: str
    node_label: str


class TopologySpec(Wire, frozen=True):
    """A tree of the cluster, the widest level first."""

    levels: tuple[LevelSpec, ...]
