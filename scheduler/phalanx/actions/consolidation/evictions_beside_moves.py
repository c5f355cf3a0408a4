"""Choose evictions that make moves sufficient, for a gang inside a guarantee.

Free capacity may be too little and too scattered at once: no eviction alone is enough, an eviction and a
move would be. The sets of victims are those that preemption may choose, and compare as there. Capacity counts
in total over all nodes, since moves gather it; the planner of moves then checks each set.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, beneficiary_of
from phalanx.actions.preemption.eviction_limits import limits_of
from phalanx.actions.preemption.objective import ranked
from phalanx.actions.preemption.victim_problem import (
    pod_limit,
    queue_limits_on,
    required_units,
    vector_of,
)
from phalanx.actions.preemption.victims import Victim, VictimPool, not_taken
from phalanx.framework.evictions import QueueEvictionLimit
from phalanx.framework.queues.guarantees import Coverage
from phalanx.framework.session import Session
from phalanx.model.charges import total_requests
from phalanx.model.names import PodUid
from phalanx.model.resources import sum_of
from phalanx.solver.preemption.engine import choose_victims
from phalanx.solver.preemption.problem import (
    EvictionUnit,
    PodDemand,
    PreemptionProblem,
    QuotaLimit,
    SoftEvictionLimit,
    TargetNode,
)

_SETS_MAX: Final = 8
"""Sets of victims for which moves are planned."""
_EFFORT: Final = 0.1
"""Deterministic time for the choice of one set."""


def is_inside_guarantee(demand: Demand, session: Session) -> bool:
    """Whether a guarantee of some queue on its path covers the whole demand."""
    beneficiary = beneficiary_of(demand)
    return any(
        session.guarantees.coverage_among_siblings(beneficiary, queue.name) is Coverage.FULL
        for queue in session.queues.path(demand.gang.queue)
    )


def sets_to_evict(
    demand: Demand, session: Session, taken: Collection[PodUid]
) -> Iterator[tuple[Victim, ...]]:
    """Sets of victims after whose eviction enough is free in total, the best first; none if none are needed.

    Sets beyond soft limits of queues come last. `taken`: pods that are evicted already.
    """
    beneficiary = beneficiary_of(demand)
    if session.hooks.least_evictions(beneficiary):
        return
    left = not_taken(VictimPool(session).victims_for(beneficiary).victims, taken)
    limits = session.hooks.queue_eviction_limits(beneficiary)
    yield from _sets(*_problem(demand, session, left, taken, limits))
    hard = [limit for limit in limits if limit.is_hard]
    if len(hard) < len(limits):
        yield from _sets(*_problem(demand, session, left, taken, hard))


def _sets(problem: PreemptionProblem, victims: tuple[Victim, ...]) -> Iterator[tuple[Victim, ...]]:
    for _ in range(_SETS_MAX):
        choice = choose_victims(problem, effort=_EFFORT).choice
        if choice is None:
            return
        yield tuple(victims[unit] for unit in choice.units)
        others = tuple((unit, (1,)) for unit in range(len(victims)) if unit not in choice.units)
        another = QuotaLimit((0,), (problem.demands[0].request[0] - 1,), others)
        problem = replace(problem, quota_limits=(*problem.quota_limits, another))


def _problem(
    demand: Demand,
    session: Session,
    units: Sequence[Victim],
    taken: Collection[PodUid],
    queue_limits: Sequence[QueueEvictionLimit],
) -> tuple[PreemptionProblem, tuple[Victim, ...]]:
    """The problem with one node that has all that is free, and its victims."""
    found = ranked(units, session)
    requires = required_units(found.victims)
    asked = total_requests([pod for batch in demand.batches for pod in batch.pods])
    resources = sorted(name for name, amount in asked.items() if amount)
    free = [vector_of(session.free(node), resources) for node in session.nodes]
    total = tuple(sum(max(0, amount) for amount in amounts) for amounts in zip(*free, strict=True))
    exceeded = limits_of(session, taken).exceeded_by(found.victims)
    problem = PreemptionProblem(
        demands=(PodDemand(vector_of(asked, resources), 1),),
        nodes=(TargetNode(total, (1,)),),
        units=tuple(
            EvictionUnit(
                victim.cost,
                ((0, vector_of(sum_of(victim.used.values()), resources)),),
                requires.get(position, ()),
            )
            for position, victim in enumerate(found.victims)
        ),
        eviction_limits=(
            *queue_limits_on(session, queue_limits, found.victims),
            *(pod_limit(each) for each in exceeded if each.limit.is_hard),
        ),
        soft_limits=tuple(
            SoftEvictionLimit(each.most, each.takes) for each in exceeded if not each.limit.is_hard
        ),
        violation_cost=found.scales[-1],
        scales=found.scales,
        seed=session.snapshot.seed,
    )
    return problem, found.victims
