"""What a gang needs now: the members of its minimum that are missing, and the surplus beyond it."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.placeholders import placeholders
from phalanx.framework.statement import total_requests
from phalanx.model.gangs import (
    Gang,
    ancestor_chains,
    complete_subgroups,
    members_within,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
)
from phalanx.model.pods import Pod, plain
from phalanx.model.reasons import Objection, Reason

START: Final = "start"
"""The cause of a placement that lets a gang start, anew too."""


class Stage(IntEnum):
    """What goes first among gangs of equal rank.

    REPAIR: members that a gang lost, or that are missing to one which is partly bound. START: a whole
    minimum. SURPLUS: members beyond the minimum.
    """

    REPAIR = 0
    START = 1
    SURPLUS = 2


class Batch(Struct, frozen=True):
    """Pods of one shape and subgroup, in the order in which they get nodes. At least `minimum` are placed."""

    name: str
    pods: tuple[Pod, ...]
    minimum: int

    @property
    def subgroup(self) -> str:
        """The subgroup that the pods name; empty for none."""
        return self.pods[0].subgroup


class Demand(Struct, frozen=True):
    """Pods of one gang that are placed together. `cause` goes into the placement.

    `part`: the outer subgroup that it is, where that comes whole after those with which the gang started.
    `candidates`: the outer subgroups of which others may start in place of the first ones, in the order in
    which to try them.
    """

    gang: Gang
    stage: Stage
    cause: str
    batches: tuple[Batch, ...]
    part: str = ""
    candidates: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many pods it would place at most."""
        return sum(len(batch.pods) for batch in self.batches)

    @property
    def is_whole(self) -> bool:
        """Whether all of its pods are placed or none."""
        return all(batch.minimum == len(batch.pods) for batch in self.batches)


class Needed(Struct, frozen=True):
    """How many members are lacking: in all, and by name of the roles and subgroups that lack some."""

    members: int
    roles: dict[str, int]
    subgroups: dict[str, int]


class _Parts(Struct, frozen=True):
    """Outer subgroups by name. `begun` have members that count, `complete` could have their minimum now.

    Those that have begun come first, then the order of the PodGroup counts. Of a gang that needs them all,
    all are begun and complete.
    """

    begun: tuple[str, ...]
    complete: tuple[str, ...]


def demands_of(gang: Gang) -> tuple[Demand, ...] | Objection:
    """Its minimum before its surplus; a Problem when members are missing to a whole minimum.

    Members are chosen in the order in which the gang lists them: by priority, index, creation. Where only
    some subgroups must start together, the first that are complete do; each other one then comes whole: as
    a repair while fewer than so many have begun, else as surplus.
    """
    ready, counted = _ready(gang), _counted(gang)
    started = gang.started or gang.minimum.has_started_with(counted)
    parts = _parts(gang, ready, counted)
    names = parts.begun if started else _enough(gang, parts, [*ready, *counted])
    inside = members_within(ready, gang.subgroups, names)
    needed = _needed(gang, names, counted)
    chosen = _choose(gang, inside, needed)
    if gang.reserves and not started:
        chosen = _with_reserved(gang, inside, needed) or chosen
    if not started:
        problem = _parts_missing(gang, parts, ready, counted) or _shortage(gang, chosen, needed)
        if problem:
            return problem
    ids = {pod.uid for pod in chosen}
    surplus = [pod for pod in inside if pod.uid not in ids]
    late = [name for name in parts.complete if name not in names]
    lost = max(0, gang.min_subgroups - len(names)) if started else 0
    is_choice = 0 < gang.min_subgroups < len(parts.complete) and not started
    others = _candidates(gang, parts, counted) if is_choice else ()
    demands = (
        _minimum(gang, chosen, started=started, candidates=others),
        *(_part(gang, name, ready, Stage.REPAIR) for name in late[:lost]),
        _surplus(gang, surplus),
        *(_part(gang, name, ready, Stage.SURPLUS) for name in late[lost:]),
    )
    demands = tuple(demand for demand in demands if demand.batches)
    return demands or _stranded(gang, ready, counted) or ()


def _with_reserved(gang: Gang, ready: Sequence[Pod], needed: Needed) -> list[Pod]:
    """The members to start with, and stand-ins for those that do not exist yet; none with nobody to bind."""
    chosen = _choose(gang, [*ready, *placeholders(gang, ready)], needed)
    return [] if all(pod.is_placeholder for pod in chosen) else chosen


