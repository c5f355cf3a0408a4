"""Create placeholder pods for members that do not exist yet. Capacity is held for them; they are never bound.

A placeholder has the shape of a lost member or, if the PodGroup reserves capacity, of a role. The shape of a
role is that of its existing members, else that of its declared requests. Placeholders have no affinity terms:
these count when the pods exist. Those of lost members get devices for claims like those of the members.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.gangs import (
    Gang,
    MemberClaims,
    MemberCount,
    ancestor_chains,
    complete_subgroups,
    kind_of,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
)
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, without_affinity_state

Vacancy = tuple[str, str]
"""The role and the subgroup that lack a member; an empty name stands for any."""


def placeholders(gang: Gang, there: Sequence[Pod], had: Sequence[MemberCount] = ()) -> list[Pod]:
    """One placeholder for each member that the minimum lacks besides the pods that are `there`.

    `had` is the composition of the gang when it was complete. There are no placeholders for members of
    unknown shape, and at most PLACEHOLDERS_MAX.
    """
    found = missing_members(gang, there, had, {})
    return [placeholder(gang, str(index), part) for index, part in enumerate(found)]


def missing_members(
    gang: Gang, there: Sequence[Pod], had: Sequence[MemberCount], claims: Mapping[PodUid, MemberClaims]
) -> list[MemberCount]:
    """The kind of each member that the minimum lacks: see `placeholders`. `claims`: those of pods `there`."""
    if gang.minimum.is_reached(there):
        return []
    vacancies = _vacancies(gang, had, there)
    total = min(PLACEHOLDERS_MAX, max(gang.min_member - len(there), len(vacancies)))
    vacancies += [("", "")] * (total - len(vacancies))
    lost = [*_lost(had, there, claims), *(_declared(gang, there, total) if gang.reserves else ())]
    around = ancestor_chains(gang.subgroups)
    found = (_take(lost, had, vacancy, around) for vacancy in vacancies)
    return [part for part in found if part is not None]


def _vacancies(gang: Gang, had: Sequence[MemberCount], there: Sequence[Pod]) -> list[Vacancy]:
    """The vacancies of subgroups, the innermost first; of roles if the gang has no subgroups.

    If only some subgroups must start together, only the missing number of subgroups that had started have
    vacancies.
    """
    if not gang.subgroups:
        by_role = missing_by_role(there, gang.roles)
        vacancies = ((role, "") for role, count in by_role.items() for _ in range(count))
        return list(islice(vacancies, PLACEHOLDERS_MAX))
    around = ancestor_chains(gang.subgroups)
    lacking = missing_by_subgroup(there, gang.subgroups)
    if gang.min_subgroups:
        outer, whole = outer_subgroups(gang.subgroups), complete_subgroups(there, gang.subgroups)
        started = [outer[part.subgroup] for part in had if part.subgroup in outer]
        missing = max(0, gang.min_subgroups - len(whole))
        lost = [name for name in dict.fromkeys(started) if name not in whole][:missing]
        lacking = {name: count for name, count in lacking.items() if outer[name] in lost}
    found: list[Vacancy] = []
    for name in sorted(lacking, key=lambda name: (-len(around[name]), name)):
        inside = sum(name in around[vacancy] for _, vacancy in found)
        found += [("", name)] * min(PLACEHOLDERS_MAX - len(found), max(0, lacking[name] - inside))
    return found


def _lost(
    had: Sequence[MemberCount], there: Collection[Pod], claims: Mapping[PodUid, MemberClaims]
) -> list[MemberCount]:
    """The kinds of the lost members."""
    present = Counter((kind_of(pod), claims.get(pod.uid)) for pod in there)
    kinds = [((part.role, part.subgroup, part.shape.key), part.claims) for part in had]
    gone = [(part, part.count - present[kind]) for part, kind in zip(had, kinds, strict=True)]
    lost = [part for part, count in gone for _ in range(count)]
    for pod in there:
        # The shape of a pod that waits says what it needs of devices, that of a member with a node does not.
        key = (pod.role, pod.subgroup, claims.get(pod.uid) if pod.is_waiting else None)
        same = (part for part in lost if (part.role, part.subgroup, part.claims) == key)
        found = next(same, None) if key[2] is not None else None
        if found is not None:
            lost.remove(found)
    return lost


def _declared(gang: Gang, there: Sequence[Pod], most: int) -> list[MemberCount]:
    """The kinds of declared members that do not exist, in the order of the roles."""
    present = Counter(pod.role for pod in there)
    shapes = {pod.role: without_affinity_state(pod.shape) for pod in reversed(there)}
    found: list[MemberCount] = []
    for role in gang.roles:
        if role.shape is not None:
            part = MemberCount(role=role.name, shape=shapes.get(role.name, role.shape), count=1)
            found += [part] * min(most, role.count - present[role.name])
    return found


def _take(
    lost: list[MemberCount],
    usual: Sequence[MemberCount],
    vacancy: Vacancy,
    around: Mapping[str, tuple[str, ...]],
) -> MemberCount | None:
    """The kind of a lost member that fills the vacancy, else the usual kind."""
    matches = _matching(vacancy, around)
    for index, part in enumerate(lost):
        if matches(part):
            return lost.pop(index)
    return next(filter(matches, usual), usual[0] if usual else None)


def _matching(vacancy: Vacancy, around: Mapping[str, tuple[str, ...]]) -> Callable[[MemberCount], bool]:
    role, subgroup = vacancy
    return lambda part: (
        role in ("", part.role) and (not subgroup or subgroup in around.get(part.subgroup, ()))
    )


def placeholder(gang: Gang, name: str, part: MemberCount) -> Pod:
    """A placeholder for one member of this kind. `name` distinguishes it from others of the gang."""
    return Pod(
        uid=PodUid(f"placeholder:{gang.id}:{name}"),
        namespace=gang.namespace,
        name=f"{gang.name}-placeholder-{name}",
        shape=part.shape,
        scheduler_name=gang.members[0].scheduler_name,
        created=gang.created,
        role=part.role,
        subgroup=part.subgroup,
        charges=part.charges,
        is_placeholder=True,
    )
