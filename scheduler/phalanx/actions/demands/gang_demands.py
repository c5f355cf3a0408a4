"""Derive the demands of a gang: lost members, what its minimum lacks beside them, then its surplus."""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import REPLACE, START, Demand, MemberChoice, Stage, batches_of
from phalanx.actions.demands.member_units import (
    in_units,
    incomplete_units,
    surplus_in_units,
    without_parts_of_units,
)
from phalanx.framework.member_records import MemberRecord, no_record_of
from phalanx.framework.member_sets import first_sufficient
from phalanx.framework.member_units import in_whole_units
from phalanx.framework.minimum_members import (
    MissingMembers,
    first_members,
    incomplete_roles,
    missing_besides,
    placed_last,
    without_node,
)
from phalanx.framework.placeholders import placeholders
from phalanx.framework.vacancies import may_take, taking
from phalanx.model.dialects.known import how_to_lower_minimum
from phalanx.model.gangs import (
    Gang,
    ancestor_chains,
    complete_subgroups,
    kind_of,
    members_within,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
)
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import record_kinds
from phalanx.model.texts import that_wait


class _OuterSubgroups(Struct, frozen=True):
    """Names of outer subgroups: started ones first, then in the order of the PodGroup.

    If a gang needs all of its subgroups, all count as started and complete.
    """

    started: tuple[str, ...]
    """Subgroups with members that count."""

    complete: tuple[str, ...]
    """Subgroups whose minimum exists."""


def demands_of(
    gang: Gang, record: MemberRecord, can_run: Callable[[Pod], bool] = lambda pod: True
) -> tuple[Demand, ...] | Objection:
    """The demands for the minimum and the surplus; an Objection if members of the minimum do not exist.

    `record`: which places of members are free. A gang in which a recorded member counts needs repairs, then
    what its minimum lacks beside them. Any other gang needs its whole minimum; that is a repair as well if
    all of it takes the places of lost members. `can_run`: whether some node could take the pod. Members that
    no node can take are chosen last, the others in the order of the gang: by priority, index and creation. If
    only some subgroups must start together, the first complete ones do. Each other subgroup is placed whole
    later: for the minimum while fewer than minSubGroups have started, otherwise as surplus.
    """
    waiting, counted = _waiting(gang), gang.counted
    unfit = without_node(waiting, can_run)
    ready = in_whole_units(gang, placed_last(waiting, unfit), unfit)
    outer = _outer_subgroups(gang, ready, counted, unfit)
    demands = (
        _demands_of_running(gang, record, ready, outer, unfit)
        if record.is_running
        else _demands_of_start(gang, record, ready, outer, unfit)
    )
    if isinstance(demands, Objection):
        return demands
    wanted = surplus_in_units(gang, [demand for demand in demands if demand.batches])
    return (
        wanted
        or _incomplete_subgroup(gang, ready, counted)
        or _incomplete_role(gang, ready, counted)
        or incomplete_units(gang)
        or ()
    )


def _demands_of_start(
    gang: Gang,
    record: MemberRecord,
    ready: Sequence[Pod],
    outer: _OuterSubgroups,
    unfit: Collection[PodUid],
) -> list[Demand] | Objection:
    """The whole minimum, then the surplus."""
    counted = gang.counted
    again = [pod for pod in ready if pod.uid in record.repairs]
    names = _first_sufficient(gang, outer, [*(again or ready), *counted])
    inside = members_within(again or ready, gang.subgroups, names)
    missing = _missing(gang, names, counted)
    pool = [*inside, *placeholders(gang, inside)] if gang.reserves else inside
    chosen = first_sufficient(pool, missing, gang.subgroups)
    if all(pod.is_placeholder for pod in chosen):
        pool, chosen = inside, first_sufficient(inside, missing, gang.subgroups)
    stage = Stage.REPAIR if again and _take_places(chosen, record) else Stage.START
    if again and stage is Stage.START:
        return _demands_of_start(gang, no_record_of(gang), ready, outer, unfit)
    objection = _subgroups_missing(gang, outer, ready, counted) or _shortage(gang, chosen, missing)
    if objection:
        return objection
    choices = _subgroup_choices(gang, outer, names, again or ready, unfit)
    minimum = _start(gang, chosen, stage)
    ids = {pod.uid for pod in chosen}
    surplus = [pod for pod in members_within(ready, gang.subgroups, names) if pod.uid not in ids]
    late = [name for name in outer.complete if name not in names]
    return [
        _with_choice(minimum, again or ready if choices else pool, missing, choices, unfit),
        _surplus(gang, surplus),
        *(_subgroup(gang, name, ready, Stage.SURPLUS, unfit) for name in late),
    ]


