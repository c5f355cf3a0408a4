"""The read-only view of a session that plugins get; the session implements it."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from phalanx.framework.changes import CapacityHold
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.member_records import MemberRecords
from phalanx.framework.nodes.affinity import AffinityIndex
from phalanx.framework.nodes.cells import ReservedCells
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.nodes.topology import Topologies
from phalanx.framework.queues.fair_shares import FairShares
from phalanx.framework.queues.guarantees import Guarantees
from phalanx.framework.queues.ledger import Ledger
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.states import PodState
from phalanx.model.decisions import Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.queues import PastUsage
from phalanx.model.resources import Resources
from phalanx.model.snapshot import DisruptionBudget
from phalanx.model.supplies.supply import SessionSupply

S = TypeVar("S", bound=SessionSupply)


class SessionView(Protocol):
    """The state of one cycle as plugins see it."""

    # --- the cluster at the begin of the cycle --------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time in milliseconds since the epoch: see `Plugin.valid_until`."""

    @property
    def config(self) -> SchedulerConfig:
        """The configuration."""

    @property
    def nodes(self) -> Mapping[NodeName, NodeState]:
        """All nodes, sorted by name."""

    @property
    def facts(self) -> NodeFacts:
        """Facts that follow from the nodes alone, such as which are faulty."""

    @property
    def gangs(self) -> Mapping[GangId, Gang]:
        """All gangs, sorted by id."""

    @property
    def evictable_pods(self) -> Mapping[GangId, Gang]:
        """The pods of other schedulers that gangs may evict, each as a gang of one without a queue."""

    @property
    def gangs_after_starts(self) -> Mapping[GangId, Gang]:
        """The same as if the pods that the cycle has placed so far were assumed to be on their nodes."""

    @property
    def protected_gangs(self) -> frozenset[GangId]:
        """Those of them with `preemptible: false` that the guarantees of their queues protect."""

    @property
    def records(self) -> MemberRecords:
        """What is recorded of gangs: which members are lost, and since when they are in line."""

    @property
    def queues(self) -> QueueTree:
        """The tree of queues."""

    @property
    def topologies(self) -> Topologies:
        """The topologies, and the domains of nodes."""

    def supply(self, kind: type[S]) -> S | None:
        """The supply of this kind, of which the session knows what nodes have; None if no pod can need it."""

    @property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""

    @property
    def disruption_budgets(self) -> tuple[DisruptionBudget, ...]:
        """PodDisruptionBudgets, sorted by namespace and name."""

    @property
    def memory(self) -> Memory:
        """The memory of the last cycle."""

    def expected_runtime_ms(self, gang: Gang) -> int | None:
        """The expected run time of the gang from its start; None if unknown.

        It is the maximum or estimate of its PodGroup, else the longest of the last runs of gangs of its kind.
        """

    # --- the queues ---------------------------------------------------------------------------------------

    @property
    def fair_shares(self) -> FairShares:
        """Guarantees, fair shares and demand of queues at the begin of the cycle."""

    @property
    def guarantees(self) -> Guarantees:
        """How far the guarantees of queues cover gangs."""

    @property
    def past_usage(self) -> Mapping[QueueName, PastUsage]:
        """The decayed average usage of each queue; empty if the configuration sets no half-life."""

    @property
    def ledger(self) -> Ledger:
        """The usage of each queue now, with the placements of this cycle."""

    def held_usage(self) -> Mapping[QueueName, Resources]:
        """For each queue, its usage without pods: held or nominated capacity."""

    def free_despite_nominations(self, node: NodeName) -> Resources:
        """The amounts of a node that no pod uses now, with the placements of this cycle so far.

        A plugin whose `node_cost` reads it has arguments that are AllocationPrices: costs are then computed
        again after each placement.
        """

    # --- this cycle so far --------------------------------------------------------------------------------

    @property
    def cells(self) -> ReservedCells:
        """Domains that are reserved for queues in this cycle."""

    @property
    def affinity_index(self) -> AffinityIndex | None:
        """Pods by topology domain, as affinity terms count them; None if there are no terms."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        """All placements of this cycle so far."""

    @property
    def capacity_holds(self) -> tuple[CapacityHold, ...]:
        """Capacity that this cycle holds for members that do not exist yet."""

    def pod_state(self, pod: Pod) -> PodState:
        """The state of a pod now."""

    def assigned_nodes(self, gang: Gang) -> tuple[NodeName, ...]:
        """The nodes on which this cycle has placed members of the gang so far."""
