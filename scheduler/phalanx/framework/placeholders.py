"""Create placeholder pods for members that do not exist yet. Capacity is held for them; they are never bound.

A placeholder has the shape of a lost member or, if the PodGroup reserves capacity, of a role. The shape of a
role is that of its existing members, else that of its declared requests. Placeholders have no affinity terms:
these count when the pods exist. Those of lost members get devices for claims like those of the members.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from phalanx.framework.vacancies import Counts, may_take
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import Gang, MemberClaims, MemberCount, kind_of, missing_by_role
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, without_affinity_state
from phalanx.model.records import RecordKind, amounts_of
from phalanx.model.resources import sum_of


def placeholders(gang: Gang, there: Sequence[Pod]) -> list[Pod]:
    """One placeholder for each declared member that the minimum lacks besides the pods that are `there`.

    There are none for members of unknown shape, and at most PLACEHOLDERS_MAX.
    """
    if gang.minimum.is_reached(there):
        return []
    lacking = missing_by_role(there, gang.roles).items()
    vacant = list(islice((role for role, count in lacking for _ in range(count)), PLACEHOLDERS_MAX))
    total = min(PLACEHOLDERS_MAX, max(gang.min_member - len(there), len(vacant)))
    declared = _declared(gang, there, total)
    found = []
    for role in [*vacant, *[""] * (total - len(vacant))]:
        part = next((each for each in declared if role in ("", each.role)), None)
        if part is not None:
            declared.remove(part)
            found.append(part)
    return [placeholder(gang, str(index), part) for index, part in enumerate(found)]


def vacant_members(
    gang: Gang,
    there: Sequence[Pod],
    had: Sequence[MemberCount],
    claims: Mapping[PodUid, MemberClaims],
    places: Counts,
) -> list[MemberCount]:
    """One member for each of these places, in the shape of the members that were lost or are to come.

    `had`: the composition of the gang when it was complete. `claims`: those of the pods that are `there`.
    Where the lost member is not known, others of its role and subgroup count, else its requests alone.
    """
    declared = _declared(gang, there, PLACEHOLDERS_MAX) if gang.reserves else []
    left, found, others = dict(places), list[MemberCount](), list[MemberCount]()
    for part in (*_lost(had, there, claims), *declared):
        kind = _record_kind(part)
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            found.append(part)
        else:
            others.append(part)
    for part in others:
        # What a member had of claims that several pods use is not in its composition.
        usable = (kind for kind, count in left.items() if count > 0 and may_take(_record_kind(part), kind))
        place = next(usable, None)
        if place is not None:
            left[place] -= 1
            found.append(part)
    for kind, count in sorted(left.items()):
        if count > 0:
            found += [_usual(kind, (*had, *declared))] * min(count, PLACEHOLDERS_MAX - len(found))
    return found[:PLACEHOLDERS_MAX]


def _record_kind(part: MemberCount) -> RecordKind:
    amounts = sum_of([part.shape.requests, *(dict(each.amounts) for each in part.charges)])
    return part.role, part.subgroup, amounts_of(amounts)


def _usual(kind: RecordKind, parts: Sequence[MemberCount]) -> MemberCount:
    """A member of this kind as others are, or of which only the requests are known."""
    alike = [part for part in parts if may_take(_record_kind(part), kind)]
    role, subgroup, amounts = kind
    found = next((part for part in alike if _record_kind(part) == kind), next(iter(alike), None))
    return found or MemberCount(role, shape_of_requests(dict(amounts)), 1, subgroup)


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
