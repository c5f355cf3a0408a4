"""What a cycle grants and changes of devices, and how devices are allocated for pods that have nodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.allocator import NodeDevices
from phalanx.model.supplies.devices.claims import (
    ALL_DEVICES,
    Allocation,
    Claim,
    ClaimGrant,
    ClaimSpec,
    uses_of,
)
from phalanx.model.supplies.devices.cluster import DeviceState, grants
from phalanx.model.supplies.devices.extended_resources import ExtendedResourceClaim
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.session.needs import Need
from phalanx.model.supplies.devices.session.shared_choices import devices_of
from phalanx.model.supplies.devices.shared_claims import of_one_node
from phalanx.model.supplies.devices.uses import DeviceUse

Granted = Mapping[PodUid, tuple[ClaimGrant, ...]]
"""The claims of each pod, with what was decided for them."""


class ClaimingPods(Struct, frozen=True):
    """The pods with claims on a node, with what each of them needs, and the claims that it has for itself."""

    node: Node
    pods: tuple[Pod, ...]
    needs: tuple[Need, ...]
    extended_claim: Mapping[PodUid, ExtendedResourceClaim | None]
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
    extended_claim: ExtendedResourceClaim | None,
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
    return (*named, replace(made, extended_claim=extended_claim)) if made is not None else tuple(named)


def devices_granted(granted: Granted) -> frozenset[DeviceUse]:
    return devices_of([each.allocation for some in granted.values() for each in some if each.allocation])


def depends_on_others(spec: ClaimSpec) -> bool:
    """Whether it matters which devices are there at all, not only which are free."""
    return any(len(some) > 1 or some[0].count == ALL_DEVICES for some in spec.requests)


Places = dict[NodeName, frozenset[DeviceUse]]
"""Devices by node; those that several nodes can use are under EVERYWHERE."""


class Granting(Struct, frozen=True):
    """Devices for some pods on a node: the grants, and the changes that they cause."""

    granted: Granted
    taken: Mapping[NodeName, frozenset[DeviceUse]]
    shared: Mapping[str, Allocation]

    @property
    def uses(self) -> dict[PodUid, tuple[DeviceUse, ...]]:
        """What each pod gets for claims that had no devices, in order."""
        allocations = {
            pod: [each.allocation for each in some if each.allocation is not None]
            for pod, some in self.granted.items()
        }
        return {pod: tuple(sorted(uses_of(some))) for pod, some in allocations.items()}


Changed = Callable[[NodeName], frozenset[DeviceUse]]


class DeviceGrants:
    """Tries pods in their order first, as kube-scheduler does."""

    def __init__(
        self, state: DeviceState, taken: Changed, freed: Changed, count: Callable[[Need, Node], int]
    ) -> None:
        """`taken`, `freed`: what the cycle has changed for a node. `count`: for how many pods with a need
        alone the node has devices."""
        self._state: Final = state
        self._taken = taken
        self._freed = freed
        self._count = count

    def in_turn(
        self, wanted: Sequence[ClaimingPods], taken: frozenset[DeviceUse], *, is_local: bool
    ) -> Granted | None:
        """Devices for one node after the other. `is_local`: those that only the node can use come first."""
        granted: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        for each in wanted:
            here = taken | self._taken(each.node.name)
            found = None
            for only_local in (True, False) if is_local else (False,):
                found = (
                    found
                    or self._one_by_one(each, here, only_local=only_local)
                    or self._together(each, here, only_local=only_local)
                )
            if found is None:
                return None
            granted.update(found)
            taken |= devices_granted(found)
        return granted

    def on_all(self, wanted: Sequence[ClaimingPods], taken: frozenset[DeviceUse]) -> Granted | None:
        """Devices for all nodes in one search."""
        if sum(spec.most_devices for each in wanted for spec in each.specs) > CLAIM_SEARCH_DEVICES_MAX:
            return None
        places = [
            self._place(each.node, taken | self._taken(each.node.name), only_local=False) for each in wanted
        ]
        everything = [[claim for own in each.claims for claim in own] for each in wanted]
        answer = self._state.allocate_on(list(zip(places, everything, strict=True)))
        if answer.claims is None:
            return None
        granted: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        start = 0
        for each, some in zip(wanted, everything, strict=True):
            end = start + sum(claim.allocation is None for claim in some)
            part = replace(answer, claims=answer.claims[start:end], candidates=answer.candidates[start:end])
            granted.update(granted_by_pod(each, grants(some, part, each.node)))
            start = end
        return granted

    def _place(self, node: Node, taken: frozenset[DeviceUse], *, only_local: bool) -> NodeDevices:
        place = self._state.on(node, besides=taken, without=self._freed(node.name))
        return of_one_node(place) if only_local else place

    def _one_by_one(
        self, wanted: ClaimingPods, taken: frozenset[DeviceUse], *, only_local: bool
    ) -> Granted | None:
        granted = {}
        for pod, own in zip(wanted.pods, wanted.claims, strict=True):
            answer = self._state.allocate(own, self._place(wanted.node, taken, only_local=only_local))
            if answer.claims is None:
                return None
            granted[pod.uid] = grants(own, answer, wanted.node)
            taken |= devices_of([each.allocation for each in granted[pod.uid] if each.allocation])
        return granted

    def _together(
        self, wanted: ClaimingPods, taken: frozenset[DeviceUse], *, only_local: bool
    ) -> Granted | None:
        """All pods of the node in one search; of pods that differ in an order that makes it short."""
        places: dict[Need, list[int]] = {}
        for at, need in enumerate(wanted.needs):
            places.setdefault(need, []).append(at)
        if len(places) < 2:
            return self._searched(wanted, taken, only_local=only_local)
        fewest = sorted(places, key=lambda need: (self._count(need, wanted.node), need.name))
        ordered = wanted.in_order([at for need in fewest for at in places[need]])
        return self._searched(wanted, taken, only_local=only_local) or self._searched(
            ordered, taken, only_local=only_local
        )

    def _searched(
        self, wanted: ClaimingPods, taken: frozenset[DeviceUse], *, only_local: bool
    ) -> Granted | None:
        everything = [claim for own in wanted.claims for claim in own]
        answer = self._state.allocate(everything, self._place(wanted.node, taken, only_local=only_local))
        return (
            None if answer.claims is None else granted_by_pod(wanted, grants(everything, answer, wanted.node))
        )
