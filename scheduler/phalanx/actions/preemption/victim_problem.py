"""Build the solver's preemption problem from a demand and its candidate victims.

The problem models the capacity of nodes, the domain that must hold all pods, and queue limits that count all
nodes. A placement must satisfy other rules too, so each choice of victims is checked by solving the placement
afterwards.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, has_affinity_terms
from phalanx.actions.nodes.charge_projection import NO_CHARGES, ChargeProjection, charge_projection
from phalanx.actions.nodes.gang_constraints import GangConstraints, allowed_domains, constraints_of
from phalanx.actions.nodes.node_classes import asked_for, request_vectors
from phalanx.actions.preemption.eviction_limits import ExceededLimit
from phalanx.actions.preemption.least_evictions import NO_LEAST, LeastEvictions, freed_for
from phalanx.actions.preemption.victims import Victim
from phalanx.framework.evictions import QueueEvictionLimit
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import Resources
from phalanx.model.supplies.known import projected, requested
from phalanx.model.supplies.supply import Projection
from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.problem import (
    EvictionLimit,
    EvictionUnit,
    PodDemand,
    PreemptionProblem,
    QuotaLimit,
    SoftEvictionLimit,
    TargetNode,
    Vector,
)


class Bounds(Struct, frozen=True):
    """Bounds on a choice of victims."""

    queue_limits: Sequence[QueueEvictionLimit]
    pod_limits: Sequence[ExceededLimit]
    scales: tuple[int, ...]
    """Those of the costs of the victims."""
    least: LeastEvictions = NO_LEAST
    may_exceed_soft: bool = False
    """Whether soft limits may be exceeded by victims of the gang's own queue."""


def problem_of(
    session: Session,
    demand: Demand,
    victims: Sequence[Victim],
    bounds: Bounds,
    *,
    with_unblocked_nodes: bool = True,
) -> PreemptionProblem:
    """The problem; its units are the victims, in their order.

    `with_unblocked_nodes`: include nodes that become eligible only when victims with anti-affinity are gone.
    """
    constraints = constraints_of(session, demand.gang)
    pods = [batch.pods[0] for batch in demand.batches]
    charges = charge_projection(pods) or NO_CHARGES
    projections = (*session.projections([pod.shape for pod in pods], only_freed=True), charges)
    asked = requested(projections, pods)
    resources = asked_for(asked)
    wants = tuple(
        PodDemand(request, len(batch.pods))
        for request, batch in zip(request_vectors(asked, resources), demand.batches, strict=True)
    )
    freed = _freed_by_all(victims, resources, charges)
    rejected = _rejected(session, demand, victims if with_unblocked_nodes else ())
    nodes, names = _target_nodes(session, constraints, wants, resources, freed, rejected, projections)
    index = {name: position for position, name in enumerate(names)}
    requires = required_units(victims)
    units = tuple(
        EvictionUnit(
            cost=victim.cost,
            frees=tuple(
                (index[node], vector_of(charges.freed(amounts), resources))
                for node, amounts in victim.used.items()
                if node in index
            ),
            requires=requires.get(position, ()),
        )
        for position, victim in enumerate(victims)
    )
    soft = [each for each in bounds.pod_limits if not each.limit.is_hard]
    own = () if bounds.may_exceed_soft else _of_own_queue(soft, demand, victims)
    hard = [*(each for each in bounds.pod_limits if each.limit.is_hard), *own]
    return PreemptionProblem(
        demands=wants,
        nodes=nodes,
        units=units,
        quota_limits=(
            *_quota_limits(session, constraints, victims, resources),
            *_least_evictions(bounds.least, wants, victims, resources),
        ),
        eviction_limits=(
            *queue_limits_on(session, bounds.queue_limits, victims),
            *map(pod_limit, hard),
        ),
        soft_limits=tuple(SoftEvictionLimit(each.most, each.takes) for each in soft),
        violation_cost=bounds.scales[-1],
        scales=bounds.scales,
        seed=session.snapshot.seed,
    )


def vector_of(amounts: Resources, resources: Sequence[str]) -> Vector:
    """The amounts in the order of the resources."""
    return tuple([amounts.get(name, 0) for name in resources])


def _freed_by_all(
    victims: Sequence[Victim], resources: Sequence[str], charges: ChargeProjection
) -> dict[NodeName, list[int]]:
    """What is freed on each node if all victims are evicted."""
    total: dict[NodeName, list[int]] = {}
    for victim in victims:
        for node, amounts in victim.used.items():
            known, freed = total.setdefault(node, [0] * len(resources)), charges.freed(amounts)
            for position, name in enumerate(resources):
                known[position] += freed.get(name, 0)
    return total