def _take_places(pods: Sequence[Pod], record: MemberRecord) -> bool:
    """Whether all these members, and members to come, take places of lost or reserved ones."""
    kinds = record_kinds(pods)
    return bool(pods) and len(taking(pods, kinds, record.places)) == len(pods)


def _demands_of_running(
    gang: Gang,
    record: MemberRecord,
    ready: Sequence[Pod],
    outer: _OuterSubgroups,
    unfit: Collection[PodUid],
) -> list[Demand]:
    """Repairs, what the minimum lacks beside them, then the surplus."""
    names, counted = outer.started, gang.counted
    inside = members_within(ready, gang.subgroups, names)
    replacing = record.replacing(ready)
    missing = _missing(gang, names, counted)
    able = {pod.uid for pod in replacing}
    repairs = first_members([pod for pod in inside if pod.uid in able], missing, gang.subgroups)
    repaired = {pod.uid for pod in repairs}
    incomplete = incomplete_roles(gang, ready, [*counted, *repairs])
    others = [pod for pod in inside if pod.uid not in repaired and pod.role not in incomplete]
    growth = first_members(others, missing_besides(repairs, missing, gang.subgroups), gang.subgroups)
    grown = {pod.uid for pod in growth}
    late = [name for name in outer.complete if name not in names]
    late.sort(key=lambda name: not all(pod.uid in able for pod in _pods_of_subgroup(gang, name, ready)))
    needed = late[: max(0, gang.min_subgroups - len(names))]
    return [
        _repair(gang, repairs, inside, missing, record, unfit),
        *(_subgroup(gang, name, ready, Stage.REPAIR, unfit, able) for name in needed),
        _growth(gang, growth, record),
        _surplus(gang, [pod for pod in others if pod.uid not in grown]),
        *(_subgroup(gang, name, ready, Stage.SURPLUS, unfit) for name in late[len(needed) :]),
    ]


def with_all_choices(demand: Demand, record: MemberRecord) -> Demand:
    """The demand to start, with the choice among all members, those too that no node can take now."""
    found = demands_of(demand.gang, record) if demand.cause == START and not record.is_running else ()
    if isinstance(found, Objection) or not found or found[0].cause != START:
        return demand
    return found[0]


def start_demand(gang: Gang, names: Sequence[str], ready: Sequence[Pod]) -> Demand | None:
    """The demand to start with these outer subgroups; None if they are not enough.

    `ready`: the waiting members to choose from.
    """
    inside = members_within(ready, gang.subgroups, names)
    missing = _missing(gang, names, gang.counted)
    chosen = first_sufficient(inside, missing, gang.subgroups)
    if len(names) < gang.min_subgroups or _shortage(gang, chosen, missing) is not None:
        return None
    return _with_choice(_start(gang, chosen), inside, missing)


def minimums_demand(gang: Gang, names: Sequence[str], ready: Sequence[Pod]) -> Demand:
    """The demand for the minimums of these outer subgroups alone."""
    inside = members_within(ready, gang.subgroups, names)
    missing = MissingMembers(0, subgroups=_missing(gang, names, gang.counted).subgroups)
    chosen = first_sufficient(inside, missing, gang.subgroups)
    return _with_choice(_start(gang, chosen), inside, missing)


def _with_choice(
    demand: Demand,
    ready: Sequence[Pod],
    missing: MissingMembers,
    subgroups: tuple[str, ...] = (),
    unfit: Collection[PodUid] = (),
) -> Demand:
    """The demand with the choice among those of these members that can run; the same one if there is none.

    If the first sufficient set needs a member that cannot run, each one does. Members of one kind are
    interchangeable; with segments more of them may fit where fewer do not.
    """
    ready = without_parts_of_units(demand, ready)
    has_segments = any(part.segment for part in demand.gang.subgroups)
    if not has_segments and len({kind_of(pod) for pod in ready}) == 1:
        return demand
    members = tuple(pod for pod in ready if pod.uid not in unfit)
    is_unfit = any(pod.uid in unfit for batch in demand.batches for pod in batch.pods)
    if not subgroups and (is_unfit or len(members) == demand.count):
        return demand
    return replace(demand, choice=MemberChoice(members, missing, subgroups))


# --- choice of members and subgroups ------------------------------------------------------------------------


def _waiting(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.is_waiting and not pod.gated]


def _outer_subgroups(
    gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod], unfit: Collection[PodUid]
) -> _OuterSubgroups:
    """`unfit` members can run on no node. Subgroups that are complete only with such members are last."""
    outer = outer_subgroups(gang.subgroups)
    names = [subgroup.name for subgroup in gang.subgroups if not subgroup.parent]
    if not gang.min_subgroups:
        return _OuterSubgroups(started=tuple(names), complete=tuple(names))
    started = {outer.get(pod.subgroup) for pod in counted}
    complete = complete_subgroups([*counted, *ready], gang.subgroups)
    can_run = [pod for pod in ready if pod.uid not in unfit]
    first = complete_subgroups([*counted, *can_run], gang.subgroups) if unfit else complete
    ordered = sorted(names, key=lambda name: (name not in started, name not in first))
    return _OuterSubgroups(
        started=tuple(name for name in ordered if name in started),
        complete=tuple(name for name in ordered if name in complete),
    )


