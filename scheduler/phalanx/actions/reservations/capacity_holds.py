"""Hold capacity for the lost and reserved members of gangs that are below their minimum.

While the pods that will replace lost members do not exist yet, placeholders of the same shape are placed for
them like repairs: before starts of the same and of lower rank, in every queue. They are never bound; they
only hold capacity. Only members that the record of the gang counts are lost or reserved: nothing is held for
members that never were placed. A hold ends when the gang is complete or deleted, or when it expires. A gang
that reserves capacity holds in the same way what was placed with it, from its start until its members exist.

Placeholders ask for devices as the claims of the lost members did. Those that cannot have any hold the rest
of the capacity. A member that has ended may lose its devices in the cluster state before it is seen to have
ended: only devices are held for it then.

No capacity is held for a gang that is about to end: one with a member that has succeeded, or whose members
are all being deleted. If all members have failed and none is recreated, the hold expires sooner. No capacity
is held for a pod without a group, since its replacement is another gang.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Demand, Stage, batches_of, started_gangs
from phalanx.actions.reservations.held_assignments import held_nodes
from phalanx.framework.minimum_members import needed_besides
from phalanx.framework.placeholders import placeholder, vacant_members
from phalanx.framework.session import Session
from phalanx.framework.vacancies import Counts, missing_from, untaken
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.gangs import Gang, GangKind, MemberCount, kind_of
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId, NodeName, ShapeKey
from phalanx.model.pods import Pod, PodShape, Requirement, Term
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import record_kinds
from phalanx.model.supplies.devices.session.lost_members import (
    claims_of_members,
    composition,
    composition_of,
    deprived_members,
    with_claims,
    without_claims,
)

CAPACITY_HOLD_WITHOUT_MEMBERS_MS: Final = 60_000
"""Milliseconds that capacity is held if all members have failed. A Job creates new pods after 10 s,
then 20 and 40; a Job that has failed permanently creates none."""

CAUSE: Final = "hold"
"""The cause of demands of placeholders."""


class CapacityHolds(Struct, frozen=True):
    """The capacity holds of a cycle."""

    compositions: Mapping[GangId, GangComposition]
    """The compositions of started gangs; the next cycle remembers them."""
    open: Mapping[GangId, GangComposition]
    """Gangs for which capacity is held now."""
    ended: Mapping[GangId, GangComposition]
    """Gangs that reserved capacity and whose hold has expired before their members existed."""
    wake_at: int | None
    """End (ms) of the next hold."""


def find(session: Session) -> CapacityHolds:
    """The holds at the begin of the cycle, and the compositions of all started gangs."""
    now = session.snapshot.now
    compositions: dict[GangId, GangComposition] = {}
    for gang in session.gangs.values():
        if gang.kind is GangKind.POD or gang.id in session.preempted:
            continue
        if _has_started(gang) and session.records.of(gang).record.placed and not _is_ending(gang):
            compositions[gang.id] = _review(gang, session)
    ends = {
        gang: known.since + _hold_ms(session.gangs[gang])
        for gang, known in compositions.items()
        if known.since
    }
    return CapacityHolds(
        compositions=compositions,
        open={gang: compositions[gang] for gang, end in ends.items() if now < end},
        ended={
            gang: compositions[gang]
            for gang, end in ends.items()
            if end <= now and _waits(session.gangs[gang])
        },
        wake_at=min((end for end in ends.values() if now < end), default=None),
    )


def after(session: Session, holds: CapacityHolds) -> CapacityHolds:
    """The holds at the end of the cycle, including those of gangs that reserve capacity and were placed."""
    now, held = session.snapshot.now, held_nodes(session)
    started = started_gangs(session.placements)
    new = {
        hold.gang.id: GangComposition(
            members=composition(session, hold.gang), since=now, held=held[hold.gang.id]
        )
        for hold in session.capacity_holds
        if hold.gang.reserves and hold.gang.id in started
    }
    again = {gang: replace(holds.compositions[gang], held=held[gang]) for gang in holds.open if gang in held}
    ends = [holds.wake_at, *(now + CAPACITY_HOLD_MS for _ in new)]
    return replace(
        holds,
        compositions={**holds.compositions, **again, **new},
        wake_at=min((end for end in ends if end is not None), default=None),
    )


def _has_started(gang: Gang) -> bool:
    """Whether it has started, or reserves capacity and has a member that is bound or assumed."""
    return gang.started or gang.starts_over or _waits(gang)


def _waits(gang: Gang) -> bool:
    """Whether the gang reserves capacity and some of its members have nodes already."""
    return gang.reserves and gang.active > 0


def _hold_ms(gang: Gang) -> int:
    """The duration of the hold; shorter if only failed pods are left of the gang."""
    is_over = all(pod.is_finished and not pod.deleting for pod in gang.members)
    return CAPACITY_HOLD_WITHOUT_MEMBERS_MS if is_over else CAPACITY_HOLD_MS


def _is_ending(gang: Gang) -> bool:
    """Whether no members will be created, as far as that can be known."""
    if gang.workload and gang.problems:
        return True
    is_finishing = gang.is_finishing and not gang.awaits_members
    return is_finishing or all(pod.deleting for pod in gang.members)


def _review(gang: Gang, session: Session) -> GangComposition:
    """The composition of a gang; an incomplete gang keeps its known one, and the time of the loss."""
    known, now = session.snapshot.memory.compositions.get(gang.id), session.snapshot.now
    deprived = deprived_members(session, gang)
    if gang.is_stable and not deprived:
        return _complete(composition(session, gang), known)
    counted = [pod for pod in gang.counted if pod.uid not in deprived]
    if gang.minimum.is_reached(counted):
        return _complete(composition_of(session, counted), known)
    if known is None:
        return GangComposition(members=composition(session, gang), since=now)
    return known if known.since else replace(known, since=now)


def _complete(members: tuple[MemberCount, ...], known: GangComposition | None) -> GangComposition:
    """The composition of a complete gang; the known object if it is equal, so that comparing it is cheap."""
    if known is None or known.since or known.held:
        return GangComposition(members=members)
    return known if known.members is members or known.members == members else GangComposition(members=members)


def demand_of(
    gang: Gang, composition: GangComposition, demanded: Collection[Pod], session: Session
) -> Demand | None:
    """A demand of placeholders for the members that the minimum lacks beyond the demanded pods, if any."""
    lacking = _lacking(gang, composition, demanded, session)
    return Demand(gang, Stage.REPAIR, CAUSE, batches_of(gang, lacking, whole=False)) if lacking else None


def without_devices(demand: Demand, session: Session) -> Demand | None:
    """The demand of placeholders that ask for devices, as if they asked for none; None if there are none."""
    pods = [pod for batch in demand.batches for pod in batch.pods if pod.shape.requests]
    plain = without_claims(session, pods)
    return replace(demand, batches=batches_of(demand.gang, plain, whole=False)) if plain else None


def expiry_objection(gang: Gang, composition: GangComposition, session: Session) -> Objection | None:
    """The objection that the reserved capacity was released; None if the gang lacks nothing."""
    lacking = _lacking(gang, composition, (), session)
    if not lacking:
        return None
    roles = ", ".join(dict.fromkeys(f"role {pod.role}" for pod in lacking if pod.role))
    return Objection(
        reason=Reason.RESERVATION_EXPIRED,
        message=f"{formatting.pods(len(lacking))}{f' of {roles}' if roles else ''} did not come within "
        f"{CAPACITY_HOLD_MS // 60_000} minutes; their reservation has expired",
        next_step="Create them: they go before starts of equal priority, but without reserved capacity",
    )


def _lacking(
    gang: Gang, composition: GangComposition, demanded: Collection[Pod], session: Session
) -> Sequence[Pod]:
    deprived, record = deprived_members(session, gang), session.records.of(gang)
    counted = gang.counted
    ended = [pod for pod in counted if pod.uid in deprived]
    there = [*(pod for pod in counted if pod.uid not in deprived), *demanded]
    kinds = record_kinds([*gang.members, *(pod for pod in demanded if pod.is_placeholder)])
    gone: Counts = record.places
    if ended:
        present = [kinds[pod.uid] for pod in counted if pod.uid not in deprived]
        gone = Counter(missing_from(record.record.bound, present)) + Counter(record.reserved)
    free = untaken([kinds[pod.uid] for pod in demanded], gone)
    parts = vacant_members(gang, there, composition.members, claims_of_members(session, there), free)
    pods = [placeholder(gang, str(index), part) for index, part in enumerate(parts)]
    claims = {pod.uid: part.claims for pod, part in zip(pods, parts, strict=True)}
    found = []
    for pod in needed_besides(gang, there, pods):
        same = next((each for each in ended if kind_of(each) == kind_of(pod)), None)
        if same is not None and same.node is not None:
            ended.remove(same)
            pod = _for_devices_only(pod, same.node)
        found.append(with_claims(session, pod, claims[pod.uid], gang.queue))
    return found


def _for_devices_only(placeholder: Pod, node: NodeName) -> Pod:
    """The placeholder of a member that still holds the rest of its capacity on this node."""
    here = Term((Requirement("metadata.name", "In", (node,), on_field=True),))
    key = ShapeKey(f"{placeholder.shape.key}@on {node}")
    shape = PodShape(key, {}, required_affinity=(here,), tolerations=placeholder.shape.tolerations)
    return replace(placeholder, shape=shape)
