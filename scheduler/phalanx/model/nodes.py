"""Nodes, their NUMA zones, and their free capacity."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.reasons import Objection
from phalanx.model.resources import NONE, Resources

READY: Final = "Ready"
"""Condition that its kubelet reports, or the node controller if the kubelet is silent."""

TOPOLOGY_UNKNOWN: Final = "NodeNotInNWTopologyCM"
"""Condition that is True while the network position of the node is unknown."""


KUBERNETES_TAINTS: Final = "node.kubernetes.io/"
"""Prefix of the taints by which Kubernetes marks the state of a node, including a cordon."""

CORDON_TAINT: Final = f"{KUBERNETES_TAINTS}unschedulable"
"""The one that marks a cordon."""

TRANSITION_TAINTS: Final = (
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    *("karpenter.sh/disrupted", "karpenter.sh/disruption", "karpenter.sh/unregistered"),
    *("node.cloudprovider.kubernetes.io/", "cloud.google.com/impending-node-termination"),
    "aws-node-termination-handler/",
    "*/agent-not-ready",
)
"""Taints of nodes that take no pods yet, or that are about to be deleted. `/` at the end stands for all keys
with this prefix, `*` at the start for all with this suffix: `node.cilium.io/agent-not-ready`, and the CSI
drivers that follow the same convention.

Sources: `cluster-autoscaler/utils/taints` and the FAQ of cluster-autoscaler, `pkg/apis/v1/taints.go` of
Karpenter, `cloud-provider/api/well_known_taints.go` of Kubernetes, the pages of Cilium on taints of nodes,
and the pages of the AWS node termination handler.
"""


def is_state_taint(key: str, configured: Iterable[str] = ()) -> bool:
    """Whether a taint with this key only says that a node takes no pods now.

    `configured`: keys and patterns like those of `TRANSITION_TAINTS`.
    """
    return key.startswith(KUBERNETES_TAINTS) or any(
        key.endswith(each[1:])
        if each.startswith("*")
        else (key.startswith(each) if each.endswith("/") else key == each)
        for each in (*TRANSITION_TAINTS, *configured)
    )


class TaintEffect(StrEnum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


HARD_EFFECTS: Final = frozenset({TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value})
"""Effects that keep pods away which do not tolerate the taint."""


class Taint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""
    is_state: bool = False
    """Whether it only says that the node takes no pods now; see `is_state_taint`."""


Amounts = tuple[tuple[str, int], ...]
"""Resources as sorted (name, amount) pairs: hashable and comparable."""


class ZoneLayout(Struct, frozen=True, gc=False):
    """NUMA zones of a node, and the requests that its kubelet aligns to one zone."""

    zones: tuple[Amounts, ...]
    """Amounts per zone."""
    bound: Amounts
    """Largest request per resource that must be in one zone; a larger one may span zones."""
    by_container: bool
    """Whether each container needs a zone, else the pod as a whole."""


class Numa(Struct, frozen=True, gc=False):
    """NUMA zones of a node whose kubelet rejects pods that do not fit them."""

    layout: ZoneLayout
    available: tuple[Amounts, ...]
    """Amounts per zone that the node last published as unused, at most what it offers."""
    published: Amounts
    """Amounts that it published as used, in all zones together."""


class Node(Struct, frozen=True, dict=True):
    """The static part of a node. It is replaced when the API object changes in a relevant way."""

    name: NodeName
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = NONE
    problems: tuple[Objection, ...] = ()
    """Errors. An invalid amount counts as zero."""
    conditions: Mapping[str, str] = {}
    """Status by condition type; changes by heartbeats are left out."""
    numa: Numa | None = None
    """None unless its kubelet rejects pods that do not fit its NUMA zones."""
    condition_changes: Mapping[str, int] = {}
    """When (s) each condition last changed, except for changes while the node joined."""
    annotations: Mapping[str, str] = {}
    """Those that an enabled plugin reads."""
    declared_features: tuple[str, ...] = ()
    """Features that its kubelet declares, which some pods need."""
    images: Mapping[str, int] = {}
    """Sizes in bytes by name, if images have a price."""
    labels_by_name: tuple[str, ...] = ()
    """Those of its labels that it has because HyperNodes name it: another node like it lacks them."""
    from_devices: tuple[str, ...] = ()
    """Extended resources in `allocatable` that its devices provide. Set within a session."""

    def lists(self, resource: str) -> bool:
        """Whether the node itself offers the resource, not devices for claims."""
        return bool(self.allocatable.get(resource)) and resource not in self.from_devices

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet reports that it is ready. A node without the condition is ready."""
        return self.conditions.get(READY, "True") == "True"

    @cached_property
    def may_lose_pods(self) -> bool:
        """Whether pods may be lost there: it is not ready, or a NoExecute taint may evict pods."""
        return not self.is_ready or any(taint.effect == TaintEffect.NO_EXECUTE for taint in self.taints)

    @property
    def as_available(self) -> "Node":
        """The same node without cordon, bad conditions and state taints."""
        taints = tuple(taint for taint in self.taints if not taint.is_state)
        return structs.replace(self, unschedulable=False, conditions={}, condition_changes={}, taints=taints)

    @property
    def has_state_taint(self) -> bool:
        """Whether a taint marks a state in which it takes no pods without a toleration."""
        return bool(self._state_taints)

    @property
    def is_cordoned(self) -> bool:
        """Whether somebody asked that it takes no pods."""
        return self.unschedulable or CORDON_TAINT in self._state_taints

    @property
    def has_faulty_state(self) -> bool:
        """Whether something else than a cordon is wrong: a taint such as unreachable, or its position."""
        return self.has_unknown_topology or any(
            key.startswith(KUBERNETES_TAINTS) for key in self._state_taints - {CORDON_TAINT}
        )

    @property
    def is_in_transition(self) -> bool:
        """Whether it takes no pods yet, or is about to be deleted."""
        return any(not key.startswith(KUBERNETES_TAINTS) for key in self._state_taints)

    @property
    def _state_taints(self) -> set[str]:
        return {
            taint.key
            for taint in self.taints
            if taint.is_state and taint.effect != TaintEffect.PREFER_NO_SCHEDULE
        }

    @property
    def has_unknown_topology(self) -> bool:
        """Whether its network position is unknown, so that its labels may be wrong."""
        return self.conditions.get(TOPOLOGY_UNKNOWN) == "True"


class NominatedPods(Struct, frozen=True, gc=False):
    """Pods of one priority that wait for other schedulers and are nominated to a node."""

    priority: int
    amounts: Resources
    """What they will use together."""
    count: int
    names: tuple[str, ...]
    """Some of them with their schedulers, such as "pod team/x of scheduler default-scheduler"."""


class NodeState(Struct, frozen=True, gc=False):
    """A node and the usage of all its pods: bound, running and assumed, of any scheduler."""

    node: Node
    used: Resources = NONE
    free: Resources = NONE
