"""Stand-ins for members that do not exist yet: pods of the same shape, for which room is kept, never bound.

A stand-in is like a member that was lost or, where the PodGroup reserves, like what a role declares; those of
the role that exist tell more of its shape than the declared requests. Stand-ins ask for no company: terms of
pod affinity are looked at when the pods come.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.gangs import (
    Gang,
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

Wish = tuple[str, str]
"""The role and the subgroup of which a member is lacking; empty where any would do."""


def placeholders(gang: Gang, there: Sequence[Pod], had: Sequence[MemberCount] = ()) -> list[Pod]:
    """One for each member that the gang lacks to its minimum beyond those that are there.

    `had`: what the gang consisted of when it was whole, or consists of. What nobody knows the shape of is
    left out, and what is more than PLACEHOLDERS_MAX.
    """
    if gang.minimum.is_reached(there):
        return []
    wishes = _wishes(gang, had, there)
    total = min(PLACEHOLDERS_MAX, max(gang.min_member - len(there), len(wishes)))
    wishes += [("", "")] * (total - len(wishes))
    lost = [*_lost(had, there), *(_declared(gang, there, total) if gang.reserves else ())]
    around = ancestor_chains(gang.subgroups)
    found = (_take(lost, had, wish, around) for wish in wishes)
    return [_stand_in(gang, index, part) for index, part in enumerate(found) if part is not None]


def _wishes(gang: Gang, had: Sequence[MemberCount], there: Sequence[Pod]) -> list[Wish]:
    """What lacks members: subgroups where the gang has any, the innermost first, else roles.

    Where only some of them must start together, room is kept for as many of those that had started as are
    missing.
    """
    if not gang.subgroups:
        by_role = missing_by_role(there, gang.roles)
        wishes = ((role, "") for role, count in by_role.items() for _ in range(count))
        return list(islice(wishes, PLACEHOLDERS_MAX))
    around = ancestor_chains(gang.subgroups)
    lacking = missing_by_subgroup(there, gang.subgroups)
    if gang.min_subgroups:
        outer, whole = outer_subgroups(gang.subgroups), complete_subgroups(there, gang.subgroups)
        started = [outer[part.subgroup] for part in had if part.subgroup in outer]
        missing = max(0, gang.min_subgroups - len(whole))
        lost = [name for name in dict.fromkeys(started) if name not in whole][:missing]
        lacking = {name: count for name, count in lacking.items() if outer[name] in lost}
    found: list[Wish] = []
    for name in sorted(lacking, key=lambda name: (-len(around[name]), name)):
        inside = sum(name in around[wish] for _, wish in found)
        found += [("", name)] * min(PLACEHOLDERS_MAX - len(found), max(0, lacking[name] - inside))
    return found


def _lost(had: Sequence[MemberCount], there: Iterable[Pod]) -> list[MemberCount]:
    """The kind of each member that is gone."""
    present = Counter(kind_of(pod) for pod in there)
    gone = [(part, part.count - present[part.role, part.subgroup, part.shape.key]) for part in had]
    return [part for part, count in gone for _ in range(count)]


def _declared(gang: Gang, there: Sequence[Pod], most: int) -> list[MemberCount]:
    """The kind of each member that a role declares and that is not there, in the order of the roles."""
    present = Counter(pod.role for pod in there)
    shapes = {pod.role: without_affinity_state(pod.shape) for pod in reversed(there)}
    found: list[MemberCount] = []
    for role in gang.roles:
        if role.shape is not None:
            part = MemberCount(role=role.name, shape=shapes.get(role.name, role.shape), count=1)
            found += [part] * min(most, role.count - present[role.name])
    return found


def _take(
    lost: list[MemberCount], usual: Sequence[MemberCount], wish: Wish, around: Mapping[str, tuple[str, ...]]
) -> MemberCount | None:
    """The kind of a lost member that is wished for; where none is known to be lost, the usual kind."""
    suits = _suiting(wish, around)
    for index, part in enumerate(lost):
        if suits(part):
            return lost.pop(index)
    return next(filter(suits, usual), usual[0] if usual else None)


def _suiting(wish: Wish, around: Mapping[str, tuple[str, ...]]) -> Callable[[MemberCount], bool]:
    role, subgroup = wish
    return lambda part: (
        role in ("", part.role) and (not subgroup or subgroup in around.get(part.subgroup, ()))
    )


def _stand_in(gang: Gang, index: int, part: MemberCount) -> Pod:
    return Pod(
        uid=PodUid(f"claim:{gang.id}:{index}"),
        namespace=gang.namespace,
        name=f"{gang.name}-claim-{index}",
        shape=part.shape,
        scheduler_name=gang.members[0].scheduler_name,
        created=gang.created,
        role=part.role,
        subgroup=part.subgroup,
        is_placeholder=True,
    )
