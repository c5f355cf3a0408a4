"""Derive the demands of a gang: first its missing minimum, then its surplus."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import START, Demand, Stage, batches_of
from phalanx.framework.placeholders import placeholders
from phalanx.model.gangs import (
    Gang,
    ancestor_chains,
    complete_subgroups,
    members_within,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
)
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason


class _Missing(Struct, frozen=True):
    """The number of missing members: in total, and by the roles and subgroups that lack some."""

    members: int
    roles: dict[str, int]
    subgroups: dict[str, int]


class _OuterSubgroups(Struct, frozen=True):
    """Names of outer subgroups: started ones first, then in the order of the PodGroup.

    If a gang needs all of its subgroups, all count as started and complete.
    """

    started: tuple[str, ...]
    """Subgroups with members that count."""

    complete: tuple[str, ...]
    """Subgroups whose minimum exists."""


def demands_of(gang: Gang) -> tuple[Demand, ...] | Objection:
    """The demands for the minimum and the surplus; an Objection if members of the minimum do not exist.

    Members are chosen in the order of the gang: by priority, index and creation. If only some subgroups
    must start together, the first complete ones do. Each other subgroup is placed whole later: as a repair
    while fewer than minSubGroups have started, otherwise as surplus.
    """
    ready, counted = _ready(gang), _counted(gang)
    started = gang.started or gang.minimum.has_started_with(counted)
    outer = _outer_subgroups(gang, ready, counted)
    names = outer.started if started else _first_sufficient(gang, outer, [*ready, *counted])
    inside = members_within(ready, gang.subgroups, names)
    missing = _missing(gang, names, counted)
    chosen = _choose(gang, inside, missing)
    if gang.reserves and not started:
        chosen = _with_placeholders(gang, inside, missing) or chosen
    if not started:
        objection = _subgroups_missing(gang, outer, ready, counted) or _shortage(gang, chosen, missing)
        if objection:
            return objection
    ids = {pod.uid for pod in chosen}
    surplus = [pod for pod in inside if pod.uid not in ids]
    late = [name for name in outer.complete if name not in names]
    lost = max(0, gang.min_subgroups - len(names)) if started else 0
    is_choice = 0 < gang.min_subgroups < len(outer.complete) and not started
    choices = _subgroup_choices(gang, outer, counted) if is_choice else ()
    demands = (
        _minimum(gang, chosen, started=started, choices=choices),
        *(_subgroup(gang, name, ready, Stage.REPAIR) for name in late[:lost]),
        _surplus(gang, surplus),
        *(_subgroup(gang, name, ready, Stage.SURPLUS) for name in late[lost:]),
    )
    demands = tuple(demand for demand in demands if demand.batches)
    return demands or _incomplete_subgroup(gang, ready, counted) or ()


def start_demand(gang: Gang, names: Sequence[str]) -> tuple[Demand, bool]:
    """The demand to start with these outer subgroups, and whether they are enough to start.

    If they are not enough, the demand holds only their own minimums.
    """
    inside = members_within(_ready(gang), gang.subgroups, names)
    missing = _missing(gang, names, _counted(gang))
    chosen = _choose(gang, inside, missing)
    is_enough = len(names) >= gang.min_subgroups and _shortage(gang, chosen, missing) is None
    if not is_enough:
        chosen = _choose(gang, inside, replace(missing, members=0, roles={}))
    return _minimum(gang, chosen, started=False), is_enough


# --- choice of members and subgroups ------------------------------------------------------------------------


def _ready(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.is_waiting and not pod.gated]


def _counted(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.counts_for_gang]


def _with_placeholders(gang: Gang, ready: Sequence[Pod], missing: _Missing) -> list[Pod]:
    """Members and placeholders for future members to start with; empty if all are placeholders."""
    chosen = _choose(gang, [*ready, *placeholders(gang, ready)], missing)
    return [] if all(pod.is_placeholder for pod in chosen) else chosen


def _outer_subgroups(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> _OuterSubgroups:
    outer = outer_subgroups(gang.subgroups)
    names = [subgroup.name for subgroup in gang.subgroups if not subgroup.parent]
    if not gang.min_subgroups:
        return _OuterSubgroups(started=tuple(names), complete=tuple(names))
    started = {outer.get(pod.subgroup) for pod in counted}
    complete = complete_subgroups([*counted, *ready], gang.subgroups)
    ordered = sorted(names, key=lambda name: name not in started)
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


def _subgroup_choices(gang: Gang, outer: _OuterSubgroups, counted: Sequence[Pod]) -> tuple[str, ...]:
    """Started subgroups, then those that need the fewest pods, so that as many as possible fit."""
    needs = {name: _missing(gang, [name], counted).subgroups.get(name, 0) for name in outer.complete}
    return tuple(sorted(outer.complete, key=lambda name: (name not in outer.started, needs[name])))


def _missing(gang: Gang, names: Sequence[str], counted: Sequence[Pod]) -> _Missing:
    """The members that the gang lacks if it consists of these outer subgroups only."""
    outer = outer_subgroups(gang.subgroups)
    inside = members_within(counted, gang.subgroups, names)
    by_subgroup = missing_by_subgroup(inside, gang.subgroups)
    return _Missing(
        members=gang.min_member - len(inside),
        roles=missing_by_role(inside, gang.roles),
        subgroups={name: count for name, count in by_subgroup.items() if outer[name] in names},
    )


def _choose(gang: Gang, ready: Sequence[Pod], missing: _Missing) -> list[Pod]:
    """The pods that roles and subgroups need, then the first others up to the minimum of the gang."""
    roles, subgroups = dict(missing.roles), dict(missing.subgroups)
    ancestors = ancestor_chains(gang.subgroups)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in ready:
        lacking = [name for name in ancestors.get(pod.subgroup, ()) if subgroups.get(name, 0) > 0]
        if roles.get(pod.role, 0) > 0 or lacking:
            roles[pod.role] = roles.get(pod.role, 0) - 1
            for name in ancestors.get(pod.subgroup, ()):
                subgroups[name] = subgroups.get(name, 0) - 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others[: max(0, missing.members - len(first))]]


# --- missing members ----------------------------------------------------------------------------------------


def _subgroups_missing(
    gang: Gang, outer: _OuterSubgroups, ready: Sequence[Pod], counted: Sequence[Pod]
) -> Objection | None:
    """An Objection if too few subgroups are complete; it names the first incomplete one."""
    if len(outer.complete) >= gang.min_subgroups:
        return None
    total = f"{len(outer.complete)} of {gang.min_subgroups} required subgroups are complete"
    shortages = [shortage for _, shortage in _subgroup_shortages(gang, ready, counted)]
    return _members_missing("; ".join([total, *shortages[:1]]), "minSubGroups")


def _incomplete_subgroup(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> Objection | None:
    """The Objection to waiting pods without a demand: their subgroup is placed whole, and is incomplete."""
    shortages = [shortage for waiting, shortage in _subgroup_shortages(gang, ready, counted) if waiting]
    return _members_missing(shortages[0], "the minMember of the subgroup") if shortages else None


def _subgroup_shortages(
    gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]
) -> Iterator[tuple[int, str]]:
    """Each incomplete subgroup: the number of its waiting pods, and a text about its missing pods."""
    ancestors, needs = ancestor_chains(gang.subgroups), missing_by_subgroup(counted, gang.subgroups)
    for name in missing_by_subgroup([*counted, *ready], gang.subgroups):
        waiting = sum(name in ancestors.get(pod.subgroup, ()) for pod in ready)
        yield waiting, _needs_more(f"subgroup {name}", needs[name], waiting)


def _shortage(gang: Gang, chosen: Sequence[Pod], needed: _Missing) -> Objection | None:
    """An Objection if the chosen pods do not reach a whole minimum."""
    for role, count in needed.roles.items():
        present = sum(1 for pod in chosen if pod.role == role)
        if present < count:
            return _members_missing(_needs_more(f"role {role}", count, present))
    ancestors = ancestor_chains(gang.subgroups)
    for name, count in needed.subgroups.items():
        present = sum(1 for pod in chosen if name in ancestors.get(pod.subgroup, ()))
        if present < count:
            return _members_missing(_needs_more(f"subgroup {name}", count, present))
    missing = needed.members - len(chosen)
    if missing > 0:
        existing = gang.min_member - missing
        return _members_missing(f"{existing} of {gang.min_member} required pods exist, {missing} missing")
    return None


def _needs_more(part: str, needed: int, existing: int) -> str:
    return f"{part} needs {needed} more pod{'' if needed == 1 else 's'}, {existing} exist"


def _members_missing(message: str, lower: str = "minMember") -> Objection:
    return Objection(
        reason=Reason.MEMBERS_MISSING,
        message=message,
        next_step=f"Wait for the controller to create the missing pods, or lower {lower}",
    )


# --- the demands --------------------------------------------------------------------------------------------


def _minimum(gang: Gang, chosen: Sequence[Pod], *, started: bool, choices: tuple[str, ...] = ()) -> Demand:
    if started:
        return Demand(gang, Stage.REPAIR, "replace", batches_of(chosen, whole=False))
    stage = Stage.REPAIR if gang.active else Stage.START
    return Demand(gang, stage, START, batches_of(chosen, whole=True), subgroup_choices=choices)


def _subgroup(gang: Gang, name: str, ready: Sequence[Pod], stage: Stage) -> Demand:
    """The whole minimum of an outer subgroup and of the subgroups inside it."""
    outer = outer_subgroups(gang.subgroups)
    pods = [pod for pod in ready if outer.get(pod.subgroup) == name]
    minimums = missing_by_subgroup((), gang.subgroups)
    own = {inner: count for inner, count in minimums.items() if outer[inner] == name}
    chosen = _choose(gang, pods, _Missing(members=0, roles={}, subgroups=own))
    cause = "replace" if stage is Stage.REPAIR else "surplus"
    return Demand(gang, stage, cause, batches_of(chosen, whole=True), outer_subgroup=name)


def _surplus(gang: Gang, pods: Sequence[Pod]) -> Demand:
    return Demand(gang, Stage.SURPLUS, "surplus", batches_of(pods, whole=False))