def _first_sufficient(gang: Gang, outer: _OuterSubgroups, members: Sequence[Pod]) -> tuple[str, ...]:
    """The first complete subgroups that are enough to start, at least all that have started."""
    started = sum(name in outer.started for name in outer.complete)
    for count in range(max(gang.min_subgroups, started), len(outer.complete)):
        first = outer.complete[:count]
        if gang.minimum.is_reached(members_within(members, gang.subgroups, first)):
            return first
    return outer.complete


def _subgroup_choices(
    gang: Gang,
    outer: _OuterSubgroups,
    first: Sequence[str],
    ready: Sequence[Pod],
    unfit: Collection[PodUid],
) -> tuple[str, ...]:
    """Started subgroups, then those that need the fewest pods, so that as many as possible fit.

    Only subgroups that are complete without unfit members; empty if the `first` ones are the only choice.
    These may include a started subgroup that only unfit members could complete.
    """
    counted = gang.counted
    can_run = [pod for pod in ready if pod.uid not in unfit]
    complete = complete_subgroups([*counted, *can_run], gang.subgroups)
    names = [name for name in outer.complete if name in complete]
    is_only = len(names) == gang.min_subgroups and set(names) == set(first)
    if not 0 < gang.min_subgroups <= len(names) or is_only:
        return ()
    needs = {name: _missing(gang, [name], counted).subgroups.get(name, 0) for name in names}
    return tuple(sorted(names, key=lambda name: (name not in outer.started, needs[name])))


def _missing(gang: Gang, names: Sequence[str], counted: Sequence[Pod]) -> MissingMembers:
    """The members that the gang lacks if it consists of these outer subgroups only."""
    outer = outer_subgroups(gang.subgroups)
    inside = members_within(counted, gang.subgroups, names)
    by_subgroup = missing_by_subgroup(inside, gang.subgroups)
    return MissingMembers(
        members=gang.min_member - len(inside),
        roles=missing_by_role(inside, gang.roles),
        subgroups={name: count for name, count in by_subgroup.items() if outer[name] in names},
    )


# --- missing members ----------------------------------------------------------------------------------------


def _subgroups_missing(
    gang: Gang, outer: _OuterSubgroups, ready: Sequence[Pod], counted: Sequence[Pod]
) -> Objection | None:
    """An Objection if too few subgroups are complete; it names the first incomplete one."""
    if len(outer.complete) >= gang.min_subgroups:
        return None
    verb = "is" if len(outer.complete) == 1 else "are"
    total = f"{len(outer.complete)} of {gang.min_subgroups} required subgroups {verb} complete"
    shortages = [shortage for _, shortage in _subgroup_shortages(gang, ready, counted)]
    return _members_missing("; ".join([total, *shortages[:1]]), "lower minSubGroups")


def _incomplete_subgroup(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> Objection | None:
    """The Objection to waiting pods without a demand: their subgroup is placed whole, and is incomplete."""
    shortages = [shortage for waiting, shortage in _subgroup_shortages(gang, ready, counted) if waiting]
    return _members_missing(shortages[0], "lower the minMember of the subgroup") if shortages else None


def _subgroup_shortages(
    gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]
) -> Iterator[tuple[int, str]]:
    """Each incomplete subgroup: the number of its waiting pods, and a text about its missing pods."""
    ancestors, needs = ancestor_chains(gang.subgroups), missing_by_subgroup(counted, gang.subgroups)
    for name in missing_by_subgroup([*counted, *ready], gang.subgroups):
        waiting = sum(name in ancestors.get(pod.subgroup, ()) for pod in ready)
        yield waiting, _needs_more(f"subgroup {name}", needs[name], waiting)


