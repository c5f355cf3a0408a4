"""Allocates devices for pods that have nodes already."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.framework.claiming_pods import ClaimingPods, Granted, devices_granted, granted_by_pod
from phalanx.framework.device_needs import Need
from phalanx.framework.shared_choices import devices_of
from phalanx.model.devices.allocator import NodeDevices
from phalanx.model.devices.claims import ClaimGrant
from phalanx.model.devices.cluster import DeviceState, grants
from phalanx.model.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.devices.shared_claims import of_one_node
from phalanx.model.devices.uses import DeviceUse
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node

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
