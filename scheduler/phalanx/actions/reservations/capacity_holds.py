"""Started gangs below their minimum keep a claim on the room of the members that they lack.

While the pods that will take a lost member's place do not exist yet, stand-ins of the same shape are placed
in their stead, as repairs are: ahead of starts of the same and of lower rank, in every queue. They are never
bound; they only keep the room. A claim ends when the gang is whole or gone, or after its time. A gang that
reserves claims what its roles declare in the same way, from its start until its members have come.

A gang with a member that has succeeded, or of which all members are being deleted, is about to end: it
claims nothing. Where all have failed and none is made anew soon, its work is over, and so is the claim. A pod
without a group claims nothing: whoever takes its place is another gang.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import START, Demand, Stage, batches_of
from phalanx.actions.reservations.held_assignments import room_of
from phalanx.framework.placeholders import placeholders
from phalanx.framework.session import Session
from phalanx.limits import CAPACITY_HOLD_MS, CAPACITY_HOLD_WITHOUT_MEMBERS_MS
from phalanx.model.gangs import Gang, GangKind, MemberCount, count_members
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason

CAUSE = "claim"


class CapacityHolds(Struct, frozen=True):
    """`seated`: what started gangs consist of, for the next cycle. `open`: gangs that have a claim now.

    `ended`: gangs that reserved room and whose claim has ended before their members came.
    """

    seated: Mapping[GangId, GangComposition]
    open: Mapping[GangId, GangComposition]
    ended: Mapping[GangId, GangComposition]
    wake_at: int | None


def find(session: Session) -> CapacityHolds:
    """Who claims room in this cycle, and what is to be remembered of all others."""
    now = session.snapshot.now
    seated: dict[GangId, GangComposition] = {}
    for gang in session.gangs.values():
        if gang.kind is GangKind.POD or gang.id in session.preempted:
            continue
        if _has_begun(gang) and not _is_ending(gang):
            seated[gang.id] = _review(gang, session.snapshot.memory.compositions.get(gang.id), now)
    ends = {gang: each.since + _claim_ms(session.gangs[gang]) for gang, each in seated.items() if each.since}
    return CapacityHolds(
        seated=seated,
        open={gang: seated[gang] for gang, end in ends.items() if now < end},
        ended={
            gang: seated[gang] for gang, end in ends.items() if end <= now and _waits(session.gangs[gang])
        },
        wake_at=min((end for end in ends.values() if now < end), default=None),
    )


def after(session: Session, claims: CapacityHolds) -> CapacityHolds:
    """With what this cycle kept, and where. The time of gangs that reserve and were placed begins now."""
    now, room = session.snapshot.now, room_of(session.capacity_holds)
    started = {placement.gang for placement in session.placements if placement.cause == START}
    new = {
        each.gang.id: GangComposition(members=each.gang.composition, since=now, held=room[each.gang.id])
        for each in session.capacity_holds
        if each.gang.reserves and each.gang.id in started
    }
    again = {gang: replace(claims.seated[gang], held=room[gang]) for gang in claims.open if gang in room}
    ends = [claims.wake_at, *(now + CAPACITY_HOLD_MS for _ in new)]
    return replace(
        claims,
        seated={**claims.seated, **again, **new},
        wake_at=min((end for end in ends if end is not None), default=None),
    )


def _has_begun(gang: Gang) -> bool:
    """Whether it started once, or, where it reserves, will have as soon as a bind is confirmed."""
    return gang.started or gang.starts_over or _waits(gang)


def _waits(gang: Gang) -> bool:
    """Whether members run that wait for those which the gang reserved room for."""
    return gang.reserves and gang.active > 0


def _claim_ms(gang: Gang) -> int:
    """Milliseconds from the loss: fewer where nothing is left of the gang but failed pods."""
    is_over = all(pod.is_finished and not pod.deleting for pod in gang.members)
    return CAPACITY_HOLD_WITHOUT_MEMBERS_MS if is_over else CAPACITY_HOLD_MS


def _is_ending(gang: Gang) -> bool:
    return gang.is_finishing or all(pod.deleting for pod in gang.members)


def _review(gang: Gang, known: GangComposition | None, now: int) -> GangComposition:
    """A whole gang is taken stock of; one that is not keeps what is known of it, and since when."""
    if gang.is_stable:
        return _whole(gang.composition, known)
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    if gang.minimum.is_reached(counted):
        return _whole(count_members(counted), known)
    if known is None:
        return GangComposition(members=gang.composition, since=now)
    return known if known.since else replace(known, since=now)


def _whole(parts: tuple[MemberCount, ...], known: GangComposition | None) -> GangComposition:
    """What is known where it says just that: the next cycle then compares nothing."""
    if known is None or known.since or known.held:
        return GangComposition(members=parts)
    return known if known.members is parts or known.members == parts else GangComposition(members=parts)


def demand_of(gang: Gang, seated: GangComposition, demanded: Iterable[Pod]) -> Demand | None:
    """Stand-ins for what the gang lacks to its minimum beyond the pods that are demanded for it already."""
    lacking = placeholders(gang, _there(gang, demanded), seated.members)
    return Demand(gang, Stage.REPAIR, CAUSE, batches_of(lacking, whole=False)) if lacking else None


def expiry_objection(gang: Gang, seated: GangComposition) -> Objection | None:
    """That the room which the gang reserved was given back; None where it lacks nothing that it had kept."""
    lacking = placeholders(gang, _there(gang, ()), seated.members)
    if not lacking:
        return None
    roles = ", ".join(dict.fromkeys(f"role {pod.role}" for pod in lacking if pod.role))
    return Objection(
        reason=Reason.RESERVATION_EXPIRED,
        message=f"{formatting.pods(len(lacking))}{f' of {roles}' if roles else ''} did not come within "
        f"{CAPACITY_HOLD_MS // 60_000} minutes; their reservation has expired",
        next_step="Create them: they go before starts of equal priority, but without reserved capacity",
    )


def _there(gang: Gang, demanded: Iterable[Pod]) -> Sequence[Pod]:
    return [*(pod for pod in gang.members if pod.counts_for_gang), *demanded]
