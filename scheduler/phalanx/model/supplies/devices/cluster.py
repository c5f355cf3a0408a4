"""All devices of a cluster, the classes, and the claims: the part of a snapshot that concerns devices."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import structs

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.pods import PodClaim
from phalanx.model.supplies.devices.allocator import (
    Answer,
    Candidate,
    NodeDevices,
    allocate_on,
    candidates,
    is_local,
    match_of,
    nodes_of,
)
from phalanx.model.supplies.devices.claims import (
    AllocatedDevice,
    Allocation,
    Claim,
    ClaimGrant,
    ClaimSpec,
    DeviceClass,
    Request,
    distinct_uses,
)
from phalanx.model.supplies.devices.joint_slots import FreeDevices, PlainKinds, free_for_any
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pod_claims import Unresolved, allocate_for_pod, resolve
from phalanx.model.supplies.devices.pools import DeviceId, Inventory, Pool, PoolId, Slice, TaintRule
from phalanx.model.supplies.devices.shared_claims import Choice, Chooser, ClaimSet, joint_choices
from phalanx.model.supplies.devices.shared_pools import SharedPools
from phalanx.model.supplies.devices.shares import Shares, is_within
from phalanx.model.supplies.devices.slots import SlotCounter
from phalanx.model.supplies.devices.uses import DeviceUse, device_of, is_share, new_share_id, shares_by_device
from phalanx.model.supplies.part import SupplyPart

EXTENDED_SHARES_MAX: Final = 256
"""Shares of one device that a node offers of an extended resource at most: more than pods run on a node. A
device may allow any number."""

NODE_POOLS_CACHE_MAX: Final = 1 << 15
"""Nodes whose pools are kept while no slice changes: some hundred bytes each."""


class ClusterDevices(SupplyPart, frozen=True, gc=False):
    """Slices, classes and taint rules by name, claims by namespace and name; each in this order. It is empty
    as long as no pod of this scheduler has a claim."""

    supply: ClassVar[str] = "devices"

    slices: tuple[Slice, ...] = ()
    classes: Mapping[str, DeviceClass] = {}
    claims: tuple[Claim, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()
    extended: Mapping[str, str] = {}
    """Extended resources that pods of this scheduler request, by name, each with its class."""
    are_claimed: bool = False
    """Whether pods of this scheduler have claims."""
    are_listed: bool = True
    """Whether all of these kinds are known; they are listed from the first such pod on."""
    are_unallocated: bool = False
    """Whether claims are regarded as if they had no devices."""

    @property
    def are_known(self) -> bool:
        """Whether pods have claims, or had some before."""
        return self.are_claimed or bool(self.slices or self.classes or self.claims)


_NONE: Final = frozenset[DeviceUse]()
_EMPTY: Final = Shares((), are_amounts_asked=False)
"""No share is in use; nothing is taken of it."""


def without_allocations(devices: ClusterDevices) -> ClusterDevices:
    """The same devices, none of them in use."""
    if not any(claim.allocation is not None for claim in devices.claims):
        return devices
    claims = [structs.replace(each, allocation=None, reserved_for=(), unbound="") for each in devices.claims]
    return structs.replace(devices, claims=tuple(claims), are_unallocated=True)


def grants(claims: Sequence[Claim], answer: Answer, node: Node) -> tuple[ClaimGrant, ...]:
    """What is written for a pod that is placed on the node: its claims, with the answer for those that have
    no allocation. The answer must have devices."""
    assert answer.claims is not None
    decided = iter(zip(answer.claims, answer.candidates, strict=True))
    found = []
    for claim in claims:
        allocation = None
        if claim.allocation is None:
            devices, candidates = next(decided)
            allocation = Allocation(devices, nodes_of(candidates, node))
        found.append(ClaimGrant(claim.namespace, claim.name, claim.uid, allocation))
    return tuple(found)


class NodePools:
    """The pools of nodes, found once while neither slices nor the node change."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._known: dict[NodeName, tuple[Node, tuple[Pool, ...]]] = {}

    def of(self, node: Node) -> tuple[Pool, ...]:
        """The pools that the node can use."""
        known = self._known.get(node.name)
        if known is None or known[0] is not node:
            if len(self._known) >= NODE_POOLS_CACHE_MAX:
                self._known.clear()
            known = self._known[node.name] = (node, self._inventory.pools(node))
        return known[1]


