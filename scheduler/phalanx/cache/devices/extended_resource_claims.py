"""Claims that schedulers make for extended resources of pods: those that exist, and those that will.

A claim that was decided is shown at once, under a name that no object can have, until the API shows the one
that was made for the pod with an allocation.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from phalanx.cache.table import Key
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.claims import Claim, ClaimGrant, extended_claim_uid
from phalanx.model.supplies.devices.extended_resource_claims import spec_of

_NO_KEY = ("", "")


class ExtendedResourceClaims:
    """Claims for extended resources by the pods that own them."""

    def __init__(self) -> None:
        self._real: dict[str, dict[Key, None]] = {}
        """By owner, those that exist."""
        self.made: dict[Key, Claim] = {}
        """Those that were decided."""
        self._keys: dict[PodUid, Key] = {}
        """The keys of these, by owner."""

    def real_of(self, pod: PodUid) -> Key:
        """The key of the claim that exists; of none if there is none."""
        return next(iter(self._real.get(pod, ())), _NO_KEY)

    def as_shown(self, pod: PodUid, grant: ClaimGrant, shown: Mapping[Key, Claim]) -> ClaimGrant:
        """The grant with the name under which its claim is shown."""
        if grant.extended_claim is None:
            return grant
        key = self._keys.get(pod) or self.real_of(pod)
        claim = shown.get(key)
        return grant if claim is None else replace(grant, name=claim.name, uid=claim.uid)

    def replace(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        """A claim was added, changed or removed."""
        if old is not None and old.is_for_extended and old.owner:
            keys = self._real[old.owner]
            del keys[key]
            if not keys:
                del self._real[old.owner]
        if new is not None and new.is_for_extended and new.owner:
            self._real.setdefault(new.owner, {})[key] = None

    def make(self, pod: PodUid, grant: ClaimGrant) -> Key:
        """The claim of this grant was decided; the key under which it is shown."""
        assert grant.extended_claim is not None
        key = self._keys[pod] = (grant.namespace, extended_claim_uid(pod))
        self.made[key] = Claim(
            namespace=grant.namespace,
            name=key[1],
            uid=key[1],
            spec=spec_of(grant.extended_claim),
            allocation=grant.allocation,
            reserved_for=(pod,),
            owner=pod,
            is_for_extended=True,
        )
        return key

    def unmake(self, pod: PodUid) -> Key | None:
        """The decided claim of the pod exists now, or will not; its key, if there was one."""
        key = self._keys.pop(pod, None)
        if key is not None:
            del self.made[key]
        return key
