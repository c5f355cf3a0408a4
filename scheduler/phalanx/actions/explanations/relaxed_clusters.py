"""Relaxed copies of the cluster: empty, with all nodes available, without holds, nominations or the breaker.

A demand that does not fit the empty cluster is impossible. A demand that fits only a relaxed cluster waits
for what was relaxed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, has_affinity_terms
from phalanx.actions.problems.capacity_holders import CapacityHolder
from phalanx.actions.problems.held_devices import take_as_in
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.changes import CapacityHold
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.charges import plus_devices
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add, subtract, sum_of
from phalanx.model.snapshot import PlacedPods
from phalanx.model.supplies.known import emptied, pod_usage, total_usage
from phalanx.rules.budget import Budget

_Relaxed = tuple[Session, ProblemBuilder]


class EmptyCluster:
    """Sessions on the empty cluster, made on first use."""

    def __init__(
        self,
        session: Session,
        *,
        as_available: bool = False,
        staying: Callable[[NodeName], Resources] = lambda node: NONE,
    ) -> None:
        """`as_available`: with all nodes available. `staying`: what pods that never end use on a node."""
        self._session = session
        self._as_available = as_available
        self._staying = staying
        self._empty: Session | None = None
        self._last: tuple[GangId, Session] | None = None

    def session_for(self, gang: Gang) -> Session:
        """The cluster in which only staying members of the gang run."""
        usage = _usage_of_members(gang)
        if not usage:
            if self._empty is None:
                self._empty = self._emptied(gang, {})
            return self._empty
        if self._last is None or self._last[0] != gang.id:
            self._last = (gang.id, self._emptied(gang, usage))
        return self._last[1]

    def _emptied(self, gang: Gang, usage: dict[NodeName, Resources]) -> Session:
        nodes = {
            name: self._with_only(usage.get(name, NONE), state) for name, state in self._session.nodes.items()
        }
        snapshot = replace(
            self._session.snapshot,
            nodes=nodes,
            gangs={},
            queue_usage={gang.queue: _booked(gang, usage)} if usage else {},
            memory=Memory(),
            placed_pods=_placed_members(gang) if self._session.affinity_index is not None else (),
            nominated={},
            supplies=emptied(self._session.snapshot),
        )
        return self._session.on(snapshot, ignore_faults=self._as_available)

    def _with_only(self, members: Resources, state: NodeState) -> NodeState:
        node = state.node.as_available if self._as_available else state.node
        staying = self._staying(node.name)
        used = add(staying, members) if staying else members
        return NodeState(node=node, used=used, free=subtract(node.allocatable, used))


def _usage_of_members(gang: Gang) -> dict[NodeName, Resources]:
    usage: dict[NodeName, Resources] = {}
    for pod, node in staying_members(gang):
        usage[node] = add(usage.get(node, NONE), pod_usage(pod))
    return usage


def _booked(gang: Gang, usage: dict[NodeName, Resources]) -> dict[NodeName, Resources]:
    """The usage with the devices of claims, which the queue is charged for too."""
    booked = dict(usage)
    for pod, node in staying_members(gang):
        if pod.charges:
            booked[node] = plus_devices(booked[node], (pod,), set())
    return booked


def _placed_members(gang: Gang) -> tuple[PlacedPods, ...]:
    """The staying members, as affinity terms count them."""
    counts = Counter((pod.all_labels, pod.shape.anti_affinity, node) for pod, node in staying_members(gang))
    return tuple(
        PlacedPods(gang.namespace, labels, anti_affinity, {node: count})
        for (labels, anti_affinity, node), count in counts.items()
    )


def used_by_members(gang: Gang, limit: Budget) -> Resources:
    """What the limit counts of members that run."""
    booked = _booked(gang, _usage_of_members(gang))
    return sum_of([used for node, used in booked.items() if limit.nodes is None or node in limit.nodes])


def staying_members(gang: Gang) -> Iterator[tuple[Pod, NodeName]]:
    """The members that run in the empty cluster too, with their nodes."""
    for pod in gang.members:
        if pod.node is not None and pod.holds_node and not pod.deleting:
            yield pod, pod.node


class StayingUsage:
    """What pods that never end use on each node: those that no holder of capacity accounts for."""

    def __init__(self, session: Session, holders: Callable[[], Iterable[CapacityHolder]]) -> None:
        """`holders` returns all holders."""
        self._session = session
        self._holders = holders

    def on(self, node: NodeName) -> Resources:
        """The amounts on one node."""
        return self._by_node.get(node, NONE)

    @cached_property
    def _by_node(self) -> Mapping[NodeName, Resources]:
        left = {
            name: dict(subtract(state.node.allocatable, self._session.free_despite_nominations(name)))
            for name, state in self._session.nodes.items()
        }
        for holder in self._holders():
            for node, amounts in holder.used.items():
                used = left.get(node, {})
                for name, amount in amounts.items():
                    used[name] = used.get(name, 0) - amount
        found = {node: {name: more for name, more in used.items() if more > 0} for node, used in left.items()}
        return {node: amounts for node, amounts in found.items() if amounts}


class RelaxedClusters:
    """Whether demands fit relaxed clusters, which are made on first use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._without_holds: _Relaxed | None = None
        self._without_breaker: _Relaxed | None = None
        self._all_nodes: EmptyCluster | None = None

    def fits_without_capacity_holds(self, demand: Demand) -> bool:
        """Whether the whole demand fits if no capacity is held for missing members of gangs."""
        if not self._session.capacity_holds or self._is_anchored(demand):
            return False
        if self._without_holds is None:
            memory = self._session.snapshot.memory
            self._without_holds = self._relaxed(
                replace(memory, scores={}), self._held(), self._session.capacity_holds
            )
        return _fits_relaxed(self._without_holds, demand)

    def fits_without_breaker(self, demand: Demand) -> bool:
        """Whether the whole demand fits if the breaker is closed."""
        if not self._session.health.distrusted or self._is_anchored(demand):
            return False
        if self._without_breaker is None:
            self._without_breaker = self._relaxed(Memory(), {})
        return _fits_relaxed(self._without_breaker, demand)

    def fits_without_nominations(self, demand: Demand) -> bool:
        """Whether the whole demand fits if no pod of another scheduler is nominated to a node."""
        session = self._session
        if not session.respected_nominations:
            return False
        with session.respecting_nominations(None):
            return _fits(session, ProblemBuilder(session), demand)

    def session_with_all_nodes(self, demand: Demand) -> Session:
        """The empty cluster with all nodes available."""
        if self._all_nodes is None:
            self._all_nodes = EmptyCluster(self._session, as_available=True)
        return self._all_nodes.session_for(demand.gang)

    def _is_anchored(self, demand: Demand) -> bool:
        """Whether placements of this cycle, which no other session has, constrain the demand."""
        gang = demand.gang
        if has_affinity_terms(demand):
            return True
        placed = [pod for pod in gang.members if self._session.pod_state(pod) is PodState.ALLOCATED]
        if gang.topology.required is not None:
            return bool(placed)
        required = {subgroup.name for subgroup in gang.subgroups if subgroup.required is not None}
        ancestors = ancestor_chains(gang.subgroups)
        named = {name for batch in demand.batches for name in ancestors.get(batch.subgroup, ())} & required
        return any(not named.isdisjoint(ancestors.get(pod.subgroup, ())) for pod in placed)

    def _held(self) -> dict[NodeName, Resources]:
        held: dict[NodeName, Resources] = {}
        for hold in self._session.capacity_holds:
            for node, pods in hold.assignments:
                held[node] = add(held.get(node, NONE), total_usage(pods, hold.parts))
        return held

    def _relaxed(
        self, memory: Memory, more: dict[NodeName, Resources], holds: Sequence[CapacityHold] = ()
    ) -> _Relaxed:
        """A session with the free capacity of now, and these further amounts, without these holds."""
        states = self._session.nodes.items()
        nodes = {name: self._as_now(state, more.get(name, NONE)) for name, state in states}
        snapshot = replace(self._session.snapshot, nodes=nodes, gangs={}, memory=memory)
        session = self._session.on(snapshot)
        with session.statement() as statement:
            take_as_in(self._session, session, statement, without=holds)
        return session, ProblemBuilder(session)

    def _as_now(self, state: NodeState, more: Resources) -> NodeState:
        free = self._session.free_despite_nominations(state.node.name)
        return replace(state, free=add(free, more) if more else free)


def _fits_relaxed(relaxed: _Relaxed, demand: Demand) -> bool:
    session, problems = relaxed
    with session.respecting_nominations(demand.gang):
        return _fits(session, problems, demand)


def _fits(session: Session, problems: ProblemBuilder, demand: Demand) -> bool:
    return Placer(session, problems).place_whole(demand) is not None
