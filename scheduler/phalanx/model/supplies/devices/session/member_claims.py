"""What members of gangs ask of devices, so that devices can be held for those that are lost.

What a claim asks for never changes. It is remembered while the member runs: the claim may be gone when the
member is. If it is not known, that of another member of the same kind counts.
"""

from collections.abc import Collection, Mapping
from typing import Final

from phalanx.model.gangs import Gang, Kind, MemberClaims, MemberCount, count_members, kind_of
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.settled_gangs import SettledGangs
from phalanx.model.supplies.devices.cluster import DeviceState

Compositions = SettledGangs[tuple[Mapping[str, str], tuple[MemberCount, ...]]]
"""By gang, the extended resources that devices satisfied then, and its members by kind and claims."""

_NOTHING: Final = MemberClaims()
_NOBODY: Final = frozenset[PodUid]()


class ClaimsOfMembers:
    """What the members of gangs ask for in one session."""

    def __init__(self, state: DeviceState, kept: Compositions) -> None:
        """`kept` is kept from session to session."""
        self._state = state
        self._extended = state.devices.extended
        self._kept = kept

    def composition(self, gang: Gang) -> tuple[MemberCount, ...]:
        """All members of the gang by kind and claims."""
        if not gang.claims_devices and not self._extended:
            return gang.composition
        known = self._kept.get(gang)
        if known is not None and known[0] == self._extended:
            return known[1]
        own = self._of_each(gang.members)
        claims = _with_usual(gang.members, own)
        found = count_members(gang.members, lambda pod: claims.get(pod.uid)) if claims else gang.composition
        if None not in own.values():
            self._kept.keep(gang, (self._extended, found))
        return found

    def deprived(self, gang: Gang) -> frozenset[PodUid]:
        """Members with a node whose own claims have no devices any more: they have ended, and the API has not
        shown that yet. Claims and pods are watched separately."""
        if not gang.claims_devices or not self._state.devices.are_listed:
            return _NOBODY
        return frozenset([pod.uid for pod in gang.counted if not pod.assumed and self._lacks(pod)])

    def _lacks(self, pod: Pod) -> bool:
        own = [each.claim for each in pod.device_claims if each.is_own and not each.is_needless]
        claims = (self._state.claim(pod.namespace, name) for name in own)
        return pod.holds_node and any(claim is None or claim.allocation is None for claim in claims)

    def of(self, members: Collection[Pod]) -> Mapping[PodUid, MemberClaims]:
        """What each of these members asks for that asks for devices, as far as it is known."""
        return _with_usual(members, self._of_each(members))

    def _of_each(self, members: Collection[Pod]) -> dict[PodUid, MemberClaims | None]:
        """For members that may ask for devices; None if it is not known."""
        found = {}
        for pod in members:
            if pod.device_claims or (self._extended and pod.extended is not None):
                found[pod.uid] = self._of_one(pod)
        return found

    def _of_one(self, pod: Pod) -> MemberClaims | None:
        entries = [each for each in pod.device_claims if not each.is_needless and not each.is_for_extended]
        own = []
        for each in entries:
            if each.is_own or not each.claim:
                claim = self._state.claim(pod.namespace, each.claim)
                if claim is None or claim.owner != pod.uid:
                    return None
                own.append(claim.spec)
        named = tuple(each.claim for each in entries if each.claim and not each.is_own)
        asked = pod.extended
        is_backed = asked is not None and any(name in self._extended for name in asked.resources)
        return MemberClaims(tuple(own), named, asked if is_backed else None)


def _with_usual(
    members: Collection[Pod], own: Mapping[PodUid, MemberClaims | None]
) -> dict[PodUid, MemberClaims]:
    """What each asks for; where that is not known, what the first other member of the kind asks for."""
    if not own:
        return {}
    usual: dict[Kind, MemberClaims] = {}
    for pod in members:
        found = own.get(pod.uid)
        if found is not None:
            usual.setdefault(kind_of(pod), found)
    claims = {pod.uid: own[pod.uid] or usual.get(kind_of(pod)) for pod in members if pod.uid in own}
    return {uid: each for uid, each in claims.items() if each is not None and each != _NOTHING}