def _target_nodes(
    session: Session,
    constraints: GangConstraints,
    wants: Sequence[PodDemand],
    resources: Sequence[str],
    freed: Mapping[NodeName, Sequence[int]],
    rejected: Sequence[Collection[NodeName]],
    projections: Sequence[Projection],
) -> tuple[tuple[TargetNode, ...], list[NodeName]]:
    """The nodes on which at least one pod fits if all victims are evicted, and their names."""
    domain_of = allowed_domains(session, constraints)
    numbers = {domain: number for number, domain in enumerate(sorted(set(domain_of.values())))}
    targets: list[TargetNode] = []
    names: list[NodeName] = []
    for node, domain in domain_of.items():
        free = vector_of(projected(projections, session.nodes[node], session.free(node)), resources)
        most = [have + more for have, more in zip(free, freed.get(node, (0,) * len(free)), strict=True)]
        max_pods = tuple(
            0 if node in out else pods_that_fit(most, want.request, want.count)
            for out, want in zip(rejected, wants, strict=True)
        )
        if any(max_pods):
            targets.append(TargetNode(free=free, max_pods=max_pods, domain=numbers[domain]))
            names.append(node)
    return tuple(targets), names


def _rejected(session: Session, demand: Demand, victims: Sequence[Victim]) -> list[Collection[NodeName]]:
    """For each batch, the nodes that are ineligible now and would be if all victims were evicted."""
    now = [session.eligibility(batch.pods[0]).rejected for batch in demand.batches]
    if not victims or not has_affinity_terms(demand):
        return [each.keys() for each in now]
    with session.statement() as trial:
        for victim in victims:
            trial.assume_ended(queue=victim.queue, used={}, booked={}, gone=victim.pods)
        later = [session.eligibility(batch.pods[0]).rejected for batch in demand.batches]
        trial.roll_back()
    return [before.keys() & after.keys() for before, after in zip(now, later, strict=True)]


def queue_limits_on(
    session: Session, limits: Sequence[QueueEvictionLimit], victims: Sequence[Victim]
) -> tuple[EvictionLimit, ...]:
    """The limits that concern one of the victims, with the victims by index.

    Soft limits, which prefer some evictions to others, do not count starts: those are given up first.
    """
    paths = {victim.queue: {queue.name for queue in session.queues.path(victim.queue)} for victim in victims}
    gangs = {gang: index for index, gang in enumerate(dict.fromkeys(victim.gang.id for victim in victims))}
    found = []
    for limit in limits:
        names = sorted(limit.amounts)
        takes = tuple(
            (position, vector_of(victim.booked_on(limit.nodes), names))
            for position, victim in enumerate(victims)
            if limit.queue in paths[victim.queue]
            and (not victim.is_start or (limit.is_hard and limit.counts_starts))
            and (limit.priority is None or victim.gang.priority >= limit.priority)
        )
        if names and takes:
            groups = tuple(gangs[victims[position].gang.id] for position, _ in takes)
            found.append(
                EvictionLimit(vector_of(limit.amounts, names), takes, groups if limit.except_largest else ())
            )
    return tuple(found)


def _of_own_queue(
    limits: Sequence[ExceededLimit], demand: Demand, victims: Sequence[Victim]
) -> Iterator[ExceededLimit]:
    """The limits, for the victims of the demand's own queue."""
    for limit in limits:
        takes = tuple(each for each in limit.takes if victims[each[0]].queue == demand.gang.queue)
        if takes:
            yield replace(limit, takes=takes)


def pod_limit(limit: ExceededLimit) -> EvictionLimit:
    """The limit for the solver."""
    return EvictionLimit((limit.most,), tuple((position, (count,)) for position, count in limit.takes))


def required_units(victims: Sequence[Victim]) -> dict[int, tuple[int, ...]]:
    """For the last unit of a gang, the units of members that must be evicted with it."""
    alone: dict[GangId, list[int]] = {}
    requires: dict[int, tuple[int, ...]] = {}
    for position, victim in enumerate(victims):
        if victim.whole and victim.gang.id in alone:
            requires[position] = tuple(alone[victim.gang.id])
        else:
            alone.setdefault(victim.gang.id, []).append(position)
    return requires


def _quota_limits(
    session: Session, constraints: GangConstraints, victims: Sequence[Victim], resources: Sequence[str]
) -> tuple[QuotaLimit, ...]:
    found = []
    for rule in constraints.budgets:
        if rule.nodes is not None:
            continue
        limited = [position for position, name in enumerate(resources) if name in rule.remaining]
        names = [resources[position] for position in limited]
        gives = tuple(
            (position, vector_of(victim.total, names))
            for position, victim in enumerate(victims)
            if any(queue.name == rule.queue for queue in session.queues.path(victim.queue))
        )
        found.append(QuotaLimit(tuple(limited), vector_of(rule.remaining, names), gives))
    return tuple(each for each in found if each.resources)


def _least_evictions(
    least: LeastEvictions, wants: Sequence[PodDemand], victims: Sequence[Victim], resources: Sequence[str]
) -> Iterator[QuotaLimit]:
    """The least amounts that must be evicted, each as a quota that leaves only the rest of the requests."""
    wanted = [(least.amounts, [least.counted(victim) for victim in victims])]
    wanted += [(gap.amounts, [freed_for(gap, victim) for victim in victims]) for gap in least.gaps]
    for amounts, freed in wanted:
        counted = [position for position, name in enumerate(resources) if amounts.get(name)]
        names = [resources[position] for position in counted]
        if counted:
            asked = [sum(want.request[position] * want.count for want in wants) for position in counted]
            rest = tuple(amount - amounts[name] for amount, name in zip(asked, names, strict=True))
            frees = tuple((position, vector_of(each, names)) for position, each in enumerate(freed))
            yield QuotaLimit(tuple(counted), rest, frees)
