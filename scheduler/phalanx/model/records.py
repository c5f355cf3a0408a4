"""What the scheduler remembers of a gang in a place that its tenant cannot write.

The rules of losses, of held capacity and of the age of a gang rest on it (docs/objects.md). A running pod
that no record counts was not bound by this scheduler.
"""

from collections.abc import Iterable

from msgspec import Struct

from phalanx.model.resources import Resources


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


class GangRecord(Struct, frozen=True):
    """The record of a gang. Times are in seconds since the epoch, 0 for never.

    `queued_since`: when its minimum first existed without scheduling gates, never before its PodGroup or its
    controller was created. `placed` is sorted by role, subgroup and requests. `finishing_since`: when the
    first member of its minimum succeeded; this protects a gang once.
    """

    queued_since: int = 0
    placed: tuple[PlacedMembers, ...] = ()
    finishing_since: int = 0


RecordKind = tuple[str, str, tuple[tuple[str, int], ...]]
"""Role, subgroup and requests of recorded members."""


def kind_of_record(members: PlacedMembers) -> RecordKind:
    """The kind of these members; amounts of 0 do not count."""
    amounts = sorted((name, amount) for name, amount in members.requests.items() if amount)
    return members.role, members.subgroup, tuple(amounts)


def in_order(placed: Iterable[PlacedMembers]) -> tuple[PlacedMembers, ...]:
    """Sorted as in a record."""
    return tuple(sorted(placed, key=kind_of_record))
