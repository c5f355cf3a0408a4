"""Capacity that the leader holds: the nodes with a hold, and S25.

A hold counts only while it can be valid: each kind of hold has a time limit, and a beneficiary that does not
exist needs no capacity.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.charges import without_marked
from phalanx.model.decisions import CycleResult, Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory, Move, Nomination
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.resources import NONE, Resources, add, subtract, sum_of
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import is_chosen_by_kubelet, offered_of, pod_usage

from phalanx_simulator.invariants.bounds import CONVERGED_S, LOST_MEMBER_HOLD_S, NOMINATION_S, VOLUME_WAIT_S
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.invariants.claim_facts import (
    device_claims_of,
    devices_wanted,
    extended_resources,
    found,
    is_of_devices,
    volume_claims_of,
)
from phalanx_simulator.invariants.facts import GangKey, PodFact
from phalanx_simulator.invariants.truth import GangFact, Truth

_HoldKey = tuple[str, GangId, object]
"""The kind, the beneficiary, and a value that distinguishes later holds of the same kind for the same
gang."""


class _NodeHold(Struct, frozen=True):
    """Nodes with held capacity, for `seconds` at most.

    `is_recreated`: a controller recreates the beneficiary with another UID.
    """

    key: _HoldKey
    nodes: tuple[str, ...]
    seconds: float
    is_recreated: bool = False


class HeldNodes:
    """Nodes whose capacity is held; call `take` after each cycle."""

    def __init__(self, truth: Truth, now: Callable[[], float]) -> None:
        self._truth = truth
        self._now = now
        self._host = ""
        self._holds: list[_NodeHold] = []
        self._previous: list[_NodeHold] = []
        self._since: dict[_HoldKey, float] = {}
        self._waiting: dict[GangId, tuple[float, dict[PodUid, NodeName]]] = {}
        """By gang whose claims are not bound yet: when it was placed, and its pods' nodes."""

    def take(self, host: str, result: CycleResult) -> None:
        """Record the holds of a cycle: nominations, moves, reservations, lost members."""
        if host != self._host:
            self._host, self._since = host, {}
        self._previous, self._holds = self._holds, list(_holds_in(result.memory))
        now = self._now()
        self._since = {hold.key: self._since.get(hold.key, now) for hold in self._holds}
        for placement in result.placements:
            self._waiting[placement.gang] = (now, {bind.pod: bind.node for bind in placement.binds})

    def nodes(self, *, excluding: GangFact, include_previous: bool = False) -> frozenset[str]:
        """Nodes with a hold for another gang than this one, of the last cycle or of the last two."""
        own = excluding.key.name if excluding.key.kind == "pod" else excluding.uid
        holds = [*self._holds, *(self._previous if include_previous else ())]
        held = {
            name for hold in holds if hold.key[1] != own and self._may_be_valid(hold) for name in hold.nodes
        }
        return frozenset(held | set(self._awaiting_claims()))

    def _awaiting_claims(self) -> Iterator[str]:
        """Nodes of placed pods that are not bound, since volumes are provisioned for them."""
        for gang, (at, nodes) in list(self._waiting.items()):
            pods = [self._truth.pods.get(uid) for uid in nodes]
            waiting = [pod for pod in pods if pod is not None and pod.is_waiting and self._has_claims(pod)]
            if not waiting or self._now() - at > VOLUME_WAIT_S:
                del self._waiting[gang]
            yield from (nodes[PodUid(pod.uid)] for pod in waiting)

    def _has_claims(self, pod: PodFact) -> bool:
        data = found(self._truth.store, self._truth.key_of(pod)) or {}
        if any(volume_claims_of(data)) or any(device_claims_of(data)):
            return True
        return bool(devices_wanted(data, extended_resources(self._truth.store)))

    def _may_be_valid(self, hold: _NodeHold) -> bool:
        since = self._since.get(hold.key, self._now())
        return self._now() - since <= hold.seconds and (hold.is_recreated or self._exists(hold.key[1]))

    def _exists(self, gang: GangId) -> bool:
        """Whether the beneficiary exists or was deleted less than CONVERGED_S ago.

        Gangs by label are assumed to exist.
        """
        then = self._truth.revision_before(CONVERGED_S)
        group = self._truth.group_with(gang)
        if group is not None:
            versions = self._truth.groups_since(GangKey("group", group.namespace, group.name), then)
            return any(version is not None and version.uid == gang for version in versions)
        return "/" in gang or any(pod is not None for pod in self._truth.pod_since(gang, then))


