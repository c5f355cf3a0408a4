"""Started gangs below their minimum keep a claim on the room of the members that they lost.

While the pods that will take a lost member's place do not exist yet, stand-ins of the same shape are placed
in their stead, as repairs are: ahead of starts of the same and of lower rank, in every queue. They are never
bound; they only keep the room. A claim ends when the gang is whole or gone, or after its time.

A gang with a member that has succeeded, or of which all members are being deleted, is about to end: it
claims nothing. Where all have failed and none is made anew soon, its work is over, and so is the claim. A pod
without a group claims nothing: whoever takes its place is another gang. Stand-ins ask for no company: terms
of pod affinity are looked at when the pods come.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from phalanx.actions.demand import Demand, Stage, batches_of
from phalanx.framework.session import Session
from phalanx.limits import CLAIM_MS, CLAIM_WITHOUT_MEMBERS_MS
from phalanx.model.gangs import (
    Gang,
    GangKind,
    lineages,
    missing_by_role,
    missing_by_subgroup,
    outer_subgroups,
    whole_subgroups,
)
from phalanx.model.memory import Part, Seated
from phalanx.model.names import GangId, PodUid, ShapeKey
from phalanx.model.pods import Pod, PodShape, plain

CAUSE = "claim"

Kind = tuple[str, str, ShapeKey]
"""Role, subgroup and shape: what makes two members alike."""

Wish = tuple[str, str]
"""The role and the subgroup of which a member is lacking; empty where any would do."""


class Claims(Struct, frozen=True):
    """`seated`: what started gangs consist of, for the next cycle. `open`: gangs that have a claim now."""

    seated: Mapping[GangId, Seated]
    open: Mapping[GangId, Seated]
    wake_at: int | None


def find(session: Session) -> Claims:
    """Who claims room in this cycle, and what is to be remembered of all others."""
    now = session.snapshot.now
    seated: dict[GangId, Seated] = {}
    for gang in session.gangs.values():
        if gang.id in session.preempted:
            continue
        if (gang.started or gang.begins_anew) and gang.kind is not GangKind.POD and not _is_ending(gang):
            seated[gang.id] = _review(gang, session.snapshot.memory.seated.get(gang.id), now)
    ends = {gang: each.since + _claim_ms(session.gangs[gang]) for gang, each in seated.items() if each.since}
    return Claims(
        seated=seated,
        open={gang: seated[gang] for gang, end in ends.items() if now < end},
        wake_at=min((end for end in ends.values() if now < end), default=None),
    )


def _claim_ms(gang: Gang) -> int:
    """Milliseconds from the loss: fewer where nothing is left of the gang but failed pods."""
    is_over = all(pod.is_finished and not pod.deleting for pod in gang.members)
    return CLAIM_WITHOUT_MEMBERS_MS if is_over else CLAIM_MS


def _is_ending(gang: Gang) -> bool:
    return gang.is_finishing or all(pod.deleting for pod in gang.members)


def _review(gang: Gang, known: Seated | None, now: int) -> Seated:
    """A whole gang is taken stock of; one that is not keeps what is known of it, and since when."""
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    if gang.minimum.is_reached(counted):
        found = Seated(parts=_parts(counted))
        return known if known == found else found
    if known is None:
        return Seated(parts=_parts(gang.members), since=now)
    return known if known.since else Seated(parts=known.parts, since=now)


def _parts(pods: Iterable[Pod]) -> tuple[Part, ...]:
    shapes: dict[Kind, PodShape] = {}
    counts: Counter[Kind] = Counter()
    for pod in pods:
        kind = _kind(pod)
        counts[kind] += 1
        shapes[kind] = plain(pod.shape)
    return tuple(
        Part(role=kind[0], subgroup=kind[1], shape=shapes[kind], count=counts[kind])
        for kind in sorted(counts)
    )


def _kind(pod: Pod) -> Kind:
    return (pod.role, pod.subgroup, plain(pod.shape).key)


def demand_of(gang: Gang, seated: Seated, demanded: Sequence[Pod]) -> Demand | None:
    """Stand-ins for what the gang lacks to its minimum beyond the pods that are demanded for it already."""
    there = [*(pod for pod in gang.members if pod.counts_for_gang), *demanded]
    if gang.minimum.is_reached(there):
        return None
    wishes = _wishes(gang, seated, there)
    total = max(gang.min_member - len(there), len(wishes))
    wishes += [("", "")] * (total - len(wishes))
    lost = _lost(seated, there)
    stand_ins = [
        _stand_in(gang, index, _take(lost, seated.parts, wish, lineages(gang.subgroups)))
        for index, wish in enumerate(wishes)
    ]
    return Demand(gang, Stage.REPAIR, CAUSE, batches_of(stand_ins, whole=False)) if stand_ins else None


def _wishes(gang: Gang, seated: Seated, there: Sequence[Pod]) -> list[Wish]:
    """What lacks members: subgroups where the gang has any, the innermost first, else roles.

    Where only some of them must start together, room is kept for as many of those that had started as are
    missing.
    """
    if not gang.subgroups:
        by_role = missing_by_role(there, gang.roles)
        return [(role, "") for role, count in by_role.items() for _ in range(count)]
    around = lineages(gang.subgroups)
    lacking = missing_by_subgroup(there, gang.subgroups)
    if gang.min_subgroups:
        outer, whole = outer_subgroups(gang.subgroups), whole_subgroups(there, gang.subgroups)
        had = [outer[part.subgroup] for part in seated.parts if part.subgroup in outer]
        missing = max(0, gang.min_subgroups - len(whole))
        lost = [name for name in dict.fromkeys(had) if name not in whole][:missing]
        lacking = {name: count for name, count in lacking.items() if outer[name] in lost}
    wishes: list[Wish] = []
    for name in sorted(lacking, key=lambda name: (-len(around[name]), name)):
        inside = sum(name in around[wish] for _, wish in wishes)
        wishes += [("", name)] * max(0, lacking[name] - inside)
    return wishes


def _lost(seated: Seated, there: Iterable[Pod]) -> list[Part]:
    """The kind of each member that is gone."""
    present = Counter(_kind(pod) for pod in there)
    gone = [(part, part.count - present[part.role, part.subgroup, part.shape.key]) for part in seated.parts]
    return [part for part, count in gone for _ in range(count)]


def _take(lost: list[Part], usual: Sequence[Part], wish: Wish, around: Mapping[str, tuple[str, ...]]) -> Part:
    """The kind of a lost member that is wished for; where none is known to be lost, the usual kind."""

    def suits(part: Part) -> bool:
        role, subgroup = wish
        return role in ("", part.role) and (not subgroup or subgroup in around.get(part.subgroup, ()))

    for index, part in enumerate(lost):
        if suits(part):
            return lost.pop(index)
    return next(filter(suits, usual), usual[0])


def _stand_in(gang: Gang, index: int, part: Part) -> Pod:
    return Pod(
        uid=PodUid(f"claim:{gang.id}:{index}"),
        namespace=gang.namespace,
        name=f"{gang.name}-claim-{index}",
        shape=part.shape,
        scheduler_name=gang.members[0].scheduler_name,
        created=gang.created,
        role=part.role,
        subgroup=part.subgroup,
    )