def with_share_ids(answer: Answer, claims: Sequence[Claim]) -> Answer:
    """The answer for these claims of which some have no allocation, with IDs of its shares."""
    if not any(each.share_id for some in answer.claims or () for each in some):
        return answer
    waiting = [each for each in claims if each.allocation is None]
    found = [
        tuple(_with_id(each, claim, position) for position, each in enumerate(some))
        for claim, some in zip(waiting, answer.claims or (), strict=True)
    ]
    return structs.replace(answer, claims=tuple(found))


def _with_id(each: AllocatedDevice, claim: Claim, position: int) -> AllocatedDevice:
    if not each.share_id:
        return each
    return structs.replace(each, share_id=new_share_id(claim.uid, each.request, each.device, position))


class DeviceState:
    """The devices of one snapshot: what is free, and what claims can have. `matcher` outlives snapshots."""

    def __init__(
        self, devices: ClusterDevices, matcher: Matcher, earlier: "DeviceState | None" = None
    ) -> None:
        """`earlier`: that of another snapshot, of which unchanged parts are kept."""
        self.devices: Final = devices
        self._classes = devices.classes
        self._matcher = matcher
        self.inventory: Final[Inventory] = (
            Inventory(devices.slices, devices.taint_rules)
            if earlier is None
            or earlier.devices.slices is not devices.slices
            or earlier.devices.taint_rules is not devices.taint_rules
            else earlier.inventory
        )
        self.node_pools: Final[NodePools] = (
            earlier.node_pools
            if earlier is not None and earlier.inventory is self.inventory
            else NodePools(self.inventory)
        )
        self._claims = {(each.namespace, each.name): each for each in devices.claims}
        self._extended_claims = {each.owner: each for each in devices.claims if each.is_for_extended}
        in_use: dict[PoolId, set[DeviceUse]] = {}
        for each in distinct_uses(devices.claims):
            in_use.setdefault((each[0], each[1]), set()).add(each)
        self._in_use = {pool: frozenset(used) for pool, used in in_use.items()}
        self._shares = shares_by_device(each for used in in_use.values() for each in used)

    def claim(self, namespace: str, name: str) -> Claim | None:
        """The claim of this name."""
        return self._claims.get((namespace, name))

    def is_in_use(self, device: DeviceId) -> bool:
        """Whether a claim has the device, or a share of it."""
        return device in self._in_use.get(device[:2], _NONE) or device in self._shares

    def uses_of(self, device: DeviceId) -> tuple[DeviceUse, ...]:
        """What claims have of the device."""
        whole = (device,) if device in self._in_use.get(device[:2], _NONE) else ()
        return (*whole, *self._shares.get(device, ()))

    def can_use(self, uses: Collection[DeviceUse]) -> bool:
        """Whether the devices are free for these uses beside what claims have."""
        for use in uses:
            device = device_of(use)
            if not is_share(use):
                if self.is_in_use(device):
                    return False
                continue
            found = self.inventory.device(device)
            beside = {*self.uses_of(device), *(each for each in uses if device_of(each) == device)}
            if device in beside or (found is not None and not is_within(device, found, beside)):
                return False
        return True

    def extended_claim(self, pod_uid: str) -> Claim | None:
        """The claim that a scheduler made for the extended resources of the pod."""
        return self._extended_claims.get(pod_uid)

    def offered(self, node: Node) -> dict[str, int]:
        """The extended resources that a node does not offer itself, each with the number of devices of its
        class that it can use; a device in shares counts as often as it can be allocated. A device that others
        can use too counts on each of them."""
        missing = [each for each in self.devices.extended if not node.allocatable.get(each)]
        usable = list(candidates(self.node_pools.of(node))) if missing else []
        found = {name: sum(self._pods_with(name, each, node) for each in usable) for name in missing}
        return {name: count for name, count in found.items() if count}

    def counted(self, node: Node, classes: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """For each resource that a node does not list, how often the devices that only it can use count; see
        `times`. `classes`: by resource."""
        missing = [name for name in classes if not node.lists(name)]
        local = [each for each in candidates(self.inventory.pools(node)) if is_local(each)] if missing else []
        found = {name: sum(self.times(name, classes[name], each, node) for each in local) for name in missing}
        return {name: count for name, count in found.items() if count}

    def times(self, name: str, classes: Sequence[str], device: Candidate, node: Node) -> int:
        """How often queues count the device as a resource that the node does not list: as often as pods can
        have it that request the resource, if there are some; else once for claims to these classes."""
        asked = (Request(name=each, field="", device_class=each) for each in classes)
        return self._pods_with(name, device, node) or int(
            any(match_of(self._matcher, self._classes, node, each, device) is True for each in asked)
        )

    def _pods_with(self, resource: str, device: Candidate, node: Node) -> int:
        """How many pods of this scheduler that request one of the resource can have the device."""
        name = self.devices.extended.get(resource, "")
        asked = Request(name=name, field="", device_class=name)
        if name not in self._classes:
            return 0
        if match_of(self._matcher, self._classes, node, asked, device) is not True:
            return 0
        return _EMPTY.most(asked, device.id, device.device, EXTENDED_SHARES_MAX)

    def claims_of(
        self, entries: Sequence[PodClaim], *, namespace: str, pod_uid: str
    ) -> tuple[Claim, ...] | Unresolved:
        """The claims of a pod, or why it cannot be scheduled."""
        return resolve(entries, namespace=namespace, pod_uid=pod_uid, find=self.claim)

    def on(
        self,
        node: Node,
        *,
        besides: frozenset[DeviceUse] = frozenset(),
        without: frozenset[DeviceUse] = frozenset(),
    ) -> NodeDevices:
        """What a node can use, if the devices `without` are not in use any more, and then `besides` are."""
        pools = self.node_pools.of(node)
        in_use = _NONE.union(*[self._in_use.get(pool.id, _NONE) for pool in pools])
        return NodeDevices(node, pools, (in_use - without) | besides)

    def shared_pools(self, nodes: Sequence[Node]) -> SharedPools:
        """The devices that several of these nodes can use."""
        return SharedPools(self.inventory, nodes, self._classes, self._matcher)

    def allocate(self, claims: Sequence[Claim], place: NodeDevices) -> Answer:
        """Allocate for one pod those of its claims that have no allocation."""
        answer = allocate_for_pod(claims, place, classes=self._classes, matcher=self._matcher)
        return with_share_ids(answer, claims)

    def shared(
        self,
        claims: Sequence[Claim],
        sets: Sequence[ClaimSet],
        score: Callable[[int, Sequence[Node], Sequence[Allocation]], int],
        *,
        besides: frozenset[DeviceUse] = frozenset(),
        without: frozenset[DeviceUse] = frozenset(),
    ) -> Iterator[Choice]:
        """What claims that members of a gang share can have; see there."""
        chooser = Chooser(
            on=lambda node: self.on(node, besides=besides, without=without),
            allocate=self.allocate_on,
            score=score,
        )
        return joint_choices(claims, sets, chooser)

    def allocate_on(self, wanted: Sequence[tuple[NodeDevices, Sequence[Claim]]]) -> Answer:
        """Allocate for pods on several nodes together those of their claims that have no allocation."""
        specs = [
            (place, [each.spec for each in claims if each.allocation is None]) for place, claims in wanted
        ]
        answer = allocate_on(specs, classes=self._classes, matcher=self._matcher)
        return with_share_ids(answer, [claim for _, claims in wanted for claim in claims])

    def free_for_any(self, kinds: PlainKinds, place: NodeDevices) -> FreeDevices:
        """For each set of these kinds, how many free devices match one of them; see there."""
        return free_for_any(place, kinds, classes=self._classes, matcher=self._matcher)

    def matching(self, requests: Sequence[Request], place: NodeDevices) -> list[Candidate]:
        """The devices that one of these requests may have, if they are free."""
        return [
            each
            for each in candidates(place.pools)
            if any(
                request.tolerates(each.device.taints)
                and match_of(self._matcher, self._classes, place.node, request, each) is True
                for request in requests
            )
        ]

    def slots(self, claims: Sequence[ClaimSpec]) -> SlotCounter:
        """Counts the members with these claims that fit on nodes."""
        return SlotCounter(claims, classes=self._classes, matcher=self._matcher)
