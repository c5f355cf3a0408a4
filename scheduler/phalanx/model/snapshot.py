"""The immutable input of a cycle, and the parts of it that have no module of their own."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.nodes import NodeState, NominatedPods
from phalanx.model.pods import AffinityTerms, Term, WeightedPodTerm
from phalanx.model.queues import Queue
from phalanx.model.records import GangRecord
from phalanx.model.resources import Resources
from phalanx.model.selectors import labels_match
from phalanx.model.supplies.part import SupplyPart, SupplyVersions, empty_part

P = TypeVar("P", bound=SupplyPart)


class DisruptionBudget(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget. `selector` None selects no pod; without requirements it selects all of its
    namespace.

    `allowed`: evictions that its status allows; 0 while its controller has not observed the last change.
    `fault`: error of the selector. The budget then protects every pod of its namespace.
    """

    namespace: str
    name: str
    selector: Term | None = None
    allowed: int = 0
    fault: str = ""

    def protects(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects a pod of its namespace with these labels."""
        if self.fault:
            return True
        return self.selector is not None and labels_match(labels, self.selector)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Level(Struct, frozen=True):
    """One tier of a topology: its name, and the node label that holds the name of the domain."""

    name: str
    node_label: str


class Topology(Struct, frozen=True):
    """A tree of the cluster. Levels are widest first. A domain is named by its full path of label values."""

    name: str
    levels: tuple[Level, ...]


class PlacedPods(Struct, frozen=True):
    """Placed pods (bound or assumed) that no affinity term distinguishes, and their number per node.

    `labels` are those that some term selects by. `anti_affinity`: the required anti-affinity of these pods.
    `preferred`: their preferred terms, and their required affinity with weight 0.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    anti_affinity: AffinityTerms
    nodes: Mapping[NodeName, int]
    is_terminating: bool = False
    """Whether the pods are being deleted. Spread constraints do not count such pods."""
    preferred: tuple[WeightedPodTerm, ...] = ()


class Snapshot(Struct, frozen=True):
    """The input of a cycle. Mappings have a stable order that is part of the snapshot.

    - `now` is in milliseconds since the epoch.
    - `gangs` holds every gang with a member that names our scheduler. Finished gangs are included while their
      pods exist.
    - `queue_usage`: usage per node of the assumed, bound and running pods of each queue, without its
      descendants.
    - `foreign`: usage per node of pods of other schedulers that may end, by owner, such as "Job team/x" or
      "pod team/y".
    - `foreign_terminating`: those of these owners all of whose pods are being deleted, sorted.
    - `evictable_pods`: the pods of other schedulers that gangs may evict, each as a gang without a queue;
      also those of them that are being deleted.
    - `nominated`: pods of other schedulers that are nominated to a node and not bound yet, by priority, the
      highest first.
    - `supplies`: the parts of supplies, by name; see `part`.
    - `namespace_labels` holds every namespace.
    - `topologies` always has the key "", the default for gangs that name none.
    - `capacity_version` grows whenever a change may let a refused gang fit.
    - `cluster_version` grows whenever a change may let a gang fit that does not fit the empty cluster, or may
      end an objection to a gang: changes of nodes, queues, topologies, namespaces and volumes.
    - `supply_versions` are the same for changes of some supplies, by name, which concern only gangs that use
      them.
    - `pod_affinity_terms`: the required anti-affinity of waiting and placed pods, and the required affinity
      of waiting pods. If gangs may be moved, also the required affinity of running pods, and the terms by
      which they are to be spread.
    - `preferred_pod_terms`: the preferred terms and the required affinity of waiting and placed pods.
    - `placed_pods` holds all placed pods if there are any such terms; otherwise it is empty.
    - `foreign_pods`: those of them that other schedulers placed and that may end, by owner as in `foreign`.
    - `disruption_budgets` are sorted by namespace and name.
    """

    now: int
    seed: int
    nodes: Mapping[NodeName, NodeState] = {}
    gangs: Mapping[GangId, Gang] = {}
    queues: Mapping[QueueName, Queue] = {}
    queue_usage: Mapping[QueueName, Mapping[NodeName, Resources]] = {}
    foreign: Mapping[str, Mapping[NodeName, Resources]] = {}
    foreign_terminating: tuple[str, ...] = ()
    evictable_pods: Mapping[GangId, Gang] = {}
    nominated: Mapping[NodeName, tuple[NominatedPods, ...]] = {}
    namespace_labels: Mapping[str, Mapping[str, str]] = {}
    topologies: Mapping[str, Topology] = {}
    supplies: Mapping[str, Any] = {}
    capacity_version: int = 0
    cluster_version: int = 0
    supply_versions: Mapping[str, SupplyVersions] = {}
    memory: Memory = Memory()
    pod_affinity_terms: tuple[AffinityTerms, ...] = ()
    preferred_pod_terms: AffinityTerms = ()
    placed_pods: tuple[PlacedPods, ...] = ()
    foreign_pods: Mapping[str, tuple[PlacedPods, ...]] = {}
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    pod_annotations: tuple[str, ...] | None = None
    """Keys of the annotations that were kept on pods; None for all."""

    node_annotations: tuple[str, ...] | None = None
    """Keys of the annotations that were kept on nodes; None for all."""

    def part(self, kind: type[P]) -> P:
        """The part of a supply; an empty one if the cluster has none of its kinds."""
        found: P | None = self.supplies.get(kind.supply)
        return found if found is not None else empty_part(kind)

    def record_of(self, gang: Gang) -> GangRecord | None:
        """The record of a gang: what this leader knows, else what is written."""
        return self.memory.records.get(gang.id, gang.record)

    def queued_since(self, gang: Gang) -> int:
        """Since when the gang is in line (s): since its minimum first existed without scheduling gates.

        Without a record the creation of its pods tells it. A record without a time says that the gates were
        seen: the gang is in line from now on.
        """
        record = self.record_of(gang)
        if record is None:
            return gang.complete_since
        return record.queued_since or max(gang.complete_since, self.now // 1000)
