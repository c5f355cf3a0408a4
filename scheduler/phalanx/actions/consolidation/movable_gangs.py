"""Who may be moved so that another gang finds room.

A gang is moved whole, all its members or none, and only while all is well with it: everybody runs, nobody is
missing, and each member has a controller that makes it anew. It has the priority of the other gang or a lower
one, whatever its queue: it loses no room, only its run time since its last checkpoint, and that should not be
lost for less important work. Priority classes mean the same in all queues. `disruption` and the least run
times of queues hold as they do against eviction, and so do budgets, even those that may be broken for more
important work. After each start a gang rests before it is moved.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.demands.demand import START, Demand, Stage, batches_of
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.preemption.victims import usage_of_pods
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import requests_share
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodPhase, PodShape


def is_plain(shape: PodShape, session: Session) -> bool:
    """Whether amounts on nodes say all about the room of such pods."""
    has_zones = bool(shape.numa and session.facts.numa_layouts)
    return shape.affinity_state is None and not has_zones and not requests_share(shape.requests)


class Movable(Struct, frozen=True):
    """A gang that may be moved: its pods, what they use, what it costs, and what it asks for afterwards."""

    gang: Gang
    pods: tuple[Pod, ...]
    cost: int
    used: Usage
    booked: Usage
    demand: Demand


class MovablePool:
    """Who may be moved in one session; what a gang consists of is worked out once.

    `on_their_way`: pods that were evicted in cycles before.
    """

    def __init__(self, session: Session, nominations: Nominations, moves: Moves) -> None:
        self._session = session
        self._busy = {*moves.open, *session.snapshot.memory.preempted}
        self.on_their_way = frozenset(pod for each in nominations.open.values() for pod in each.victims)
        self._units: dict[GangId, Movable | None] = {}

    def units_for(self, beneficiary: Gang) -> tuple[Movable, ...]:
        """All that may be moved for this gang; never the one for which it was evicted itself."""
        evictor = self._session.snapshot.memory.preempted.get(beneficiary.id)
        found: list[Movable] = []
        for gang in self._session.gangs.values():
            if gang.id in (beneficiary.id, evictor) or gang.priority > beneficiary.priority:
                continue
            unit = self._unit_of(gang)
            if unit is not None and self._protected_until(unit, beneficiary) <= self._session.snapshot.now:
                found.append(unit)
        return tuple(found)

    def _protected_until(self, unit: Movable, beneficiary: Gang) -> int:
        rested = (
            max(pod.running_since for pod in unit.pods) * 1000 + self._session.config.consolidation.rest_ms
        )
        return max(rested, self._session.plugins.protected_until(unit.gang, beneficiary))

    def _unit_of(self, gang: Gang) -> Movable | None:
        if gang.id not in self._units:
            unit = self._made(gang) if self._is_well(gang) else None
            self._units[gang.id] = unit if unit is not None and self._may_come_back(unit) else None
        return self._units[gang.id]

    def _may_come_back(self, unit: Movable) -> bool:
        """Whether nothing but room could keep it waiting once it is made anew."""
        return self._session.plugins.check_gang(unit.demand.gang) is None

    def _is_well(self, gang: Gang) -> bool:
        session = self._session
        if gang.id in self._busy or gang.is_finishing or session.assigned_nodes(gang):
            return False
        if session.queues.not_open(gang.queue) is not None:
            return False
        pods = [pod for pod in gang.members if not pod.is_finished]
        return gang.minimum.is_reached(pods) and all(map(self._is_movable, pods))

    def _is_movable(self, pod: Pod) -> bool:
        node, shape = pod.node, pod.shape
        return (
            node in self._session.nodes
            and node not in self._session.faults
            and node not in self._session.facts.suspect_nodes
            and pod.phase is PodPhase.RUNNING
            and pod.running_since > 0
            and pod.controller is not None
            and not (pod.assumed or pod.deleting or pod.uid in self.on_their_way)
            and pod.scheduler_name == self._session.config.scheduler_name
            and not (pod.problems or shape.unsupported or shape.invalid)
            and is_plain(shape, self._session)
        )

    def _made(self, gang: Gang) -> Movable:
        pods = tuple(pod for pod in gang.members if not pod.is_finished)
        used, booked = usage_of_pods(pods, self._session)
        cost = self._session.plugins.eviction_cost(gang, pods)
        return Movable(gang, pods, cost, used, booked, _demand_afterwards(gang, pods))


def _demand_afterwards(gang: Gang, pods: Sequence[Pod]) -> Demand:
    """All of them whole, as if they were made anew."""
    members = tuple(
        replace(pod, node=None, phase=PodPhase.PENDING, running_since=0, bind_backoff=None) for pod in pods
    )
    anew = replace(gang, members=members, started=False, starts_over=True)
    return Demand(anew, Stage.START, START, batches_of(members, whole=True))
