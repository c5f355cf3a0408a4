"""Builds the solver's preemption problem from a demand and its candidate victims.

The problem knows the capacity of nodes, the domain that must hold all pods, and queue limits that count all
nodes. A placement must satisfy the other rules too, so each choice of victims is tried afterwards.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from phalanx.actions.demands.demand import Demand, has_affinity_terms
from phalanx.actions.nodes.gang_constraints import GangConstraints, allowed_domains, constraints_of
from phalanx.actions.nodes.node_classes import asked_for, request_vectors
from phalanx.actions.preemption.eviction_limits import Counted
from phalanx.actions.preemption.victims import Victim
from phalanx.actions.problems.capacity_holders import total_of
from phalanx.framework.evictions import QueueEvictionLimit
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import Resources
from phalanx.model.rules import Budget
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
    """Bounds on a choice of victims. `may_break`: soft limits may be exceeded."""

    floors: Sequence[QueueEvictionLimit]
    limits: Sequence[Counted]
    may_break: bool = False


def problem_of(
    session: Session,
    demand: Demand,
    victims: Sequence[Victim],
    bounds: Bounds,
    *,
    parts: bool = True,
) -> PreemptionProblem:
    """The problem; its units are the victims, in their order.

    `parts`: count nodes that pods may use only after victims with anti-affinity to them are gone.
    """
    constraints = constraints_of(session, demand.gang)
    asked = [batch.pods[0].shape.requests for batch in demand.batches]
    resources = asked_for(asked)
    wants = tuple(
        PodDemand(request, len(batch.pods))
        for request, batch in zip(request_vectors(asked, resources), demand.batches, strict=True)
    )
    back = _given_back(victims, resources)
    rejected = _rejected(session, demand, victims if parts else ())
    places, names = _places(session, constraints, wants, resources, back, rejected)
    index = {name: position for position, name in enumerate(names)}
    needs = _needs(victims)
    units = tuple(
        EvictionUnit(
            cost=victim.cost,
            frees=tuple(
                (index[node], vector_of(amounts, resources))
                for node, amounts in victim.used.items()
                if node in index
            ),
            requires=needs.get(position, ()),
        )
        for position, victim in enumerate(victims)
    )
    firm = [each for each in bounds.limits if each.limit.is_hard or not bounds.may_break]
    soft = [each for each in bounds.limits if bounds.may_break and not each.limit.is_hard]
    return PreemptionProblem(
        demands=wants,
        nodes=places,
        units=units,
        quota_limits=_allowances(session, constraints, victims, resources),
        eviction_limits=(*floors_of(session, bounds.floors, victims), *map(_floor, firm)),
        soft_limits=tuple(SoftEvictionLimit(each.most, each.takes) for each in soft),
        violation_cost=1 + sum(victim.cost for victim in victims),
        seed=session.snapshot.seed,
    )


def vector_of(amounts: Resources, resources: Sequence[str]) -> Vector:
    """The amounts in the order of the resources."""
    return tuple([amounts.get(name, 0) for name in resources])


def _given_back(victims: Sequence[Victim], resources: Sequence[str]) -> dict[NodeName, list[int]]:
    """What each node gets back if all victims go."""
    total: dict[NodeName, list[int]] = {}
    for victim in victims:
        for node, amounts in victim.used.items():
            known = total.setdefault(node, [0] * len(resources))
            for position, name in enumerate(resources):
                known[position] += amounts.get(name, 0)
    return total


def _places(
    session: Session,
    constraints: GangConstraints,
    wants: Sequence[PodDemand],
    resources: Sequence[str],
    back: Mapping[NodeName, Sequence[int]],
    rejected: Sequence[Collection[NodeName]],
) -> tuple[tuple[TargetNode, ...], list[NodeName]]:
    """The nodes on which at least one pod would fit if all victims were gone."""
    homes = allowed_domains(session, constraints)
    domains = {home: number for number, home in enumerate(sorted(set(homes.values())))}
    places: list[TargetNode] = []
    names: list[NodeName] = []
    for node, home in homes.items():
        free = vector_of(session.free(node), resources)
        most = [have + more for have, more in zip(free, back.get(node, (0,) * len(free)), strict=True)]
        takes = tuple(
            0 if node in out else pods_that_fit(most, want.request, want.count)
            for out, want in zip(rejected, wants, strict=True)
        )
        if any(takes):
            places.append(TargetNode(free=free, max_pods=takes, domain=domains[home]))
            names.append(node)
    return tuple(places), names


def _rejected(session: Session, demand: Demand, victims: Sequence[Victim]) -> list[Collection[NodeName]]:
    """By batch, the nodes that are ineligible both now and when all victims are gone."""
    now = [session.eligibility(batch.pods[0]).rejected for batch in demand.batches]
    if not victims or not has_affinity_terms(demand):
        return [each.keys() for each in now]
    with session.statement() as trial:
        for victim in victims:
            trial.assume_ended(queue=victim.queue, used={}, booked={}, gone=victim.pods)
        later = [session.eligibility(batch.pods[0]).rejected for batch in demand.batches]
        trial.roll_back()
    return [before.keys() & after.keys() for before, after in zip(now, later, strict=True)]


def floors_of(
    session: Session, floors: Sequence[QueueEvictionLimit], victims: Sequence[Victim]
) -> tuple[EvictionLimit, ...]:
    """The limits that bind, with the victims by index."""
    paths = {victim.queue: {queue.name for queue in session.queues.path(victim.queue)} for victim in victims}
    gangs = {gang: index for index, gang in enumerate(dict.fromkeys(victim.gang.id for victim in victims))}
    found = []
    for floor in floors:
        names = sorted(floor.amounts)
        takes = tuple(
            (position, vector_of(_booked_on(victim, floor.nodes), names))
            for position, victim in enumerate(victims)
            if floor.queue in paths[victim.queue]
        )
        if names and takes:
            groups = tuple(gangs[victims[position].gang.id] for position, _ in takes)
            found.append(
                EvictionLimit(vector_of(floor.amounts, names), takes, groups if floor.except_largest else ())
            )
    return tuple(found)


def _floor(limit: Counted) -> EvictionLimit:
    return EvictionLimit((limit.most,), tuple((position, (count,)) for position, count in limit.takes))


def _booked_on(victim: Victim, nodes: frozenset[NodeName] | None) -> Resources:
    if nodes is None:
        return victim.total
    return total_of({node: amounts for node, amounts in victim.booked.items() if node in nodes})


def _needs(victims: Sequence[Victim]) -> dict[int, tuple[int, ...]]:
    """A gang goes whole only after the members that can go alone."""
    alone: dict[GangId, list[int]] = {}
    needs: dict[int, tuple[int, ...]] = {}
    for position, victim in enumerate(victims):
        if victim.whole and victim.gang.id in alone:
            needs[position] = tuple(alone[victim.gang.id])
        else:
            alone.setdefault(victim.gang.id, []).append(position)
    return needs


def _allowances(
    session: Session, constraints: GangConstraints, victims: Sequence[Victim], resources: Sequence[str]
) -> tuple[QuotaLimit, ...]:
    found = []
    for rule in constraints.rules:
        if not isinstance(rule, Budget) or rule.nodes is not None:
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
