"""Changes of a gang that let it start: other levels, a lower minimum, other fields of its pods."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage, batches_of
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.actions.explanations import advice
from phalanx.actions.explanations.advice import Action
from phalanx.actions.explanations.deletion_filter import necessary
from phalanx.actions.explanations.pod_fields import (
    Field,
    Restriction,
    fields_of,
    with_other_pods,
    without_restrictions,
)
from phalanx.framework.nodes.tolerations import tolerates
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import TopologyRequest
from phalanx.model.dialects.known import how_to_lower_minimum
from phalanx.model.gangs import Gang, GangKind, SubgroupSpec, ancestor_chains
from phalanx.model.names import ShapeKey
from phalanx.model.nodes import Taint, TaintEffect
from phalanx.model.pods import Pod, PodShape
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources, largest
from phalanx.model.supplies.known import needs_parts

Fits = Callable[[Demand], bool]
"""Whether this demand, of a changed gang, would fit."""

_MEMBERS: Final = "members"
"""The part of a lower minimum that is always necessary."""

TAINTS_MAX: Final = 2
"""Taints in one advice, those on most nodes."""


# --- levels -------------------------------------------------------------------------------------------------


def other_levels(session: Session, demand: Demand, fits: Fits) -> Iterator[Action]:
    """For each required level, the next wider one that helps, else the level as a preference."""
    gang = demand.gang
    topology = session.topologies.of(gang)
    levels = [level.name for level in topology.levels] if topology is not None else []
    if gang.topology.required in levels:
        yield from _levels_of_gang(demand, gang.topology.required, levels, fits)
    for part in gang.subgroups:
        topology = session.topologies.of_subgroup(gang, part)
        levels = [level.name for level in topology.levels] if topology is not None else []
        if part.required in levels:
            yield from _levels_of_subgroup(demand, part, part.required, levels, fits)


def _levels_of_gang(demand: Demand, old: str, levels: Sequence[str], fits: Fits) -> Iterator[Action]:
    for level in _wider(old, levels):
        if fits(_with_topology(demand, replace(demand.gang.topology, required=level))):
            yield advice.RequireLevel(level, old)
            return
    if fits(preferring(demand, "")):
        yield advice.PreferLevel(old)


def _levels_of_subgroup(
    demand: Demand, part: SubgroupSpec, old: str, levels: Sequence[str], fits: Fits
) -> Iterator[Action]:
    for level in _wider(old, levels):
        if fits(_with_subgroup(demand, replace(part, required=level))):
            yield advice.RequireLevel(level, old, part.name)
            return
    if fits(preferring(demand, part.name)):
        yield preference(demand.gang, part.name)


def requiring(gang: Gang) -> list[str]:
    """The subgroups that require a level; an empty name stands for the whole gang."""
    whole = [""] if gang.topology.required is not None else []
    return [*whole, *(part.name for part in gang.subgroups if part.required is not None)]


def preferring(demand: Demand, subgroup: str) -> Demand:
    """The demand if the level that this subgroup or the whole gang requires is a preference, or none."""
    if not subgroup:
        request = demand.gang.topology
        return _with_topology(demand, replace(request, required=None, preferred=request.required))
    part = next(each for each in demand.gang.subgroups if each.name == subgroup)
    preferred = part.preferred if part.segment else part.required
    return _with_subgroup(demand, replace(part, required=None, segment=0, preferred=preferred))


def preference(gang: Gang, subgroup: str) -> Action:
    """The action that `preferring` follows."""
    if not subgroup:
        return advice.PreferLevel(gang.topology.required or "")
    part = next(each for each in gang.subgroups if each.name == subgroup)
    kind = advice.RequireNoLevel if part.segment else advice.PreferLevel
    return kind(part.required or "", subgroup)


def _with_topology(demand: Demand, request: TopologyRequest) -> Demand:
    gang = demand.gang
    return replace(demand, gang=replace(gang, spec=replace(gang.spec, topology=request)))


def _with_subgroup(demand: Demand, changed: SubgroupSpec) -> Demand:
    gang = demand.gang
    subgroups = tuple(changed if each.name == changed.name else each for each in gang.subgroups)
    return replace(demand, gang=replace(gang, subgroups=subgroups))


def _wider(level: str, levels: Sequence[str]) -> Sequence[str]:
    """The next wider levels in turn."""
    return levels[: levels.index(level)][::-1]


# --- minimum and preemption ---------------------------------------------------------------------------------


def lower_minimum(session: Session, demand: Demand, fitting: Sequence[Pod], starts: Fits) -> Iterator[Action]:
    """The minimum that the gang reaches if these pods start."""
    gang = demand.gang
    if not fitting or not _may_lower(demand):
        return
    there = [*gang.counted, *fitting]
    by_role, around = Counter(pod.role for pod in there), ancestor_chains(gang.subgroups)
    by_part = Counter(name for pod in there for name in around.get(pod.subgroup, ()))
    roles = {each.name: by_role[each.name] for each in gang.roles if by_role[each.name] < each.min_member}
    parts = {each.name: by_part[each.name] for each in gang.subgroups if by_part[each.name] < each.min_member}
    is_lower = len(there) < gang.min_member and all((*roles.values(), *parts.values()))
    action = advice.LowerMinimum(len(there), roles, parts, how_to_lower_minimum(gang))
    found = _first_demand(session, gang, action) if is_lower else None
    if found is not None and starts(replace(found, batches=batches_of(gang, fitting, whole=True))):
        yield _with_fewest_minimums(session, gang, action, starts)


def _first_demand(session: Session, gang: Gang, minimum: advice.LowerMinimum) -> Demand | None:
    """What starts the gang as a whole with this minimum."""
    changed = _with_minimum(gang, minimum)
    found = demands_of(changed, session.records.of(gang)) if _is_consistent(changed) else ()
    return found[0] if not isinstance(found, Objection) and found and found[0].is_whole else None


def _is_consistent(gang: Gang) -> bool:
    """Whether no minimum is lower than those inside it together, and segments are whole."""
    if any(each.segment and each.min_member % each.segment for each in gang.subgroups):
        return False
    least = {"": gang.min_member, **{each.name: each.min_member for each in gang.subgroups}}
    inside = Counter({"": 0})
    for each in gang.subgroups:
        inside[each.parent] += each.min_member
    of_roles = sum(each.min_member for each in gang.roles)
    return of_roles <= gang.min_member and all(inside[name] <= least[name] for name in least)


def _with_fewest_minimums(
    session: Session, gang: Gang, enough: advice.LowerMinimum, starts: Fits
) -> advice.LowerMinimum:
    """The lower minimum without those of roles and subgroups that other members do without."""

    def with_parts(parts: Iterable[str]) -> advice.LowerMinimum:
        names = set(parts)
        roles = {name: count for name, count in enough.roles.items() if f"role {name}" in names}
        subgroups = {name: count for name, count in enough.subgroups.items() if f"subgroup {name}" in names}
        return replace(enough, roles=roles, subgroups=subgroups)

    def is_enough(parts: Sequence[str]) -> bool:
        found = _first_demand(session, gang, with_parts(parts)) if _MEMBERS in parts else None
        return found is not None and starts(found)

    lowered = [*map("role {}".format, enough.roles), *map("subgroup {}".format, enough.subgroups)]
    return with_parts(necessary([_MEMBERS, *lowered], is_enough))


def _may_lower(demand: Demand) -> bool:
    gang = demand.gang
    if gang.workload and gang.roles:
        return False  # the label has one number only
    may_change = gang.kind is not GangKind.POD and not gang.min_subgroups and not gang.reserves
    return may_change and demand.stage is not Stage.SURPLUS


def smallest_minimum(demand: Demand) -> Demand:
    """The demand with one required pod of each role and subgroup that has a minimum and no member yet."""
    gang, around = demand.gang, ancestor_chains(demand.gang.subgroups)
    lacking = {each.name for each in gang.roles if each.min_member} - {pod.role for pod in gang.counted}
    parts = {each.name for each in gang.subgroups if each.min_member}
    parts -= {name for pod in gang.counted for name in around.get(pod.subgroup, ())}
    batches = []
    for batch in demand.batches:
        roles = lacking & {pod.role for pod in batch.pods}
        inside = parts & set(around.get(batch.subgroup, ()))
        lacking -= roles
        parts -= inside
        batches.append(replace(batch, minimum=max(len(roles), min(1, len(inside)))))
    return replace(demand, batches=tuple(batches), choice=None)


def _with_minimum(gang: Gang, minimum: advice.LowerMinimum) -> Gang:
    roles, parts = minimum.roles, minimum.subgroups
    return replace(
        gang,
        min_member=minimum.members,
        roles=tuple(replace(each, min_member=roles.get(each.name, each.min_member)) for each in gang.roles),
        subgroups=tuple(
            replace(each, min_member=parts.get(each.name, each.min_member)) for each in gang.subgroups
        ),
    )


def preemptible(demand: Demand, fits: Fits) -> Iterator[Action]:
    """Let the gang be preemptible, so that guarantees do not limit it."""
    if not demand.gang.disruption.is_preemptible and fits(as_preemptible(demand)):
        yield advice.BePreemptible()


def as_preemptible(demand: Demand) -> Demand:
    """The demand if the gang is preemptible."""
    gang = demand.gang
    disruption = replace(gang.disruption, preemptible=None)
    return replace(demand, gang=replace(gang, spec=replace(gang.spec, disruption=disruption)))


# --- pods ---------------------------------------------------------------------------------------------------


def without_one_restriction(session: Session, demand: Demand, fits: Fits) -> Action | None:
    """Pods without one field that excludes nodes."""
    found = restrictions(session, demand)
    return next((removal([each]) for each in found if fits(unrestricted(session, demand, [each]))), None)


def without_restrictions_together(session: Session, demand: Demand, fits: Fits) -> Action | None:
    """Pods without several fields that exclude nodes, as few as necessary, if one is not enough."""

    def helps(removed: Sequence[Restriction]) -> bool:
        return len(removed) > 1 and fits(unrestricted(session, demand, removed))

    found = restrictions(session, demand)
    return removal(necessary(found, helps)) if helps(found) else None


def restrictions(session: Session, demand: Demand) -> list[Restriction]:
    """The fields and taints that may exclude nodes for pods of the demand."""
    shapes = [batch.pods[0].shape for batch in demand.batches]
    return [*fields_of(shapes), *_intolerable(session, shapes)]


def unrestricted(session: Session, demand: Demand, removed: Sequence[Restriction]) -> Demand:
    """The demand without these restrictions."""

    def change(shape: PodShape) -> PodShape:
        return without_restrictions(shape, removed)

    return _with_pods(demand, with_other_pods(session, demand.gang, change)) if removed else demand


def removal(removed: Sequence[Restriction]) -> Action:
    """The action that `unrestricted` follows."""
    return advice.ChangePods(
        removed=tuple(each.value for each in removed if isinstance(each, Field)),
        tolerated=tuple(each for each in removed if isinstance(each, Taint)),
    )


def _intolerable(session: Session, shapes: Sequence[PodShape]) -> list[Taint]:
    """Taints that some pod does not tolerate, those on most nodes first, without those of node states."""
    counts = Counter(
        taint
        for state in (session.nodes.values() if session.facts.any_taint else ())
        for taint in state.node.taints
        if taint.effect != TaintEffect.PREFER_NO_SCHEDULE and not taint.is_state
    )
    strict = [taint for taint in counts if not all(tolerates(shape.tolerations, taint) for shape in shapes)]
    return sorted(strict, key=lambda taint: (-counts[taint], taint.key, taint.value, taint.effect))[
        :TAINTS_MAX
    ]


def smaller_requests(session: Session, demand: Demand, fits: Fits) -> Iterator[Action]:
    """Pods that request at most what the largest node has, if some request more."""
    shapes = [batch.pods[0].shape for batch in demand.batches]
    most = largest(state.node.allocatable for state in session.nodes.values())
    above = {
        name: most.get(name, 0)
        for shape in shapes
        for name, amount in shape.requests.items()
        if amount > most.get(name, 0)
    }
    if not above or not all(above.values()) or any(map(needs_parts, shapes)):
        return

    def change(shape: PodShape) -> PodShape:
        return _requesting(shape, above)

    if fits(_with_pods(demand, with_other_pods(session, demand.gang, change))):
        yield advice.RequestLess(above)


def _requesting(shape: PodShape, most: Resources) -> PodShape:
    requests = {name: min(amount, most.get(name, amount)) for name, amount in shape.requests.items()}
    if requests == shape.requests:
        return shape
    return replace(shape, key=ShapeKey(f"{shape.key} at most {sorted(most.items())}"), requests=requests)


def _with_pods(demand: Demand, gang: Gang) -> Demand:
    """The demand for the same members of the changed gang, among which it may choose as before."""
    pods = {pod.uid: pod for pod in gang.members}

    def changed(some: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(pods.get(pod.uid, pod) for pod in some)

    batches = tuple(replace(batch, pods=changed(batch.pods)) for batch in demand.batches)
    choice = demand.choice and replace(demand.choice, members=changed(demand.choice.members))
    return replace(demand, gang=gang, batches=batches, choice=choice)
