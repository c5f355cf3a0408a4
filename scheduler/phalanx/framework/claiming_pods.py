"""The pods of an assignment that have claims to devices, and what is granted to them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.device_needs import Need
from phalanx.framework.shared_choices import devices_of
from phalanx.model.devices.claims import ALL_DEVICES, Allocation, Claim, ClaimGrant, ClaimSpec
from phalanx.model.devices.uses import DeviceUse
from phalanx.model.extended_resources import SpecialClaim
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod

Granted = Mapping[PodUid, tuple[ClaimGrant, ...]]
"""The claims of each pod, with what was decided for them."""


class ClaimingPods(Struct, frozen=True):
    """The pods with claims on a node, with what each of them needs, and the claims that it has for itself."""

    node: Node
    pods: tuple[Pod, ...]
    needs: tuple[Need, ...]
    special: Mapping[PodUid, SpecialClaim | None]
    claims: tuple[tuple[Claim, ...], ...]

    @property
    def specs(self) -> list[ClaimSpec]:
        return [claim.spec for own in self.claims for claim in own]

    def in_order(self, places: Sequence[int]) -> "ClaimingPods":
        """The same pods in another order."""
        return replace(
            self,
            pods=tuple([self.pods[at] for at in places]),
            needs=tuple([self.needs[at] for at in places]),
            claims=tuple([self.claims[at] for at in places]),
        )


def granted_by_pod(wanted: ClaimingPods, granted: Sequence[ClaimGrant]) -> Granted:
    """The grants of each pod, of all in the order of their claims."""
    rest = iter(granted)
    return {
        pod.uid: tuple(next(rest) for _ in own) for pod, own in zip(wanted.pods, wanted.claims, strict=True)
    }


def claims_of_placeholder(pod: Pod, need: Need) -> list[Claim]:
    """The claims of a pod that does not exist."""
    names = [f"{pod.uid}:{place}" for place in range(len(need.claims))]
    return [
        Claim(pod.namespace, name, uid=name, spec=spec) for name, spec in zip(names, need.claims, strict=True)
    ]


def in_order(
    pod: Pod,
    claims: Sequence[Claim],
    own: Sequence[ClaimGrant],
    shared: Mapping[str, Allocation],
    special: SpecialClaim | None,
) -> tuple[ClaimGrant, ...]:
    """The grants of these claims of a pod, which are all that it names; then the one for its extended
    resources. Claims of a placeholder have no names."""
    if pod.is_placeholder:
        return tuple(own)
    decided = {each.uid: each for each in own}
    named = [
        decided.get(claim.uid) or ClaimGrant(claim.namespace, claim.name, claim.uid, shared.get(claim.uid))
        for claim in claims
    ]
    named_uids = {claim.uid for claim in claims}
    made = next((each for each in own if each.uid not in named_uids), None)
    return (*named, replace(made, special=special)) if made is not None else tuple(named)


def devices_granted(granted: Granted) -> frozenset[DeviceUse]:
    return devices_of([each.allocation for some in granted.values() for each in some if each.allocation])


def depends_on_others(spec: ClaimSpec) -> bool:
    """Whether it matters which devices are there at all, not only which are free."""
    return any(len(some) > 1 or some[0].count == ALL_DEVICES for some in spec.requests)
