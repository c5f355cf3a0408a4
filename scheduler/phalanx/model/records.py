"""What the scheduler remembers of a gang in a place that its tenant cannot write.

The rules of losses, of held capacity and of the age of a gang rest on it (docs/roles.md). A running pod
that no record counts was not bound by this scheduler.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.limits import RECORDED_KINDS_MAX
from phalanx.model.charges import plus_devices
from phalanx.model.names import GangId, PodUid, ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.resources import PODS, Resources

DIGEST_DIGITS: Final = 16

RecordKind = tuple[str, str, tuple[tuple[str, int], ...]]
"""Role, subgroup and requests of recorded members."""


class PlacedMembers(Struct, frozen=True):
    """Members of one role and subgroup with equal requests, which hold their place in the gang.

    `bound`: members that this scheduler bound and has neither evicted nor released, and whose loss has not
    lapsed. Those of them that have no node now are lost. `reserved`: members that did not exist when the gang
    started, for which capacity was placed and charged with it.
    """

    role: str
    subgroup: str
    requests: Resources
    bound: int = 0
    reserved: int = 0


class LetInRecord(Struct, frozen=True):
    """That the gang was placed before reserved starts because of its `runtime.max`, see `model.memory.LetIn`.

    `ends`: when it ends by that. `before`: digests of the gangs with the reserved starts, so that no tenant
    reads the names of others.
    """

    ends: int
    before: tuple[str, ...]
    is_start: bool = True


class GangRecord(Struct, frozen=True):
    """The record of a gang. Times are in seconds since the epoch, 0 for never.

    `queued_since`: when its minimum first existed without scheduling gates, never before its PodGroup or its
    controller was created. `placed` is sorted by role, subgroup and requests. `finishing_since`: when the
    first member of its minimum succeeded; this protects a gang once. `has_launched`: whether a pod without
    devices has gone before the starts of its queue. `evicting`: of how many bound members the eviction for
    others or the release was decided that have not left their nodes.
    """

    queued_since: int = 0
    placed: tuple[PlacedMembers, ...] = ()
    finishing_since: int = 0
    has_launched: bool = False
    let_in: LetInRecord | None = None
    evicting: int = 0

    @property
    def bound(self) -> dict[RecordKind, int]:
        """The number of bound members by kind."""
        return _counts((each, each.bound) for each in self.placed)

    @property
    def reserved(self) -> dict[RecordKind, int]:
        """The number of reserved members by kind."""
        return _counts((each, each.reserved) for each in self.placed)


NO_RECORD: Final = GangRecord()


def _counts(members: Iterable[tuple[PlacedMembers, int]]) -> dict[RecordKind, int]:
    found: dict[RecordKind, int] = {}
    for each, count in members:
        if count > 0:
            kind = kind_of_record(each)
            found[kind] = found.get(kind, 0) + count
    return found


def kind_of_record(members: PlacedMembers) -> RecordKind:
    return members.role, members.subgroup, amounts_of(members.requests)


def amounts_of(requests: Resources) -> tuple[tuple[str, int], ...]:
    """Amounts of 0 do not count, nor does that a pod is one pod."""
    return tuple(sorted((name, amount) for name, amount in requests.items() if amount and name != PODS))


def digest_of(gang: GangId) -> str:
    """What stands for the gang in the record of another one."""
    return hashlib.sha256(gang.encode()).hexdigest()[:DIGEST_DIGITS]


def in_order(placed: Iterable[PlacedMembers]) -> tuple[PlacedMembers, ...]:
    """Sorted as in a record."""
    return tuple(sorted(placed, key=kind_of_record))


def placed_members(
    bound: Mapping[RecordKind, int], reserved: Mapping[RecordKind, int]
) -> tuple[PlacedMembers, ...]:
    """Members of these kinds, as a record has them: at most RECORDED_KINDS_MAX kinds."""
    kinds = sorted({kind for counts in (bound, reserved) for kind, count in counts.items() if count > 0})
    return tuple(
        PlacedMembers(
            role, subgroup, dict(requests), max(bound.get(kind, 0), 0), max(reserved.get(kind, 0), 0)
        )
        for kind in kinds[:RECORDED_KINDS_MAX]
        for role, subgroup, requests in [kind]
    )


def record_kinds(members: Sequence[Pod]) -> dict[PodUid, RecordKind]:
    """The kind of each member: its requests, with the devices of its claims.

    A claim that several of them use counts once: for a pod that waits, only if no pod that counts names it.
    """
    plain: dict[tuple[str, str, ShapeKey], RecordKind] = {}
    named = {
        f"{pod.namespace}/{each.claim}"
        for pod in members
        if pod.device_claims and pod.counts_for_gang
        for each in pod.device_claims
        if each.claim and not each.is_own
    }
    found = {}
    for pod in members:
        key = (pod.role, pod.subgroup, pod.shape.key)
        if pod.charges:
            shared = named if pod.is_waiting else set()
            requests = plus_devices(pod.shape.requests, [pod], shared)
            found[pod.uid] = (pod.role, pod.subgroup, amounts_of(requests))
        else:
            if key not in plain:
                plain[key] = (pod.role, pod.subgroup, amounts_of(pod.shape.requests))
            found[pod.uid] = plain[key]
    return found