def _incomplete_role(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> Objection | None:
    """The Objection to waiting pods without a demand: their role starts whole, and is incomplete."""
    for name, needed in incomplete_roles(gang, ready, counted).items():
        present = sum(1 for pod in ready if pod.role == name)
        return _members_missing(
            _needs_more(f"role {name}{_of(gang)}", needed, present), how_to_lower_minimum(gang)
        )
    return None


def _of(gang: Gang) -> str:
    return f" of {gang.workload.partition('.')[0]} {gang}" if gang.workload else ""


def _shortage(gang: Gang, chosen: Sequence[Pod], needed: MissingMembers) -> Objection | None:
    """An Objection if the chosen pods do not reach a whole minimum."""
    how = how_to_lower_minimum(gang)
    of = _of(gang)
    for role, count in needed.roles.items():
        present = sum(1 for pod in chosen if pod.role == role)
        if present < count:
            text = _needs_more(f"role {role}{of}", count, present)
            return _members_missing(f"{text}{in_units(gang, role)}", how)
    ancestors = ancestor_chains(gang.subgroups)
    for name, count in needed.subgroups.items():
        present = sum(1 for pod in chosen if name in ancestors.get(pod.subgroup, ()))
        if present < count:
            return _members_missing(_needs_more(f"subgroup {name}", count, present), how)
    missing = needed.members - len(chosen)
    if missing > 0:
        existing = gang.min_member - missing
        message = f"{existing} of {gang.min_member} required pods{of} exist, {missing} missing"
        return _members_missing(message, how)
    return None


def _needs_more(part: str, needed: int, existing: int) -> str:
    missing = needed - existing
    waiting = f", {that_wait(existing)}" if existing else ""
    return f"{part} needs {missing} more pod{'' if missing == 1 else 's'}{waiting}"


def _members_missing(message: str, how_to_lower: str) -> Objection:
    return Objection(
        reason=Reason.MEMBERS_MISSING,
        message=message,
        next_step=f"Wait for the controller to create the missing pods, or {how_to_lower}",
    )


# --- the demands --------------------------------------------------------------------------------------------


def _start(gang: Gang, chosen: Sequence[Pod], stage: Stage = Stage.START) -> Demand:
    return Demand(gang, stage, START, batches_of(gang, chosen, whole=True))


def _repair(
    gang: Gang,
    repairs: Sequence[Pod],
    inside: Sequence[Pod],
    missing: MissingMembers,
    record: MemberRecord,
    unfit: Collection[PodUid],
) -> Demand:
    """The demand for these members; others that may take the same places are a choice."""
    demand = Demand(gang, Stage.REPAIR, REPLACE, batches_of(gang, repairs, whole=False))
    places = record.places
    others = [pod for pod in inside if any(may_take(gang.record_kinds[pod.uid], place) for place in places)]
    most = replace(missing, members=min(missing.members, len(repairs)))
    found = _with_choice(demand, others, most, unfit=unfit)
    return found if found.choice is None else replace(found, choice=replace(found.choice, places=places))


def _growth(gang: Gang, pods: Sequence[Pod], record: MemberRecord) -> Demand:
    """The demand for what the minimum of a running gang lacks that it never had: a start of these pods."""
    is_launch = (
        len(pods) == 1
        and bool(gang.workload)
        and not record.record.has_launched
        and not any("/" in name for name, _ in gang.record_kinds[pods[0].uid][2])
    )
    return _start(gang, pods, Stage.LAUNCH if is_launch else Stage.START)


def _pods_of_subgroup(gang: Gang, name: str, ready: Sequence[Pod]) -> list[Pod]:
    """The whole minimum of an outer subgroup and of the subgroups inside it."""
    outer = outer_subgroups(gang.subgroups)
    pods = [pod for pod in ready if outer.get(pod.subgroup) == name]
    return first_sufficient(pods, _minimums_of(gang, name), gang.subgroups)


def _minimums_of(gang: Gang, name: str) -> MissingMembers:
    outer, minimums = outer_subgroups(gang.subgroups), missing_by_subgroup((), gang.subgroups)
    own = {inner: count for inner, count in minimums.items() if outer[inner] == name}
    return MissingMembers(0, subgroups=own)


def _subgroup(
    gang: Gang,
    name: str,
    ready: Sequence[Pod],
    stage: Stage,
    unfit: Collection[PodUid],
    able: Collection[PodUid] = (),
) -> Demand:
    """The demand for a whole outer subgroup. It is a repair only if all its pods are `able` to be one."""
    chosen = _pods_of_subgroup(gang, name, ready)
    if stage is Stage.REPAIR and not all(pod.uid in able for pod in chosen):
        stage = Stage.START
    cause = {Stage.REPAIR: REPLACE, Stage.START: START}.get(stage, "surplus")
    demand = Demand(gang, stage, cause, batches_of(gang, chosen, whole=True), outer_subgroup=name)
    if stage is Stage.REPAIR:
        return demand
    outer = outer_subgroups(gang.subgroups)
    pods = [pod for pod in ready if outer.get(pod.subgroup) == name]
    return _with_choice(demand, pods, _minimums_of(gang, name), unfit=unfit)


def _surplus(gang: Gang, pods: Sequence[Pod]) -> Demand:
    return Demand(gang, Stage.SURPLUS, "surplus", batches_of(gang, pods, whole=False))
