"""Which pods name claims that were made for no pod, and what becomes of such claims when a gang is moved."""

from collections import Counter
from collections.abc import Collection, Set
from functools import cached_property

from msgspec.structs import replace

from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodClaim
from phalanx.model.supplies.devices.claims import Claim
from phalanx.model.supplies.devices.cluster import DeviceState
from phalanx.model.supplies.devices.pod_claims import Unresolved


class ClaimUsers:
    def __init__(self, gangs: Collection[Gang]) -> None:
        """`gangs` are all of the snapshot."""
        self._gangs = gangs

    def is_of_one_pod(self, namespace: str, claim: str) -> bool:
        """Whether one pod names the claim."""
        return self._pods[namespace, claim] == 1

    def are_several(self, namespace: str, claim: str) -> bool:
        """Whether more than one pod names the claim."""
        return self._pods[namespace, claim] > 1

    def gangs_with(self, claim: Claim) -> Set[GangId]:
        """The gangs of which a pod names the claim."""
        return self._gangs_of.get((claim.namespace, claim.name), frozenset())

    @cached_property
    def _pods(self) -> Counter[tuple[str, str]]:
        """How many pods name each claim that was made for no pod, by namespace and name."""
        return Counter(
            (pod.namespace, name)
            for gang in self._gangs
            if gang.claims_devices
            for pod in gang.members
            for name in {each.claim for each in pod.device_claims if not each.is_own}
        )

    @cached_property
    def _gangs_of(self) -> dict[tuple[str, str], set[GangId]]:
        found: dict[tuple[str, str], set[GangId]] = {}
        for gang in self._gangs:
            for pod in gang.members if gang.claims_devices else ():
                for each in pod.device_claims:
                    if not each.is_own:
                        found.setdefault((pod.namespace, each.claim), set()).add(gang.id)
        return found


def claims_of_next(
    pod: Pod, gang: Gang, state: DeviceState, users: ClaimUsers
) -> tuple[PodClaim, ...] | None:
    """The claims of the pod that its controller creates when the whole gang is moved; None if it is not known
    which devices they can have.

    A claim that was made for the pod ends with it. One that only pods of the gang name and use loses its
    devices with them. One that other pods use too keeps its devices.
    """
    entries = [each for each in pod.device_claims if not each.is_needless]
    found = state.claims_of(entries, namespace=pod.namespace, pod_uid=pod.uid)
    if isinstance(found, Unresolved) or any(each.is_for_extended for each in entries):
        return None
    claims = {claim.name: claim for claim in found}
    renewed = {each.claim: _is_renewed(each, claims[each.claim], pod, gang, users) for each in entries}
    if None in renewed.values():
        return None
    return tuple(replace(each, is_renewed=bool(renewed.get(each.claim))) for each in pod.device_claims)


def _is_renewed(entry: PodClaim, claim: Claim, pod: Pod, gang: Gang, users: ClaimUsers) -> bool | None:
    """Whether the next pod has the claim without devices; None if that is not known."""
    if claim.allocation is None:
        return None
    if entry.is_own:
        is_local = claim.allocation.nodes.only_node == pod.node
        return True if is_local and {*claim.reserved_for} == {pod.uid} else None
    if not {*claim.reserved_for} <= {each.uid for each in gang.members}:
        return False
    return True if users.gangs_with(claim) == {gang.id} else None