def _candidates(gang: Gang, parts: _Parts, counted: Sequence[Pod]) -> tuple[str, ...]:
    """Those that have begun, then those that need the fewest pods: so the most of them find room."""
    needs = {name: _needed(gang, [name], counted).subgroups.get(name, 0) for name in parts.complete}
    return tuple(sorted(parts.complete, key=lambda name: (name not in parts.begun, needs[name])))


def start_demand(gang: Gang, names: Sequence[str]) -> tuple[Demand, bool]:
    """What it takes to start with these outer subgroups, and whether they are enough to start with.

    While they are not, no more than their own minimums is asked for.
    """
    inside = members_within(_ready(gang), gang.subgroups, names)
    needed = _needed(gang, names, _counted(gang))
    chosen = _choose(gang, inside, needed)
    is_enough = len(names) >= gang.min_subgroups and _shortage(gang, chosen, needed) is None
    if not is_enough:
        chosen = _choose(gang, inside, replace(needed, members=0, roles={}))
    return _minimum(gang, chosen, started=False), is_enough


def has_affinity_terms(demand: Demand) -> bool:
    """Whether pods of it must be near other pods or apart from them, or others from them."""
    return any(batch.pods[0].shape.company is not None for batch in demand.batches)


def without_affinity_terms(batch: Batch) -> Batch:
    """The same pods, as if they neither asked for company nor were anybody's; itself where that is so."""
    if batch.pods[0].shape.company is None:
        return batch
    shape = plain(batch.pods[0].shape)
    return replace(batch, pods=tuple(replace(pod, shape=shape) for pod in batch.pods))


def remaining_demand(demand: Demand, placed: Iterable[Pod]) -> Demand:
    """The rest of a demand of which these pods were placed; any further pod would help."""
    gone = {pod.uid for pod in placed}
    rest = [pod for batch in demand.batches for pod in batch.pods if pod.uid not in gone]
    return Demand(
        gang=demand.gang, stage=demand.stage, cause=demand.cause, batches=batches_of(rest, whole=False)
    )


def _ready(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.is_waiting and not pod.gated]


def _counted(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.counts_for_gang]


def _parts(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> _Parts:
    outer = outer_subgroups(gang.subgroups)
    names = [part.name for part in gang.subgroups if not part.parent]
    if not gang.min_subgroups:
        return _Parts(begun=tuple(names), complete=tuple(names))
    there = {outer.get(pod.subgroup) for pod in counted}
    whole = complete_subgroups([*counted, *ready], gang.subgroups)
    ordered = sorted(names, key=lambda name: name not in there)
    return _Parts(
        begun=tuple(name for name in ordered if name in there),
        complete=tuple(name for name in ordered if name in whole),
    )


def _enough(gang: Gang, parts: _Parts, members: Sequence[Pod]) -> tuple[str, ...]:
    """The first complete subgroups that are enough to start with, at least all that have begun."""
    begun = sum(name in parts.begun for name in parts.complete)
    for count in range(max(gang.min_subgroups, begun), len(parts.complete)):
        first = parts.complete[:count]
        if gang.minimum.is_reached(members_within(members, gang.subgroups, first)):
            return first
    return parts.complete


def _needed(gang: Gang, names: Sequence[str], counted: Sequence[Pod]) -> Needed:
    """What the gang lacks when these outer subgroups, and no others, are its own."""
    outer = outer_subgroups(gang.subgroups)
    inside = members_within(counted, gang.subgroups, names)
    lacking = missing_by_subgroup(inside, gang.subgroups)
    return Needed(
        members=gang.min_member - len(inside),
        roles=missing_by_role(inside, gang.roles),
        subgroups={name: count for name, count in lacking.items() if outer[name] in names},
    )


def _choose(gang: Gang, ready: Sequence[Pod], needed: Needed) -> list[Pod]:
    """Those that the minimums of roles and subgroups need, then the first others to the gang's minimum."""
    roles, subgroups = dict(needed.roles), dict(needed.subgroups)
    around = ancestor_chains(gang.subgroups)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in ready:
        lacking = [name for name in around.get(pod.subgroup, ()) if subgroups.get(name, 0) > 0]
        if roles.get(pod.role, 0) > 0 or lacking:
            roles[pod.role] = roles.get(pod.role, 0) - 1
            for name in around.get(pod.subgroup, ()):
                subgroups[name] = subgroups.get(name, 0) - 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others[: max(0, needed.members - len(first))]]


