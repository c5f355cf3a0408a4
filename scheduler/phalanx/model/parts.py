"""What a set of members consists of, when pods of one kind are counted instead of listed."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape, plain

Kind = tuple[str, str, ShapeKey]
"""Role, subgroup and shape: what makes two members alike."""


class MemberCount(Struct, frozen=True):
    """So many members of one role, subgroup and shape."""

    role: str
    shape: PodShape
    count: int
    subgroup: str = ""


def kind_of(pod: Pod) -> Kind:
    """The kind of a member, whatever company it asks for."""
    return (pod.role, pod.subgroup, plain(pod.shape).key)


def count_members(pods: Iterable[Pod]) -> tuple[MemberCount, ...]:
    """What these members consist of, in the order of their kinds."""
    shapes: dict[Kind, PodShape] = {}
    counts: Counter[Kind] = Counter()
    for pod in pods:
        kind = kind_of(pod)
        counts[kind] += 1
        shapes[kind] = plain(pod.shape)
    return tuple(
        MemberCount(role=kind[0], subgroup=kind[1], shape=shapes[kind], count=counts[kind])
        for kind in sorted(counts)
    )
