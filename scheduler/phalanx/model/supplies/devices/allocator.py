"""Allocates the claims of one pod on one node: an exact search, in the order of kube-scheduler.

Claims of pods on several nodes can be allocated together too: each from what its own node can use.

Claims, requests and devices are tried one after the other, with backtracking. The first complete allocation
is the answer, the one that kube-scheduler would choose: drivers influence it by the names of pools and
slices. Two devices between which no request and no constraint distinguishes are tried once.

An answer of no devices is an error where kube-scheduler stops to schedule the pod whatever other nodes have:
a selector without a value for a device, or all devices of a pool that is incomplete.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from phalanx.model.nodes import Node
from phalanx.model.pods import Term
from phalanx.model.supplies.devices.capacity import Amounts, CannotConsume
from phalanx.model.supplies.devices.claims import (
    ALL_DEVICES,
    AllocatedDevice,
    ClaimSpec,
    DeviceClasses,
    Request,
)
from phalanx.model.supplies.devices.constraints import ConstraintState
from phalanx.model.supplies.devices.counters import Counters
from phalanx.model.supplies.devices.limits import CLAIM_DEVICES_MAX
from phalanx.model.supplies.devices.matching import Match, Matcher, MatchError
from phalanx.model.supplies.devices.pools import (
    Device,
    DeviceId,
    NodeChoice,
    Pool,
    PoolId,
    QualifiedName,
    Slice,
)
from phalanx.model.supplies.devices.shares import Shares, ask_for_amounts, fits_empty
from phalanx.model.supplies.devices.uses import DeviceUse, is_share

CLAIM_SEARCH_STEPS_MAX: Final = 20_000
"""Devices that one search for the claims of a pod on a node tries: about 0.1 s. Nearly all searches need one
step for each device that they allocate."""

NOT_ENOUGH: Final = "not enough free devices match"
"""Why there is no allocation if nothing else is to be said."""


class Candidate(Struct, frozen=True, gc=False, eq=False):
    """A device that the node may use."""

    id: DeviceId
    device: Device
    slice: Slice
    pool: Pool


class Answer(Struct, frozen=True, gc=False):
    """The devices of each claim, or why there are none."""

    claims: tuple[tuple[AllocatedDevice, ...], ...] | None = None
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    """The same devices with their slices."""
    reason: str = ""
    is_error: bool = False
    """Whether no node would be tried."""
    is_undecided: bool = False
    """Whether the search ended at its bound."""


class _Chosen(Struct, frozen=True, gc=False):
    """A device that a request has; with `consumed` a share of it. `counted`: whether it uses counters."""

    request: Request
    candidate: Candidate
    consumed: Amounts | None
    counted: bool


_Level = Iterator["_Level | None"]
"""The levels below one, each after its choice was made, and undone when the next one is asked for; None if
all claims have their devices."""


class NodeDevices(Struct, frozen=True, gc=False):
    """What claims of a pod are allocated from: the pools of a node, and what is in use of devices."""

    node: Node
    pools: tuple[Pool, ...]
    in_use: frozenset[DeviceUse]


class _Stop(Exception):
    """The search has an answer other than an allocation."""

    def __init__(self, reason: str, *, is_error: bool = True, is_undecided: bool = False) -> None:
        super().__init__(reason)
        self.answer = Answer(reason=reason, is_error=is_error, is_undecided=is_undecided)


def allocate(
    place: NodeDevices, claims: Sequence[ClaimSpec], *, classes: DeviceClasses, matcher: Matcher
) -> Answer:
    """Allocate these claims together. Each of them must have neither problems nor unsupported fields."""
    return allocate_on(((place, claims),), classes=classes, matcher=matcher)


def allocate_on(
    wanted: Sequence[tuple[NodeDevices, Sequence[ClaimSpec]]], *, classes: DeviceClasses, matcher: Matcher
) -> Answer:
    """Allocate claims on several nodes together, each of them on its own node; the answer is in their order.

    A device that several of the nodes can use is allocated once. Equal places must be one object.
    """
    for _, claims in wanted:
        for spec in claims:
            wrong = (*matcher.problems(spec, classes), *spec.unsupported)
            if wrong:
                return Answer(reason=wrong[0], is_error=True)
    if len(wanted) > 1 and (name := _contradicted(wanted)):
        return Answer(reason=f"{name} has several generations", is_undecided=True)
    try:
        return _Search(wanted, classes, matcher).answer()
    except _Stop as stop:
        return stop.answer


def _contradicted(wanted: Sequence[tuple[NodeDevices, Sequence[ClaimSpec]]]) -> str:
    """A pool whose counters these nodes see differently: some do not see its newest generation."""
    seen: dict[PoolId, Pool] = {}
    for place, _ in wanted:
        for pool in place.pools:
            if seen.setdefault(pool.id, pool).counter_sets != pool.counter_sets:
                return f"pool {pool.id[1]} of driver {pool.id[0]}"
    return ""


class _Search:
    """One search. `_taken` and the states of counters and constraints are undone when a choice fails."""

    def __init__(
        self,
        wanted: Sequence[tuple[NodeDevices, Sequence[ClaimSpec]]],
        classes: DeviceClasses,
        matcher: Matcher,
    ) -> None:
        self._places = tuple(place for place, _ in wanted)
        self._claims = tuple(spec for _, claims in wanted for spec in claims)
        self._place_of = tuple(number for number, (_, claims) in enumerate(wanted) for _ in claims)
        self._classes = classes
        self._matcher = matcher
        self._usable = [list(candidates(place.pools)) for place in self._places]
        self._in_use: frozenset[DeviceUse] = (
            self._places[0].in_use
            if len(wanted) == 1
            else frozenset(each for place in self._places for each in place.in_use)
        )
        self._matches: dict[tuple[int, Request, DeviceId], Match] = {}
        self._kinds: dict[DeviceId, Hashable] = {}
        self._requests = tuple(
            dict.fromkeys(each for spec in self._claims for some in spec.requests for each in some)
        )
        self._attributes = tuple(
            dict.fromkeys(each.attribute for spec in self._claims for each in spec.constraints)
        )
        self._all: dict[tuple[int, Request], list[Candidate]] = {}
        pools = [pool for place in self._places for pool in place.pools]
        self._counters = Counters(pools, self._in_use)
        self._constraints = [ConstraintState(spec.constraints) for spec in self._claims]
        self._taken: dict[DeviceId, set[int]] = {}
        """By whole device, the claims that have it."""
        self._matters = ask_for_amounts(self._requests) or any(map(is_share, self._in_use))
        """Whether the capacity of devices may matter that do not say so themselves."""
        self._chosen: list[list[_Chosen]] = [[] for _ in self._claims]
        self._steps = 0

    def answer(self) -> Answer:
        for place, spec in zip(self._place_of, self._claims, strict=True):
            self._check(place, spec)
        if self._find():
            return Answer(
                claims=tuple(
                    tuple(_allocated(each, number, index) for index, each in enumerate(chosen))
                    for number, chosen in enumerate(self._chosen)
                ),
                candidates=tuple(tuple(each.candidate for each in chosen) for chosen in self._chosen),
            )
        unused = next((pool.problem for place in self._places for pool in place.pools if pool.problem), "")
        return Answer(reason=unused or NOT_ENOUGH)

    # --- what is known before the search ------------------------------------------------------------------

    def _check(self, place: int, spec: ClaimSpec) -> None:
        """Find the devices of requests for all, and refuse a claim that would have too many devices."""
        least = 0
        for alternatives in spec.requests:
            for request in alternatives:
                if request.count == ALL_DEVICES and (place, request) not in self._all:
                    self._all[place, request] = self._all_devices(place, request)
            least += min(self._count(place, request) for request in alternatives)
        if least > CLAIM_DEVICES_MAX:
            raise _Stop(f"needs {least} devices, and a claim can have {CLAIM_DEVICES_MAX}")

    def _count(self, place: int, request: Request) -> int:
        return len(self._all[place, request]) if request.count == ALL_DEVICES else request.count

    def _all_devices(self, place: int, request: Request) -> list[Candidate]:
        found = []
        for pool in self._places[place].pools:
            if pool.problem:
                raise _Stop(f"{request.field}: asks for all devices, but {pool.problem}")
            found += [
                each
                for each in candidates((pool,))
                if self._is_selectable(place, request, each) and self._can_have(request, each)
            ]
        return found

    def _match(self, place: int, request: Request, each: Candidate) -> Match:
        key = (place, request, each.id)
        known = self._matches.get(key)
        if known is None:
            node = self._places[place].node
            known = self._matches[key] = match_of(self._matcher, self._classes, node, request, each)
        return known

    def _is_selectable(self, place: int, request: Request, each: Candidate) -> bool:
        found = self._match(place, request, each)
        if isinstance(found, MatchError):
            raise _Stop(found.text)
        return found

    def _kind(self, each: Candidate) -> Hashable:
        """Equal for devices that can take each other's place in every allocation."""
        known = self._kinds.get(each.id)
        if known is None:
            seeing = self._seeing(each)
            matches = [self._match(place, some, each) for place in seeing for some in self._requests]
            own = kind_of(each, matches, self._attributes, is_used=each.id in self._in_use)
            known = self._kinds[each.id] = (seeing, own)
        return known

    def _seeing(self, each: Candidate) -> tuple[int, ...]:
        """The places that can use the device."""
        if len(self._places) == 1:
            return (0,)
        return tuple(number for number, ids in enumerate(self._ids) if each.id in ids)

    @cached_property
    def _shares(self) -> Shares:
        return Shares(self._in_use, are_amounts_asked=self._matters)

    @cached_property
    def _ids(self) -> list[set[DeviceId]]:
        return [{each.id for each in usable} for usable in self._usable]

    # --- the search ---------------------------------------------------------------------------------------

    def _find(self) -> bool:
        """Search depth first. The levels are a list: there may be more of them than calls can be nested."""
        levels: list[_Level] = [self._request(0, 0)]
        while levels:
            for below in levels[-1]:
                if below is None:
                    return True
                levels.append(below)
                break
            else:
                levels.pop()
        return False

    def _request(self, claim: int, position: int) -> _Level:
        """The alternatives of a request, or what comes after the last request of a claim."""
        if claim == len(self._claims):
            yield None
        elif position == len(self._claims[claim].requests):
            yield self._request(claim + 1, 0)
        else:
            for each in self._claims[claim].requests[position]:
                yield self._devices(claim, position, each, 0, 0)

    def _devices(self, claim: int, position: int, request: Request, have: int, start: int) -> _Level:
        """Choose the remaining devices of a request from the candidates at `start` and after it."""
        place = self._place_of[claim]
        missing = self._count(place, request) - have
        if request.count == ALL_DEVICES and not self._all[place, request]:
            return
        if not missing:
            yield self._request(claim, position + 1)
            return
        if missing > CLAIM_DEVICES_MAX - len(self._chosen[claim]):
            return
        if request.count == ALL_DEVICES:
            if self._try(claim, request, self._all[place, request][have]):
                yield self._devices(claim, position, request, have + 1, 0)
                self._give_back(claim, request)
            return
        failed: set[Hashable] = set()
        usable = self._usable[place]
        for index in range(start, len(usable)):
            each = usable[index]
            if self._is_taken(claim, request, each) or not self._is_selectable(place, request, each):
                continue
            kind = self._kind(each)
            if self._matters or each.device.allows_shares or each.device.consumable:
                kind = (kind, self._shares.kind(each.id, each.device))
            if kind in failed or not self._try(claim, request, each):
                continue
            yield self._devices(claim, position, request, have + 1, index + 1)
            self._give_back(claim, request)
            failed.add(kind)

    def _give_back(self, claim: int, request: Request) -> None:
        """Give the last device of the claim back: nothing was found with it."""
        last = self._chosen[claim].pop()
        each = last.candidate
        if last.consumed is None:
            self._taken[each.id].discard(claim)
        else:
            self._shares.give_back(each.id, last.consumed)
        self._constraints[claim].remove(request, each.device)
        if last.counted:
            self._counters.give_back(each.pool.id, each.device)

    def _is_taken(self, claim: int, request: Request, each: Candidate) -> bool:
        taken = self._taken.get(each.id, ())
        return claim in taken if request.admin_access else bool(taken) or each.id in self._in_use

    def _try(self, claim: int, request: Request, each: Candidate) -> bool:
        """Take the device if it is free, and counters, taints and constraints allow it."""
        self._steps += 1
        if self._steps > CLAIM_SEARCH_STEPS_MAX:
            raise _Stop(
                f"undecided after {CLAIM_SEARCH_STEPS_MAX} tried devices", is_error=False, is_undecided=True
            )
        device, is_all = each.device, request.count == ALL_DEVICES
        matters = self._matters or device.consumable
        if self._is_taken(claim, request, each) or (
            matters and not is_all and not self._has_capacity(request, each)
        ):
            return False
        # The counters of a device are used once, by its first share.
        counted = not (device.allows_shares and self._shares.is_shared(each.id))
        if counted and not self._counters.take(each.pool.id, device):
            return False
        is_right = request.tolerates(device.taints)
        if is_right and not self._constraints[claim].add(request, device):
            if is_all:
                raise _Stop(f"{request.field}: a constraint does not allow all devices, such as {each.id[2]}")
            is_right = False
        elif is_right and is_all and matters and not self._has_capacity(request, each):
            self._constraints[claim].remove(request, device)
            is_right = False
        if not is_right:
            if counted:
                self._counters.give_back(each.pool.id, device)
            return False
        consumed = None
        if device.allows_shares:
            consumed = self._shares.take(request, each.id, device)
        else:
            self._taken.setdefault(each.id, set()).add(claim)
        self._chosen[claim].append(_Chosen(request, each, consumed, counted))
        return True

    def _has_capacity(self, request: Request, each: Candidate) -> bool:
        """Whether enough of the capacity of the device is free."""
        try:
            return self._shares.fits(request, each.id, each.device)
        except CannotConsume as wrong:
            raise _cannot(request, each, wrong) from wrong

    def _can_have(self, request: Request, each: Candidate) -> bool:
        """Whether the capacity of the device would be enough if all of it was free."""
        try:
            return fits_empty(request, each.id[0], each.device)
        except CannotConsume as wrong:
            raise _cannot(request, each, wrong) from wrong


