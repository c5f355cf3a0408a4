"""The cluster as it would be if nothing ran on it: what cannot be placed there never can on this cluster.

Unless nodes come back: it can also be had with all of them in service.
"""

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, has_affinity_terms
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang, ancestor_chains
from phalanx.model.gpu_shares import pod_usage, total_usage
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.resources import NONE, Resources, add, subtract
from phalanx.solver.engine import place
from phalanx.solver.problem import Placed


class EmptyCluster:
    """Sessions over emptied snapshots, made when first needed; `as_available`: with all nodes well."""

    def __init__(self, session: Session, *, as_available: bool = False) -> None:
        self._session = session
        self._in_service = as_available
        self._empty: Session | None = None

    def session_for(self, gang: Gang) -> Session:
        """Nothing but the gang's own members that stay uses anything there."""
        usage = _usage_of_members(gang)
        if usage:
            return self._emptied(gang, usage)
        if self._empty is None:
            self._empty = self._emptied(gang, {})
        return self._empty

    def _emptied(self, gang: Gang, usage: dict[NodeName, Resources]) -> Session:
        nodes = {
            name: self._with_only(usage.get(name, NONE), state) for name, state in self._session.nodes.items()
        }
        snapshot = replace(
            self._session.snapshot,
            nodes=nodes,
            gangs={},
            queue_usage={gang.queue: usage} if usage else {},
            memory=Memory(),
            placed_pods=(),
        )
        return Session(snapshot, self._session.config, ignore_faults=self._in_service)

    def _with_only(self, used: Resources, state: NodeState) -> NodeState:
        node = state.node.as_available if self._in_service else state.node
        return NodeState(node=node, used=used, free=subtract(node.allocatable, used))


def _usage_of_members(gang: Gang) -> dict[NodeName, Resources]:
    usage: dict[NodeName, Resources] = {}
    for pod in gang.members:
        if pod.node is not None and pod.holds_node and not pod.deleting:
            usage[pod.node] = add(usage.get(pod.node, NONE), pod_usage(pod))
    return usage


class RelaxedClusters:
    """Sessions over changed snapshots, made when first needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unkept: ProblemBuilder | None = None
        self._closed: ProblemBuilder | None = None
        self._in_service: EmptyCluster | None = None
        self._posed: tuple[Session, ProblemBuilder] | None = None

    def fits_without_claims(self, demand: Demand) -> bool:
        """Whether all of the demand had found room if none were kept for members that do not exist yet."""
        if not self._session.capacity_holds or self._is_anchored(demand):
            return False
        if self._unkept is None:
            memory = self._session.snapshot.memory
            self._unkept = self._problems(replace(memory, scores={}), self._kept())
        return _fits(self._unkept, demand)

    def fits_without_breaker(self, demand: Demand) -> bool:
        """Whether all of the demand had found room if the breaker were closed."""
        if not self._session.health.distrusted or self._is_anchored(demand):
            return False
        if self._closed is None:
            self._closed = self._problems(Memory(), {})
        return _fits(self._closed, demand)

    def session_in_service(self, demand: Demand) -> Session | None:
        """The empty cluster with all nodes in service, if the demand fits there."""
        if self._is_anchored(demand):
            return None
        if self._in_service is None:
            self._in_service = EmptyCluster(self._session, as_available=True)
        session = self._in_service.session_for(demand.gang)
        if self._posed is None or self._posed[0] is not session:
            self._posed = (session, ProblemBuilder(session))
        return session if _fits(self._posed[1], demand) else None

    def _is_anchored(self, demand: Demand) -> bool:
        """Whether it must be near nodes, or pods, of this cycle's placements: no other session has those."""
        gang = demand.gang
        if has_affinity_terms(demand):
            return True
        placed = [pod for pod in gang.members if self._session.pod_state(pod) is PodState.ALLOCATED]
        if gang.topology.required is not None:
            return bool(placed)
        required = {part.name for part in gang.subgroups if part.required is not None}
        around = ancestor_chains(gang.subgroups)
        wanted = {name for batch in demand.batches for name in around.get(batch.subgroup, ())} & required
        return any(not wanted.isdisjoint(around.get(pod.subgroup, ())) for pod in placed)

    def _kept(self) -> dict[NodeName, Resources]:
        kept: dict[NodeName, Resources] = {}
        for each in self._session.capacity_holds:
            for node, pods in each.assignments:
                kept[node] = add(kept.get(node, NONE), total_usage(pods, each.devices))
        return kept

    def _problems(self, memory: Memory, more: dict[NodeName, Resources]) -> ProblemBuilder:
        """With what is free now, and this much more."""
        states = self._session.nodes.items()
        nodes = {name: self._as_now(state, more.get(name, NONE)) for name, state in states}
        snapshot = replace(self._session.snapshot, nodes=nodes, gangs={}, memory=memory)
        return ProblemBuilder(Session(snapshot, self._session.config))

    def _as_now(self, state: NodeState, more: Resources) -> NodeState:
        free = self._session.free(state.node.name)
        return replace(state, free=add(free, more) if more else free)


def _fits(problems: ProblemBuilder, demand: Demand) -> bool:
    answer = place(problems.build_problem(demand).problem)
    return isinstance(answer, Placed) and sum(each.count for each in answer.assignments) == demand.count