def _holds_in(memory: Memory) -> Iterator[_NodeHold]:
    for gang, nomination in memory.nominations.items():
        yield _NodeHold(("nomination", gang, nomination.victims), tuple(nomination.usage), NOMINATION_S)
    for gang, move in memory.moves.items():
        yield _NodeHold(("move", gang, move.pods), tuple(move.usage), NOMINATION_S, bool(move.controller))
    for gang, reservation in memory.reserved_starts.items():
        yield _NodeHold(("reservation", gang, None), tuple(reservation.usage), inf)
    for gang, composition in memory.compositions.items():
        yield _NodeHold(
            ("lost members", gang, composition.since), tuple(composition.held), LOST_MEMBER_HOLD_S
        )


Hold = Nomination | Move


class HeldCapacityIsRespected(Check):
    """S25: capacity freed for a gang, or held for a moved gang, is not given to others.

    It considers holds that exist before and after a cycle. On each node where the cycle places other gangs,
    the capacity that they leave, with the capacity that is being freed, must cover the holds. Gangs of the
    beneficiary's queue with a higher priority may use its nomination, and gangs of other queues of higher
    coverage; a guarantee of such a gang is not computed exactly. Moved pods without a group are ignored:
    they are recreated with other UIDs.
    """

    name = "S25"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        holds = _persistent_holds(snapshot, result)
        if not holds or not result.placements:
            return
        wanted: dict[NodeName, Resources] = {}
        for gang, hold in holds.items():
            for node, amounts in _still_held(gang, hold, snapshot, result).items():
                wanted[node] = add(wanted.get(node, NONE), amounts)
        capacity = _future_capacity(snapshot, holds)
        given = _given_to_others(snapshot, result, holds)
        for placement in result.placements:
            if placement.gang in holds or _may_use_hold(placement, holds, snapshot):
                continue
            for node in dict.fromkeys(bind.node for bind in placement.binds if bind.node in wanted):
                held = {
                    name: amount
                    for name, amount in wanted[node].items()
                    if not is_of_devices(name, node, snapshot)
                }
                self._judge(placement, node, held, subtract(capacity.get(node, NONE), given[node]))

    def _judge(self, placement: Placement, node: NodeName, wanted: Resources, left: Resources) -> None:
        for name, amount in wanted.items():
            has = left.get(name, 0) + offered_of(name)
            if amount > 0 and not is_chosen_by_kubelet(name) and has < amount:
                why = f"leaves {has} of the {amount} of {name} that are held there"
                self.violated(placement.group, f"placed on {node}, which {why}")
                return


def _without_deadline(nomination: Nomination | None) -> Nomination | None:
    """The nomination without its deadline, which may change."""
    return nomination and replace(nomination, until=0)


def _persistent_holds(snapshot: Snapshot, result: CycleResult) -> dict[GangId, Hold]:
    """Holds that existed before the cycle and still exist."""
    before, after = snapshot.memory, result.memory
    holds: dict[GangId, Hold] = {
        gang: nomination
        for gang, nomination in after.nominations.items()
        if nomination.usage
        and _without_deadline(before.nominations.get(gang)) == _without_deadline(nomination)
    }
    moves = after.moves.items()
    holds.update({gang: move for gang, move in moves if not move.controller and gang in before.moves})
    return {gang: hold for gang, hold in holds.items() if gang in snapshot.gangs}


