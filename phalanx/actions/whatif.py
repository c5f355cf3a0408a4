"""The cluster as it would be without what this cycle set aside: whoever fits there waits because of that."""

from msgspec.structs import replace

from phalanx.actions.demand import Demand
from phalanx.actions.problems import Problems
from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.resources import NONE, Resources, add
from phalanx.solver.engine import place
from phalanx.solver.problem import Placed


class WhatIf:
    """Sessions over changed snapshots, made when first needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unkept: Problems | None = None

    def fits_without_claims(self, demand: Demand) -> bool:
        """Whether all of the demand had found room if none were kept for members that do not exist yet.

        Of a gang that must stay together and got some nodes in this cycle that is not known: the other session
        does not have them.
        """
        is_anchored = demand.gang.topology.required is not None and self._session.seats_of(demand.gang)
        if not self._session.kept or is_anchored:
            return False
        if self._unkept is None:
            self._unkept = Problems(self._without_claims())
        return _fits(self._unkept, demand)

    def _without_claims(self) -> Session:
        kept: dict[NodeName, Resources] = {}
        for each in self._session.kept:
            for node, pods in each.seats:
                kept[node] = add(kept.get(node, NONE), total_requests(pods))
        nodes = {
            name: self._as_now(state, kept.get(name, NONE)) for name, state in self._session.nodes.items()
        }
        return Session(replace(self._session.snapshot, nodes=nodes, gangs={}), self._session.config)

    def _as_now(self, state: NodeState, kept: Resources) -> NodeState:
        free = self._session.free(state.node.name)
        return replace(state, free=add(free, kept) if kept else free)


def _fits(problems: Problems, demand: Demand) -> bool:
    answer = place(problems.pose(demand).problem)
    return isinstance(answer, Placed) and sum(each.count for each in answer.assignments) == demand.count
