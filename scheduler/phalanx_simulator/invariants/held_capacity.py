"""Capacity held by the leader: nodes where others may have to wait, and S25.

A hold counts only as long as it can be valid: each kind of hold has a time limit, and a beneficiary that does
not exist needs no capacity.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.decisions import CycleResult, Placement
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import pod_usage
from phalanx.model.memory import Memory, Move, Nomination
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.numa import is_numa_resource
from phalanx.model.resources import NONE, Resources, add, subtract
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.invariants.bounds import CONVERGED_S, LOST_MEMBER_HOLD_S, NOMINATION_S
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.invariants.facts import GangKey
from phalanx_simulator.invariants.truth import GangFact, Truth

_Why = tuple[str, GangId, object]
"""The sort, the beneficiary, and what tells one keeping from the next of the same sort for the same gang."""


class _Kept(Struct, frozen=True):
    """Nodes with held capacity, for `seconds` at most."""

    why: _Why
    nodes: tuple[str, ...]
    seconds: float
    comes_back_as_another: bool = False


class HeldNodes:
    """Nodes whose capacity is held; call `take` after each cycle."""

    def __init__(self, truth: Truth, now: Callable[[], float]) -> None:
        self._truth = truth
        self._now = now
        self._host = ""
        self._kept: list[_Kept] = []
        self._before: list[_Kept] = []
        self._since: dict[_Why, float] = {}

    def take(self, host: str, result: CycleResult) -> None:
        """Record the holds of a cycle: nominations, moves, reservations, lost members."""
        if host != self._host:
            self._host, self._since = host, {}
        self._before, self._kept = self._kept, list(_kept_by(result.memory))
        now = self._now()
        self._since = {hold.why: self._since.get(hold.why, now) for hold in self._kept}

    def nodes(self, *, but: GangFact, by_the_last_too: bool = False) -> frozenset[str]:
        """The held nodes, except those held only for this gang."""
        own = but.key.name if but.key.kind == "pod" else but.uid
        kept = [*self._kept, *(self._before if by_the_last_too else ())]
        return frozenset(
            name for hold in kept if hold.why[1] != own and self._may_be_valid(hold) for name in hold.nodes
        )

    def _may_be_valid(self, kept: _Kept) -> bool:
        since = self._since.get(kept.why, self._now())
        return self._now() - since <= kept.seconds and (
            kept.comes_back_as_another or self._exists(kept.why[1])
        )

    def _exists(self, gang: GangId) -> bool:
        """Whether the beneficiary exists, or did until a moment ago.

        Gangs by label are assumed to exist.
        """
        then = self._truth.revision_before(CONVERGED_S)
        group = self._truth.group_with(gang)
        if group is not None:
            versions = self._truth.groups_since(GangKey("group", group.namespace, group.name), then)
            return any(version is not None and version.uid == gang for version in versions)
        return "/" in gang or any(pod is not None for pod in self._truth.pod_since(gang, then))


def _kept_by(memory: Memory) -> Iterator[_Kept]:
    for gang, made in memory.nominations.items():
        yield _Kept(("nomination", gang, made.victims), tuple(made.usage), NOMINATION_S)
    for gang, move in memory.moves.items():
        yield _Kept(("move", gang, move.pods), tuple(move.usage), NOMINATION_S, bool(move.controller))
    for gang, promise in memory.reserved_starts.items():
        yield _Kept(("promise", gang, None), tuple(promise.usage), inf)
    for gang, seated in memory.compositions.items():
        yield _Kept(("claim", gang, seated.since), tuple(seated.held), LOST_MEMBER_HOLD_S)


Kept = Nomination | Move


class HeldCapacityIsRespected(Check):
    """S25: capacity freed for a gang, or held for a moved gang, is not given to others.

    Looked at is the room that is kept before a cycle and after it: on no node that others get pods on, what
    they leave, with what is still to become free, is less than that. Of the queue of a gang for which room is
    made, those of higher priority may take it. Pods without a group that are moved are left out: they come
    back as others.
    """

    name = "S25"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        kept = _kept(snapshot, result)
        if not kept or not result.placements:
            return
        wanted: dict[NodeName, Resources] = {}
        for gang, hold in kept.items():
            for node, amounts in _still_held(gang, hold, snapshot, result).items():
                wanted[node] = add(wanted.get(node, NONE), amounts)
        room = _room(snapshot, kept)
        given = _given_to_others(snapshot, result, kept)
        for placement in result.placements:
            if placement.gang in kept or _may_preempt_it(placement, kept, snapshot):
                continue
            for node in dict.fromkeys(bind.node for bind in placement.binds if bind.node in wanted):
                self._judge(placement, node, wanted[node], subtract(room.get(node, NONE), given[node]))

    def _judge(self, placement: Placement, node: NodeName, wanted: Resources, left: Resources) -> None:
        for name, amount in wanted.items():
            if amount > 0 and not is_numa_resource(name) and left.get(name, 0) < amount:
                why = f"of the {amount} of {name} that are kept on {node} {left.get(name, 0)} are left"
                self.violated(placement.group, f"placed there, and {why}")
                return


def _decided(nomination: Nomination | None) -> Nomination | None:
    """The nomination without its deadline, which may change."""
    return nomination and replace(nomination, until=0)


def _kept(snapshot: Snapshot, result: CycleResult) -> dict[GangId, Kept]:
    """Holds that existed before the cycle and still exist."""
    before, after = snapshot.memory, result.memory
    kept: dict[GangId, Kept] = {
        gang: nomination
        for gang, nomination in after.nominations.items()
        if nomination.usage and _decided(before.nominations.get(gang)) == _decided(nomination)
    }
    moves = after.moves.items()
    kept.update({gang: move for gang, move in moves if not move.controller and gang in before.moves})
    return {gang: hold for gang, hold in kept.items() if gang in snapshot.gangs}


def _still_held(
    gang: GangId, kept: Kept, snapshot: Snapshot, result: CycleResult
) -> Mapping[NodeName, Resources]:
    """Its assignments, less those that members of a moved gang already have or get now."""
    if isinstance(kept, Nomination):
        return kept.usage
    wanted = dict(kept.usage)
    binds = (bind for placement in result.placements if placement.gang == gang for bind in placement.binds)
    nodes: dict[PodUid, NodeName] = {bind.pod: bind.node for bind in binds}
    for pod in snapshot.gangs[gang].members:
        if pod.node is not None and pod.holds_node and not pod.deleting and pod.uid not in kept.pods:
            nodes[pod.uid] = pod.node
        node = nodes.get(pod.uid)
        if node is not None and node in wanted:
            wanted[node] = subtract(wanted[node], pod_usage(pod))
    return wanted


def _room(snapshot: Snapshot, kept: Mapping[GangId, Kept]) -> dict[NodeName, Resources]:
    """Capacity that is free, or will be when terminating pods and victims have ended."""
    going = {
        pod for hold in kept.values() for pod in (hold.victims if isinstance(hold, Nomination) else hold.pods)
    }
    room = {name: state.free for name, state in snapshot.nodes.items()}
    for gang in snapshot.gangs.values():
        for pod in gang.members:
            if pod.node in room and pod.holds_node and (pod.deleting or pod.uid in going):
                room[pod.node] = add(room[pod.node], pod_usage(pod))
    return room


def _given_to_others(
    snapshot: Snapshot, result: CycleResult, kept: Mapping[GangId, Kept]
) -> dict[NodeName, Resources]:
    """Capacity that this cycle gives to other pods than the beneficiaries."""
    given: dict[NodeName, Resources] = {}
    for placement in result.placements:
        gang = snapshot.gangs.get(placement.gang)
        shapes = {pod.uid: pod.shape for pod in gang.members} if gang is not None else {}
        for bind in placement.binds:
            asked = shapes[bind.pod].requests if bind.pod in shapes and placement.gang not in kept else NONE
            given[bind.node] = add(given.get(bind.node, NONE), asked)
    return given


def _may_preempt_it(placement: Placement, kept: Mapping[GangId, Kept], snapshot: Snapshot) -> bool:
    """Whether it has a higher priority than a beneficiary of its queue."""
    gang = snapshot.gangs.get(placement.gang)
    return gang is not None and any(_is_below(gang, snapshot.gangs[other]) for other in kept)


def _is_below(gang: Gang, other: Gang) -> bool:
    return gang.queue == other.queue and gang.priority > other.priority
