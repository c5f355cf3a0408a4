"""One cycle's view of a snapshot. Actions change it through statements and `refuse` only."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.eligibility import Eligibility, judge
from phalanx.framework.nodes.affinity import AffinityIndex
from phalanx.framework.nodes.cells import ReservedCells
from phalanx.framework.nodes.health import HealthState, reported_transitions, watch
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.nodes.topology import Topologies
from phalanx.framework.plugin import Plugins
from phalanx.framework.preempted import preempted
from phalanx.framework.queues.fair_shares import FairShares
from phalanx.framework.queues.ledger import Ledger
from phalanx.framework.queues.past_usage import past_usage
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.registry import load_plugins
from phalanx.framework.session_cache import SessionCache
from phalanx.framework.statement import Changes, Kept, Statement
from phalanx.framework.states import GangState, PodState, check_gang_transition, first_state
from phalanx.model.decisions import Evict, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, QueueName, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Evidence, Objection, Verdict
from phalanx.model.resources import Resources, largest
from phalanx.model.snapshot import Snapshot

K = TypeVar("K", bound=str)
V = TypeVar("V")


class Session:
    """`nodes` and `gangs` are sorted by key, so that no decision depends on how they were read.

    `facts`: what follows from the nodes alone. `faults`: what is wrong with those that no new pod may use,
    whichever it is; `ignore_faults` is for questions about a cluster on which nothing is. `between`: what
    the last cycle has left. `circumstances`: what the answers of this cycle depend on besides capacity, gangs
    and queues; refusals hold while it stays the same. `neighbours` is None while no pod asks to be near or
    apart from others.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig,
        *,
        between: SessionCache | None = None,
        ignore_faults: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        self.cycle = snapshot.memory.cycle + 1
        self.between = between or SessionCache()
        self.nodes = MappingProxyType(_in_order(snapshot.nodes))
        self.affinity_index = AffinityIndex(snapshot) if snapshot.pod_affinity_terms else None
        gangs = _in_order(snapshot.gangs)
        if self.affinity_index is not None:
            gangs = {name: self.affinity_index.marked(gang) for name, gang in gangs.items()}
        self.gangs = MappingProxyType(gangs)
        self.queues = QueueTree(snapshot.queues)
        self.ledger = Ledger(snapshot, self.queues, self.between.sums)
        self.topologies = Topologies(snapshot.topologies, self.nodes, config.default_topology)
        self.plugins = Plugins(load_plugins(config))
        if ignore_faults:
            self.facts = NodeFacts([state.node for state in self.nodes.values()], ())
        else:
            self.facts = self.between.node_facts(self.nodes, config, self.plugins)
        self.cells = ReservedCells()
        self._changes = Changes()
        self.retry_key: list[object] = []
        self._verdicts: dict[GangId, Verdict] = {}
        self._eligibility: dict[ShapeKey, tuple[tuple[int, ...], Eligibility]] = {}
        self._objections: dict[GangId, Objection | None] = {}
        for plugin in self.plugins.openers:
            plugin.open(self)

    @cached_property
    def waiting(self) -> tuple[Gang, ...]:
        """Gangs of which some member needs a node, as the cycle began."""
        return tuple(gang for gang in self.unsettled if gang.has_waiting)

    @cached_property
    def unsettled(self) -> tuple[Gang, ...]:
        """All gangs but those that have what they need, on nodes with which nothing is wrong."""
        return self.between.unsettled(self.gangs, self.facts)

    @property
    def faults(self) -> Mapping[NodeName, str]:
        """The first fault of each node that has one."""
        return self.facts.faults

    @cached_property
    def preempted(self) -> Mapping[GangId, GangId]:
        """Gangs that were evicted for others, each with the gang for which it went, as the cycle began."""
        remembered = self.snapshot.memory.preempted
        return preempted(self.unsettled, remembered, scheduler_name=self.config.scheduler_name)

    def statement(self) -> Statement:
        """A tentative set of changes: commits at the end of its `with` block, rolls back on an exception."""
        return Statement(self, self._changes)

    def free(self, node: NodeName) -> Resources:
        """What is free on a node now; negative where it is over-committed."""
        changed = self._changes.free.get(node)
        return self.nodes[node].free if changed is None else changed

    def pod_state(self, pod: Pod) -> PodState:
        """The state of a pod now."""
        return self._changes.pods.get(pod.uid) or first_state(pod)

    def gang_state(self, gang: Gang) -> GangState:
        """What this cycle did with the gang so far."""
        return self._changes.gangs.get(gang.id, GangState.UNTRIED)

    def assigned_nodes(self, gang: Gang) -> tuple[NodeName, ...]:
        """The nodes on which this cycle has placed members of the gang so far."""
        return self._changes.seats.get(gang.id, ())

    def eligibility(self, pod: Pod) -> Eligibility:
        """Where pods of this shape may run now; the same for all pods of a shape."""
        key, stamp = pod.shape.key, self.stamp(pod)
        known = self._eligibility.get(key)
        if known is None or known[0] != stamp:
            known = self._eligibility[key] = (stamp, judge(pod, self))
        return known[1]

    def stamp(self, pod: Pod) -> tuple[int, ...]:
        """Equal while nothing that was placed has changed where pods of this shape may run."""
        company = pod.shape.company
        return () if company is None or self.affinity_index is None else self.affinity_index.stamp(company)

    def objection(self, gang: Gang) -> Objection | None:
        """The first objection that a plugin has to trying the gang at all."""
        if gang.id not in self._objections:
            refusals = (plugin.check_gang(gang, self) for plugin in self.plugins.checks)
            self._objections[gang.id] = next((each for each in refusals if each is not None), None)
        return self._objections[gang.id]

    def reserve_cells(self, cells: ReservedCells) -> None:
        """These domains are for gangs of their queues only; what depends on that is asked after it."""
        self.cells = cells
        self.retry_key.append(cells)

    def refuse(self, gang: Gang, verdict: Verdict) -> None:
        """Give up on the gang for this cycle, or on what it has left to place; say what of it was ignored."""
        check_gang_transition(gang, self.gang_state(gang), GangState.REFUSED)
        self._changes.gangs[gang.id] = GangState.REFUSED
        ignored = [Evidence(subject="ignored", finding=each) for each in gang.ignored]
        if ignored:
            verdict = replace(verdict, evidence=(*verdict.evidence, *ignored))
        self._verdicts[gang.id] = verdict

    @property
    def may_evict(self) -> bool:
        """Whether anything may be evicted in this cycle."""
        return not self.health.is_open

    @cached_property
    def fair_shares(self) -> FairShares:
        """What each queue is due, as things stood when the session was opened."""
        return FairShares(self)

    @cached_property
    def past_usage(self) -> Mapping[QueueName, PastUsage]:
        """What each queue used lately on average."""
        return past_usage(self)

    def is_out_of_service(self, name: NodeName) -> bool:
        """Whether a node is faulty or cordoned: something that is wrong with it, not what pods ask of it."""
        node = self.nodes[name].node
        return name in self.faults or node != node.as_available

    @cached_property
    def health(self) -> HealthState:
        """Since when nodes are good or bad, and whether the breaker is open."""
        snapshot, config = self.snapshot, self.config.tolerance
        told = {} if snapshot.memory.cycle else reported_transitions(snapshot, self.plugins, config)
        return watch(
            self.nodes, self.faults, memory=snapshot.memory, now=snapshot.now, config=config, told=told
        )

    @cached_property
    def largest_free(self) -> Resources:
        """Per resource, the most that was free on one node as the cycle began."""
        return largest(state.free for state in self.nodes.values())

    @property
    def changed_nodes(self) -> list[NodeName]:
        """Every node whose free amounts changed, in order and with repetitions; it only grows."""
        return self._changes.nodes

    @property
    def placements(self) -> tuple[Placement, ...]:
        """All placements so far, in the order in which they were decided."""
        return tuple(self._changes.placements)

    @property
    def evictions(self) -> tuple[Evict, ...]:
        """All evictions so far, in the order in which they were decided."""
        return tuple(self._changes.evictions)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Room that was taken for members which do not exist yet, in the order in which it was taken."""
        return tuple(self._changes.kept)

    @property
    def held(self) -> tuple[tuple[QueueName, Resources], ...]:
        """What is on the account of queues for room that is being made."""
        return tuple(self._changes.held)

    @property
    def verdicts(self) -> Mapping[GangId, Verdict]:
        """Why gangs were refused so far."""
        return self._verdicts


def _in_order(mapping: Mapping[K, V]) -> Mapping[K, V]:
    """Sorted by key, as it mostly is."""
    keys = list(mapping)
    ordered = sorted(keys)
    return mapping if keys == ordered else {key: mapping[key] for key in ordered}
