"""The session: the state of one cycle. Actions change it through statements and `refuse` only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from phalanx.framework.changes import CapacityHold, Changes
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.eligibility import Eligibility, evaluate
from phalanx.framework.evictions import preempted
from phalanx.framework.hooks import Hooks
from phalanx.framework.member_records import MemberRecords
from phalanx.framework.nodes.cells import ReservedCells
from phalanx.framework.nodes.health import HealthState, assess, reported_transitions
from phalanx.framework.nodes.node_facts import NodeFacts
from phalanx.framework.nodes.nominated import NO_NOMINATIONS, NominatedCapacity
from phalanx.framework.nodes.topology import Topologies
from phalanx.framework.placed_gangs import placed_by
from phalanx.framework.plugin import PluginError
from phalanx.framework.pod_view import PodClasses, check_annotations
from phalanx.framework.queues.fair_shares import FairShares
from phalanx.framework.queues.guarantees import Guarantees
from phalanx.framework.queues.ledger import Ledger
from phalanx.framework.queues.past_usage import past_usage
from phalanx.framework.queues.protected_gangs import protected_gangs
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.queues.unseen_demand import UnseenDemand
from phalanx.framework.registry import load_plugins, prices_usage
from phalanx.framework.run_times import RunTimeForecast
from phalanx.framework.running_sums import RunningSums
from phalanx.framework.session_cache import SessionCache
from phalanx.framework.statement import Statement
from phalanx.framework.states import GangState, PodState, check_gang_transition, first_state
from phalanx.model.charges import total_charges
from phalanx.model.decisions import Evict, Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod, PodShape, without_affinity_state
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Evidence, Objection, Verdict
from phalanx.model.resources import NONE, Resources, add, fits, how_many_fit, largest, subtract
from phalanx.model.snapshot import DisruptionBudget, Snapshot
from phalanx.model.supplies.known import completed, joined, offered_amounts
from phalanx.model.supplies.supply import Projection, SessionSupply
from phalanx.rules.problem import Rule

K = TypeVar("K", bound=str)
V = TypeVar("V")
S = TypeVar("S")


class Session:
    """The state of one cycle: the snapshot and all decisions so far. Plugins see it as a SessionView."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig,
        *,
        cache: SessionCache | None = None,
        ignore_faults: bool = False,
        gangs: Mapping[GangId, Gang] | None = None,
        behind: Mapping[GangId, int] = MappingProxyType({}),
        unseen: Mapping[QueueName, UnseenDemand] = MappingProxyType({}),
    ) -> None:
        """`cache` holds values of the last session. `ignore_faults`: treat all nodes as healthy.

        `gangs`: the gangs of the snapshot that the cycle looks at; None for all. `behind`: by some of them,
        how many equal gangs there are that the cycle does not look at. `unseen`: by queue, the demand of
        different gangs that it does not look at.
        """
        self._cache = cache or SessionCache()
        self.snapshot = snapshot = completed(snapshot, self)
        self.config, self.behind, self.unseen = config, behind, unseen
        self.cycle = snapshot.memory.cycle + 1
        plugins = load_plugins(config)
        overriders = self._cache.overriders(plugins)
        self.hooks = Hooks(plugins, self, lambda name: _WithoutTime(self, name), overriders)
        check_annotations(snapshot, self.hooks.reads)
        self._pod_classes = PodClasses(self.hooks.reads)
        self._changes = Changes()
        self.nodes: Mapping[NodeName, NodeState] = MappingProxyType(_in_order(snapshot.nodes))
        """Sorted by name, so that no decision depends on the order of events."""
        self.supplies = joined(snapshot, self.nodes, self)
        self.affinity_index = self._cache.affinity.index(snapshot)
        """None while no pod has affinity terms."""
        looked_at = snapshot.gangs if gangs is None else gangs
        self.gangs: Mapping[GangId, Gang] = MappingProxyType(self._with_classes(_in_order(looked_at)))
        """The gangs that the cycle looks at, sorted by id. Shapes of pods include the declared fields and
        affinity states of this session."""
        self.records = MemberRecords(snapshot, lambda gang: self.gangs.get(gang.id, gang), self._cache.kept)
        self.queues = QueueTree(snapshot.queues)
        self.ledger = Ledger(snapshot, self.queues, self.sums)
        self.topologies = Topologies(snapshot.topologies, self.nodes, config.default_topology)
        self.facts = self._node_facts(ignore_faults=ignore_faults)
        """Facts that follow from the nodes alone."""
        self.cells = ReservedCells()
        self.nominated_capacity = NominatedCapacity(snapshot.nominated)
        """What pods of other schedulers withhold that are nominated to nodes."""
        self._as_before = nullcontext()
        self._respected = self.nominated_capacity.all_priorities
        self._withheld = self.nominated_capacity.withheld(self._respected)
        self._changes.nodes.extend(self._withheld)
        self._verdicts: dict[GangId, Verdict] = {}
        self._after_starts: tuple[int, Mapping[GangId, Gang]] = (-1, self.gangs)
        self._protected: tuple[Mapping[GangId, Gang], frozenset[GangId]] | None = None
        self._eligibility: dict[ShapeKey, tuple[tuple[int, ...], Eligibility]] = {}
        self._can_run: dict[ShapeKey, bool] = {}
        self._prices_usage = prices_usage(config)
        self.hooks.open()
        self.retry_key: list[object] = list(self.hooks.retry_key)
        """Inputs of answers besides capacity, gangs and queues; refusals hold while it is unchanged."""

    def _with_classes(self, gangs: Mapping[GangId, Gang]) -> Mapping[GangId, Gang]:
        for supply in self.supplies:
            gangs = {name: supply.with_needs(gang) for name, gang in gangs.items()}
        if self.hooks.reads.extends_shapes:
            gangs = {name: self._pod_classes.with_fields(gang) for name, gang in gangs.items()}
        if self.affinity_index is not None:
            gangs = {name: self.affinity_index.with_states(gang) for name, gang in gangs.items()}
        return gangs

    def on(self, snapshot: Snapshot, *, ignore_faults: bool = False) -> "Session":
        """A session on another snapshot, with the same configuration and terms of pods."""
        return Session(snapshot, self.config, cache=self._cache.for_trial(), ignore_faults=ignore_faults)

    def with_classes(self, gang: Gang) -> Gang:
        """A gang as snapshots have it, with shapes of pods as in this session."""
        return self._with_classes({gang.id: gang})[gang.id]

    @cached_property
    def evictable_pods(self) -> Mapping[GangId, Gang]:
        """The pods of other schedulers that gangs may evict, each as a gang of one without a queue."""
        return MappingProxyType(self._with_classes(self.snapshot.evictable_pods))

    def add_gangs(self, gangs: Iterable[Gang]) -> None:
        """Look at more gangs of the snapshot. Fair shares do not count them in this cycle."""
        new = self._with_classes({gang.id: gang for gang in gangs})
        self.gangs = MappingProxyType(dict(sorted({**self.gangs, **new}.items())))
        self._after_starts = (-1, self.gangs)

    @property
    def gangs_after_starts(self) -> Mapping[GangId, Gang]:
        """The gangs as if the pods that this cycle has placed so far were assumed to be on their nodes."""
        version = self._changes.placements_version
        if self._after_starts[0] != version:
            placed = placed_by(self._changes.placements, self.gangs)
            self._after_starts = (version, {**self.gangs, **placed} if placed else self.gangs)
        return self._after_starts[1]

    @property
    def protected_gangs(self) -> frozenset[GangId]:
        """Those of them with `preemptible: false` that the guarantees of their queues protect."""
        gangs = self.gangs_after_starts
        if self._protected is None or self._protected[0] is not gangs:
            self._protected = (gangs, frozenset(protected_gangs(self)))
        return self._protected[1]

    def _node_facts(self, *, ignore_faults: bool) -> NodeFacts:
        if ignore_faults:
            return NodeFacts([state.node for state in self.nodes.values()], ())
        return self._cache.node_facts(self.nodes, self.config, self.hooks.node_faults)

    # --- the snapshot ---------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time in milliseconds since the epoch."""
        return self.snapshot.now

    @property
    def memory(self) -> Memory:
        """The memory of the last cycle."""
        return self.snapshot.memory

    def kept(self, kind: type[S]) -> S:
        """What a supply keeps from session to session."""
        return self._cache.kept(kind)

    def supply(self, kind: type[S]) -> S | None:
        """The supply of this kind; None if no pod can need it."""
        return next((supply for supply in self.supplies if isinstance(supply, kind)), None)

    def supply_of(self, rule: Rule) -> SessionSupply | None:
        """The supply that the rule bounds, if it is one that the session knows."""
        return next((supply for supply in self.supplies if supply.has_some(rule.limited)), None)

    def projections(self, shapes: Sequence[PodShape], *, only_freed: bool = False) -> tuple[Projection, ...]:
        """What nodes have of the supplies that these pods use, without parts of nodes. `only_freed`: only
        amounts of which pods that end free what they use."""
        supplies = [supply for supply in self.supplies if supply.frees_amounts or not only_freed]
        found = [supply.project(shapes) for supply in supplies]
        return (*offered_amounts(shapes), *[projection for projection in found if projection is not None])

    @property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        return self.snapshot.namespace_labels

    @property
    def disruption_budgets(self) -> tuple[DisruptionBudget, ...]:
        """PodDisruptionBudgets, sorted by namespace and name."""
        return self.snapshot.disruption_budgets

    @property
    def sums(self) -> RunningSums:
        """Running sums, which continue those of the last session."""
        return self._cache.sums

    @cached_property
    def run_times(self) -> RunTimeForecast:
        """Forecasts of the ends of gangs."""
        return RunTimeForecast(self)

    def expected_runtime_ms(self, gang: Gang) -> int | None:
        """The expected run time of the gang from its start; None if unknown."""
        return self.run_times.expected_ms(gang)

    @cached_property
    def waiting(self) -> tuple[Gang, ...]:
        """Gangs with a member that needed a node at the begin of the cycle."""
        return tuple(gang for gang in self.incomplete if gang.has_waiting)

    @cached_property
    def incomplete(self) -> tuple[Gang, ...]:
        """All gangs but those whose members are all on healthy nodes."""
        return self._cache.incomplete(self.gangs, self.facts)

    @property
    def faults(self) -> Mapping[NodeName, str]:
        """The first fault of each node that has one."""
        return self.facts.faults

    @cached_property
    def preempted(self) -> Mapping[GangId, GangId]:
        """Gangs that were evicted before this cycle, each with its beneficiary."""
        remembered = self.snapshot.memory.preempted
        return preempted(self.incomplete, remembered, scheduler_name=self.config.scheduler_name)

    def statement(self) -> Statement:
        """A tentative set of changes; an exception in its `with` block rolls it back."""
        return Statement(self, self._changes)

    def free(self, node: NodeName) -> Resources:
        """The free amounts of a node now; negative if it is over-committed.

        Capacity that is nominated for pods of other schedulers is not free, unless `respecting_nominations`
        says otherwise.
        """
        changed = self._changes.free.get(node)
        free = self.nodes[node].free if changed is None else changed
        if node in self._withheld:
            return subtract(free, self._withheld[node])
        return free

    def pods_that_fit(self, pod: Pod, node: Node, besides: Resources) -> int:
        """How many such pods the node may run beside these amounts, if only its amounts count."""
        if node.name in self.eligibility(pod).rejected:
            return 0
        free = self.free(node.name)
        return how_many_fit(pod.shape.requests, subtract(free, besides) if besides else free) or 0

    def free_despite_nominations(self, node: NodeName) -> Resources:
        """The amounts of a node that no pod uses now, whether or not they are nominated for a pod."""
        changed = self._changes.free.get(node)
        return self.nodes[node].free if changed is None else changed

    def respecting_nominations(self, gang: Gang | None) -> AbstractContextManager[None]:
        """Within this context `free` is what this gang may use: pods of other schedulers with a lower
        priority do not withhold capacity from it. None: no pod does."""
        capacity = self.nominated_capacity
        if not capacity.all_priorities:
            return self._as_before
        return self._respecting(NO_NOMINATIONS if gang is None else capacity.respected_by(gang.priority))

    @contextmanager
    def _respecting(self, count: int) -> Iterator[None]:
        before = self._respected
        self._respect(count)
        try:
            yield
        finally:
            self._respect(before)

    def _respect(self, count: int) -> None:
        if count == self._respected:
            return
        before, self._respected = self._withheld, count
        self._withheld = self.nominated_capacity.withheld(count)
        nodes = [*before, *(node for node in self._withheld if node not in before)]
        self._changes.nodes.extend(node for node in nodes if before.get(node) != self._withheld.get(node))

    @property
    def respected_nominations(self) -> int:
        """Equal while `free` respects the same nominations."""
        return self._respected

    def pod_state(self, pod: Pod) -> PodState:
        return self._changes.pods.get(pod.uid) or first_state(pod)

    def gang_state(self, gang: Gang) -> GangState:
        return self._changes.gangs.get(gang.id, GangState.UNTRIED)

    def assigned_nodes(self, gang: Gang) -> tuple[NodeName, ...]:
        """The nodes on which this cycle has placed members of the gang so far."""
        return self._changes.assigned_nodes.get(gang.id, ())

    def eligibility(self, pod: Pod) -> Eligibility:
        """The eligibility of all nodes for pods of this shape now."""
        for supply in self.supplies:
            pod = supply.pod_with_needs(pod)
        pod = self._pod_classes.pod_with_fields(pod)
        key, version = pod.shape.key, self.eligibility_version(pod)
        known = self._eligibility.get(key)
        if known is None or known[0] != version:
            known = self._eligibility[key] = (version, self._evaluate(pod))
        return known[1]

    def _evaluate(self, pod: Pod) -> Eligibility:
        unusable = (self.faults, self.health.distrusted)
        filters, costs = self.hooks.node_filters(pod), self.hooks.node_costs(pod)
        return evaluate(self.nodes, unusable, filters, costs)

    def eligibility_version(self, pod: Pod) -> tuple[int, ...]:
        """Equal while no placement has changed the eligibility of nodes, or their costs, for pods of this
        shape."""
        state, usage = pod.shape.affinity_state, (len(self._changes.nodes),) if self._prices_usage else ()
        if state is None or self.affinity_index is None:
            return usage
        return (*self.affinity_index.version(state), *usage)

    def can_run(self, pod: Pod) -> bool:
        """Whether some node could take the pod if nothing else ran. Pod affinity does not count."""
        shape = without_affinity_state(pod.shape)
        if shape.key not in self._can_run:
            rejected = self.eligibility(replace(pod, shape=shape)).rejected
            self._can_run[shape.key] = any(
                name not in rejected and fits(shape.requests, state.node.allocatable)
                for name, state in self.nodes.items()
            )
        return self._can_run[shape.key]

    def objection(self, gang: Gang) -> Objection | None:
        """The first objection of a plugin or of a supply to trying the gang."""
        of_supplies = (supply.objection(gang) for supply in self.supplies)
        return self.hooks.objection(gang) or next(filter(None, of_supplies), None)

    def reserve_cells(self, cells: ReservedCells) -> None:
        """Reserve these cells for their queues. It must precede all questions that depend on cells."""
        self.cells = cells
        self.retry_key.append(cells)

    def refuse(self, gang: Gang, verdict: Verdict) -> None:
        """Set the verdict of a gang of which some pods are not placed; ignored fields become evidence."""
        check_gang_transition(gang, self.gang_state(gang), GangState.REFUSED)
        self._changes.gangs[gang.id] = GangState.REFUSED
        self._verdicts[gang.id] = with_ignored(verdict, gang)

    @property
    def may_evict(self) -> bool:
        """Whether pods may be evicted in this cycle."""
        return not self.health.is_open

    @cached_property
    def fair_shares(self) -> FairShares:
        """The fair shares of queues at the begin of the cycle."""
        return FairShares(self)

    @cached_property
    def guarantees(self) -> Guarantees:
        """How far the guarantees of queues cover gangs."""
        return Guarantees(self)

    @property
    def assumed_ended(self) -> Mapping[PodUid, bool]:
        """Pods that open statements assume to have ended."""
        return self._changes.ended

    @property
    def ended_version(self) -> int:
        """Equal while the pods that are assumed to have ended are the same."""
        return self._changes.ended_version

    @cached_property
    def past_usage(self) -> Mapping[QueueName, PastUsage]:
        """The decayed average usage of each queue."""
        known, half_life = self.memory.past_usage, self.config.fairness.usage_half_life_ms
        return past_usage(self.queues, known, self.ledger.usage, now=self.now, half_life=half_life)

    def is_out_of_service(self, name: NodeName) -> bool:
        """Whether a node is unavailable for all pods: faulty or cordoned, or its position is unknown."""
        node = self.nodes[name].node
        return name in self.faults or node.unschedulable or node.has_unknown_topology or node.has_state_taint

    @cached_property
    def health(self) -> HealthState:
        """The health transitions of nodes, and the state of the breaker."""
        snapshot, config = self.snapshot, self.config.tolerance
        reported = {}
        if not snapshot.memory.cycle:
            reported = reported_transitions(snapshot, self.hooks.node_status_since(self.faults), config)
        return assess(
            self.nodes,
            self.faults,
            memory=snapshot.memory,
            now=snapshot.now,
            config=config,
            reported=reported,
        )

    @cached_property
    def largest_free(self) -> Resources:
        """For each resource, the largest free amount of a node at the begin of the cycle."""
        return largest(state.free for state in self.nodes.values())

    @property
    def changed_nodes(self) -> list[NodeName]:
        """A log of the nodes whose free amounts changed, with repetitions; entries are only appended."""
        return self._changes.nodes

    @property
    def placements(self) -> tuple[Placement, ...]:
        """All placements so far, in the order in which they were decided."""
        return tuple(self._changes.placements)

    @property
    def placements_version(self) -> int:
        """Equal while the placements are the same."""
        return self._changes.placements_version

    @property
    def evictions(self) -> tuple[Evict, ...]:
        """All evictions so far, in the order in which they were decided."""
        return tuple(self._changes.evictions)

    @property
    def capacity_holds(self) -> tuple[CapacityHold, ...]:
        """Capacity that is held for members that do not exist yet, in the order of the decisions."""
        return tuple([hold for hold in self._changes.capacity_holds.values() if hold is not None])

    @property
    def nominated(self) -> tuple[tuple[QueueName, Resources], ...]:
        """Nominated capacity that is charged to queues, while victims have not terminated."""
        return tuple(self._changes.nominated)

    def held_usage(self) -> Mapping[QueueName, Resources]:
        """For each queue with its descendants, the usage without pods: held or nominated capacity."""
        found: dict[QueueName, Resources] = {}
        uses = [
            (hold.gang.queue, total_charges(pods))
            for hold in self.capacity_holds
            for _, pods in hold.assignments
        ]
        for name, amounts in [*uses, *self.nominated]:
            for queue in self.queues.path(name):
                found[queue.name] = add(found.get(queue.name, NONE), amounts)
        return found

    @property
    def verdicts(self) -> Mapping[GangId, Verdict]:
        """The verdicts so far."""
        return self._verdicts


class _WithoutTime(Session):
    """The session for a plugin that must not read the time, since it does not override `valid_until`."""

    __slots__ = ("_plugin",)

    def __init__(self, session: Session, plugin: str) -> None:
        self.__dict__ = session.__dict__
        self._plugin = plugin

    @property
    def now(self) -> int:
        """Always raises PluginError."""
        raise PluginError(
            f"plugin {self._plugin}: node_filter, node_cost or rules read the time; "
            "override valid_until to say how long the answers hold"
        )


def with_ignored(verdict: Verdict, gang: Gang) -> Verdict:
    """The verdict with ignored fields of the gang as evidence."""
    if not gang.ignored:
        return verdict
    ignored = [Evidence(subject="ignored", finding=hint) for hint in gang.ignored]
    return replace(verdict, evidence=(*verdict.evidence, *ignored))


def _in_order(mapping: Mapping[K, V]) -> Mapping[K, V]:
    """The mapping sorted by key; the mapping itself if it is sorted, which is usual."""
    keys = list(mapping)
    ordered = sorted(keys)
    return mapping if keys == ordered else {key: mapping[key] for key in ordered}