def _still_held(
    gang: GangId, hold: Hold, snapshot: Snapshot, result: CycleResult
) -> Mapping[NodeName, Resources]:
    """The held amounts by node, less the usage of recreated members of a moved gang."""
    wanted = {node: without_marked(amounts) for node, amounts in hold.usage.items()}
    if isinstance(hold, Nomination):
        return wanted
    binds = (bind for placement in result.placements if placement.gang == gang for bind in placement.binds)
    nodes: dict[PodUid, NodeName] = {bind.pod: bind.node for bind in binds}
    for pod in snapshot.gangs[gang].members:
        if pod.node is not None and pod.holds_node and not pod.deleting and pod.uid not in hold.pods:
            nodes[pod.uid] = pod.node
        node = nodes.get(pod.uid)
        if node is not None and node in wanted:
            wanted[node] = subtract(wanted[node], pod_usage(pod))
    return wanted


def _future_capacity(snapshot: Snapshot, holds: Mapping[GangId, Hold]) -> dict[NodeName, Resources]:
    """Capacity that is free, or will be when terminating pods and victims have ended."""
    victims = {
        pod
        for hold in holds.values()
        for pod in (hold.victims if isinstance(hold, Nomination) else hold.pods)
    }
    capacity = {name: state.free for name, state in snapshot.nodes.items()}
    for gang in snapshot.gangs.values():
        for pod in gang.members:
            if pod.node in capacity and pod.holds_node and (pod.deleting or pod.uid in victims):
                capacity[pod.node] = add(capacity[pod.node], pod_usage(pod))
    return capacity


def _given_to_others(
    snapshot: Snapshot, result: CycleResult, holds: Mapping[GangId, Hold]
) -> dict[NodeName, Resources]:
    """Capacity by node that this cycle gives to pods of other gangs than the beneficiaries."""
    given: dict[NodeName, Resources] = {}
    for placement in result.placements:
        gang = snapshot.gangs.get(placement.gang)
        shapes = {pod.uid: pod.shape for pod in gang.members} if gang is not None else {}
        for bind in placement.binds:
            is_other = bind.pod in shapes and placement.gang not in holds
            asked = shapes[bind.pod].requests if is_other else NONE
            given[bind.node] = add(given.get(bind.node, NONE), asked)
    return given


def _may_use_hold(placement: Placement, holds: Mapping[GangId, Hold], snapshot: Snapshot) -> bool:
    """Whether the gang has a higher priority than a beneficiary of its queue, or may be covered further."""
    gang = snapshot.gangs.get(placement.gang)
    if gang is None:
        return False
    others = [snapshot.gangs[other] for other in holds]
    is_evictable = any(other.disruption.is_preemptible and other.queue != gang.queue for other in others)
    return any(_outranks(gang, other) for other in others) or (
        is_evictable and _may_be_covered(gang, placement, snapshot)
    )


def _outranks(gang: Gang, other: Gang) -> bool:
    return gang.queue == other.queue and gang.priority > other.priority


def _may_be_covered(gang: Gang, placement: Placement, snapshot: Snapshot) -> bool:
    """Whether a guarantee on its path is large enough for some resource of the placed pods."""
    placed = {bind.pod for bind in placement.binds}
    asked = sum_of(pod.shape.requests for pod in gang.members if pod.uid in placed)
    path, above = [], snapshot.queues.get(gang.queue)
    while above is not None and above not in path:
        path.append(above)
        above = snapshot.queues.get(above.parent) if above.parent is not None else None
    guarantees = [queue.guarantee for queue in path]
    guarantees += [flavor.guarantee for queue in path for flavor in queue.flavors]
    return any(
        0 < amount <= guarantee.get(name, 0) for guarantee in guarantees for name, amount in asked.items()
    )