def _parts_missing(
    gang: Gang, parts: _Parts, ready: Sequence[Pod], counted: Sequence[Pod]
) -> Objection | None:
    """Whether too few subgroups have their members, and what the first other one lacks."""
    if len(parts.complete) >= gang.min_subgroups:
        return None
    of_all = f"{len(parts.complete)} of at least {gang.min_subgroups} subgroups have their members"
    lacks = [lack for _, lack in _lacks(gang, ready, counted)]
    return _members_missing("; ".join([of_all, *lacks[:1]]), "minSubGroups")


def _stranded(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> Objection | None:
    """Why pods wait that nothing demands: their subgroup comes whole, and lacks members."""
    lacks = [lack for waiting, lack in _lacks(gang, ready, counted) if waiting]
    return _members_missing(lacks[0], "the minMember of the subgroup") if lacks else None


def _lacks(gang: Gang, ready: Sequence[Pod], counted: Sequence[Pod]) -> Iterator[tuple[int, str]]:
    """Each subgroup whose minimum does not exist: how many of its pods wait, and what it lacks, in words."""
    around, needs = ancestor_chains(gang.subgroups), missing_by_subgroup(counted, gang.subgroups)
    for name in missing_by_subgroup([*counted, *ready], gang.subgroups):
        waiting = sum(name in around.get(pod.subgroup, ()) for pod in ready)
        yield waiting, f"subgroup {name} needs {needs[name]} more, and {waiting} wait"


def _shortage(gang: Gang, chosen: Sequence[Pod], needed: Needed) -> Objection | None:
    """What is missing to a whole minimum."""
    for role, count in needed.roles.items():
        present = sum(1 for pod in chosen if pod.role == role)
        if present < count:
            return _members_missing(f"role {role} needs {count} more, and {present} wait")
    around = ancestor_chains(gang.subgroups)
    for name, count in needed.subgroups.items():
        present = sum(1 for pod in chosen if name in around.get(pod.subgroup, ()))
        if present < count:
            return _members_missing(f"subgroup {name} needs {count} more, and {present} wait")
    missing = needed.members - len(chosen)
    if missing > 0:
        present, verb = gang.min_member - missing, "is" if missing == 1 else "are"
        return _members_missing(
            f"{present} of at least {gang.min_member} members exist, {missing} {verb} missing"
        )
    return None


def _members_missing(message: str, lower: str = "minMember") -> Objection:
    return Objection(
        reason=Reason.MEMBERS_MISSING,
        message=message,
        next_step=f"Wait for the controller to create the other pods, or lower {lower}",
    )


def _minimum(gang: Gang, chosen: Sequence[Pod], *, started: bool, candidates: tuple[str, ...] = ()) -> Demand:
    if started:
        return Demand(gang, Stage.REPAIR, "replace", batches_of(chosen, whole=False))
    stage = Stage.REPAIR if gang.active else Stage.START
    return Demand(gang, stage, START, batches_of(chosen, whole=True), candidates=candidates)


def _part(gang: Gang, name: str, ready: Sequence[Pod], stage: Stage) -> Demand:
    """The minimum of an outer subgroup, and of those inside it, whole."""
    outer = outer_subgroups(gang.subgroups)
    pods = [pod for pod in ready if outer.get(pod.subgroup) == name]
    lacking = missing_by_subgroup((), gang.subgroups)
    own = {inner: count for inner, count in lacking.items() if outer[inner] == name}
    chosen = _choose(gang, pods, Needed(members=0, roles={}, subgroups=own))
    cause = "replace" if stage is Stage.REPAIR else "surplus"
    return Demand(gang, stage, cause, batches_of(chosen, whole=True), part=name)


def _surplus(gang: Gang, pods: Sequence[Pod]) -> Demand:
    return Demand(gang, Stage.SURPLUS, "surplus", batches_of(pods, whole=False))


def batches_of(pods: Sequence[Pod], *, whole: bool) -> tuple[Batch, ...]:
    """Group by subgroup and shape, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((pod.subgroup, pod.shape.key), []).append(pod)
    return tuple(
        Batch(name=_name(group), pods=tuple(group), minimum=len(group) if whole else 0)
        for group in groups.values()
    )


def _name(pods: Sequence[Pod]) -> str:
    """The roles of these pods, or else their subgroup, for messages."""
    roles = dict.fromkeys(pod.role for pod in pods if pod.role)
    return "+".join(roles) or pods[0].subgroup or "pod"


def beneficiary_of(demand: Demand) -> Beneficiary:
    """For whom room is made, and what it asks for."""
    asked = total_requests([pod for batch in demand.batches for pod in batch.pods])
    return Beneficiary(demand.gang, asked, tuple(batch.pods[0] for batch in demand.batches))
