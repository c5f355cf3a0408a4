"""PodDisruptionBudgets: how many of which pods may be evicted now."""

from collections.abc import Mapping

from msgspec import Struct

from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import AffinityTerms, Term
from phalanx.model.queues import Queue
from phalanx.model.resources import Resources
from phalanx.model.selectors import labels_match


class DisruptionBudget(Struct, frozen=True, gc=False):
    """One budget. `selector` None means no pod, one without requirements every pod of the namespace.

    `allowed`: evictions that its status allows; 0 while nobody has counted its pods since its last change.
    `fault` says what is wrong with the selector: then it protects every pod of its namespace.
    """

    namespace: str
    name: str
    selector: Term | None = None
    allowed: int = 0
    fault: str = ""

    def protects(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod of its namespace with these labels."""
        if self.fault:
            return True
        return self.selector is not None and labels_match(labels, self.selector)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Level(Struct, frozen=True):
    """One tier of a topology: its name and the node label that holds the domain's name."""

    name: str
    node_label: str


class Topology(Struct, frozen=True):
    """A tree of the cluster. Levels are widest first; a domain is named by its full path of label values."""

    name: str
    levels: tuple[Level, ...]


class VolumeClaim(Struct, frozen=True):
    """A PersistentVolumeClaim: whether a volume is bound to it and which nodes can mount that volume.

    `node_affinity` terms are alternatives; empty means every node. `why_unusable` is set, in plain words,
    when a pod with this claim cannot be placed yet.
    """

    node_affinity: tuple[Term, ...] = ()
    why_unusable: str = ""


class PlacedPods(Struct, frozen=True):
    """Pods with a node, bound or assumed, that terms of affinity cannot tell apart, and how many are where.

    `labels` are those that some term looks at. `avoids`: the required anti-affinity of these pods.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    anti_affinity: AffinityTerms
    nodes: Mapping[NodeName, int]


class Snapshot(Struct, frozen=True):
    """`now` is in milliseconds since the epoch. Mappings have a stable order that is part of the snapshot.

    `gangs` holds every gang with a member that names our scheduler, finished ones included while their pods
    exist. `queue_usage` is what assumed, bound and running pods of each queue (its own, not its
    descendants') use per node. `foreign` is what pods of other schedulers that may end use per node, by who
    made them, such as "Job team/x" or "pod team/y". `claims` is keyed by "namespace/name".
    `namespace_labels` holds every namespace. `topologies` always holds one under "", the default for gangs
    that name none. `capacity_version` grows whenever something that could let a refused gang fit has changed.
    `pod_affinity_terms` are all that pods ask of other pods: each anti-affinity of those that wait or have a
    node,
    each affinity of those that wait. Where there are none, `standing` is empty; else it holds all pods with a
    node. `disruption_budgets` are sorted by namespace and name.
    """

    now: int
    seed: int
    nodes: Mapping[NodeName, NodeState] = {}
    gangs: Mapping[GangId, Gang] = {}
    queues: Mapping[QueueName, Queue] = {}
    queue_usage: Mapping[QueueName, Mapping[NodeName, Resources]] = {}
    foreign: Mapping[str, Mapping[NodeName, Resources]] = {}
    namespace_labels: Mapping[str, Mapping[str, str]] = {}
    topologies: Mapping[str, Topology] = {}
    claims: Mapping[str, VolumeClaim] = {}
    capacity_version: int = 0
    memory: Memory = Memory()
    pod_affinity_terms: tuple[AffinityTerms, ...] = ()
    placed_pods: tuple[PlacedPods, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    pod_annotations: tuple[str, ...] | None = None
    """Keys of the annotations that were kept on pods; None for all."""

    node_annotations: tuple[str, ...] | None = None
    """Keys of the annotations that were kept on nodes; None for all."""