def _allocated(chosen: _Chosen, claim: int, position: int) -> AllocatedDevice:
    """As it is answered. A share has a number in place of an ID, until it is known whose claim this is."""
    request, each = chosen.request, chosen.candidate
    found = AllocatedDevice(
        request.name, each.id, admin_access=request.admin_access, binding=each.device.binding
    )
    if chosen.consumed is None:
        return found
    return structs.replace(found, share_id=f"{claim}-{position}", consumed=chosen.consumed)


def _cannot(request: Request, each: Candidate, wrong: CannotConsume) -> _Stop:
    return _Stop(f"{request.field}.capacity: device {each.id[2]} of driver {each.id[0]}: {wrong}")


def match_of(
    matcher: Matcher, classes: DeviceClasses, node: Node, request: Request, each: Candidate
) -> Match:
    """Whether the device matches the request on this node."""
    found = matcher.matches(request, classes[request.device_class], each.id[0], each.device)
    if found is True and each.slice.per_device:
        return each.device.choice is not None and each.device.choice.allows(node)
    return found


def kind_of(
    each: Candidate, matches: Sequence[Match], attributes: Sequence[QualifiedName], *, is_used: bool
) -> Hashable:
    """Equal for devices that can take each other's place: requests match both or neither, and constraints
    read the same values."""
    device = each.device
    return (
        tuple(matches),
        tuple(device.attributes.get(name) for name in attributes),
        device.taints,
        (device.consumes, each.pool.id) if device.consumes else (),
        is_used,
    )


def candidates(pools: Sequence[Pool]) -> Iterator[Candidate]:
    """The devices of pools without a problem, in the order of kube-scheduler."""
    for pool in pools:
        if not pool.problem:
            for each in pool.slices:
                for device in each.devices:
                    yield Candidate((*pool.id, device.name), device, each, pool)


def is_local(each: Candidate) -> bool:
    """Whether only one node can use the device."""
    choice = each.slice.choice_of(each.device)
    return choice is not None and bool(choice.node)


def nodes_of(devices: Sequence[Candidate], node: Node) -> NodeChoice:
    """The nodes that can use all of these devices, which were allocated for this node."""
    choices = [each.slice.choice_of(each.device) for each in devices]
    if any(each.device.binds_to_node for each in devices) or any(each and each.node for each in choices):
        return NodeChoice(node=node.name)
    requirements = dict.fromkeys(
        requirement
        for each in choices
        for term in ((each.terms or ()) if each is not None and not each.all_nodes else ())
        for requirement in term.requirements
    )
    if not requirements:
        return NodeChoice(all_nodes=True)
    return NodeChoice(terms=(Term(tuple(requirements)),))
