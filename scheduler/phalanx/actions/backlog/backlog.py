"""The gangs that one cycle looks at, and those that it sets aside with their last verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.backlog.free_capacity import FreeCapacity
from phalanx.actions.backlog.selection import Selection
from phalanx.framework.queues.unseen_demand import UnseenDemand
from phalanx.framework.retry import RESTING_TURN_MS, RetryInputs
from phalanx.model.decisions import Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory, Refusal, RetryKeys
from phalanx.model.names import GangId, QueueName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import requests_parts


class Objected(Struct, frozen=True):
    """An objection to a gang."""

    objection: Objection
    lasts: bool
    """Whether it holds until something other than the usage changes."""
    resource: str = ""
    """Set if a pod requests more of it than any node has."""


class Backlog:
    """The gangs of one cycle that have never started."""

    def __init__(
        self,
        snapshot: Snapshot,
        selections: Mapping[QueueName, Selection],
        inputs: RetryInputs,
        refusals: Callable[[], Mapping[QueueName, Mapping[GangId, Refusal]]],
        named: Sequence[GangId] = (),
        capacity: FreeCapacity | None = None,
    ) -> None:
        """`refusals` gives those of all gangs that have not started, as far as they are known.

        `named`: gangs of which more is remembered than their refusal.
        """
        self.snapshot = snapshot
        self.selections = selections
        self.inputs = inputs
        self.refusals = refusals
        self.named = named
        self._capacity = capacity
        self._placements = 0
        self.objections: dict[GangId, Objected] = {}

    @property
    def crowded(self) -> dict[QueueName, Selection]:
        """Queues of which the cycle may leave out due gangs."""
        return {name: each for name, each in self.selections.items() if each.is_crowded}

    def selection_of(self, gang: Gang) -> Selection | None:
        """The selection that the gang is in; None for a gang that has started."""
        selection = self.selections.get(gang.queue)
        return selection if selection is not None and gang.id in selection.seen else None

    def worked(self, gang: Gang, amount: int) -> None:
        """Note the work on a gang that does not start."""
        selection = self.selection_of(gang)
        if selection is not None and selection.may_take_work(gang.id):
            selection.worked(amount)

    @property
    def keeps_some(self) -> bool:
        """Whether the cycle kept an outdated refusal of a gang that every cycle looks at."""
        return any(selection.keeps_some for selection in self.selections.values())

    @property
    def is_complete(self) -> bool:
        """Whether no due gang was left out."""
        return all(selection.is_complete for selection in self.selections.values())

    def equal_gangs_behind(self) -> dict[GangId, int]:
        """How many gangs that the cycle does not look at are equal to one that it looks at, by that one."""
        return {gang: count for each in self.selections.values() for gang, count in each.behind().items()}

    def has_equal_after(self, placed: Iterable[GangId]) -> bool:
        """Whether gangs that the cycle does not look at are equal to a placed one: they may fit, too."""
        queues = ((each, self.snapshot.gangs[each].queue) for each in placed)
        return any(
            name in self.selections and self.selections[name].has_more_of(gang) for gang, name in queues
        )

    def note_placements(self, placements: Sequence[Placement]) -> None:
        """Note what this cycle has placed so far."""
        if self._capacity is None:
            return
        for placement in placements[self._placements :]:
            pods = {pod.uid: pod for pod in self.snapshot.gangs[placement.gang].members}
            for bind in placement.binds:
                self._capacity.take(bind.node, pods[bind.pod].shape.requests)
        self._placements = len(placements)

    def unseen_demand(self) -> dict[QueueName, UnseenDemand]:
        """The demand of resting gangs, by queue. It must be asked before the cycle looks at more gangs."""
        behind = {name: each.behind_all() for name, each in self.selections.items() if each.rests}
        return {
            name: self.selections[name].backlog.open.demand_without(self.selections[name].seen, counts)
            for name, counts in behind.items()
        }

    def has_more_after(self, placed: Iterable[GangId]) -> bool:
        """Whether gangs of a strict queue rest of which another one was placed: they may fit, too."""
        queues = {self.snapshot.gangs[each].queue for each in placed}
        selections = [self.selections[name] for name in queues if name in self.selections]
        return any(each.rests and each.backlog.is_strict for each in selections)

    @property
    def next_turn(self) -> int | None:
        """The time (ms) at which a cycle looks at more of the resting gangs; None if none rests."""
        rests = any(each.rests for each in self.selections.values())
        return self.snapshot.now + RESTING_TURN_MS if rests else None

    def equal_gangs_after(self, placed: Gang) -> list[Gang]:
        """The next gangs to try that are equal to this one, which was placed."""
        selection = self.selection_of(placed)
        return selection.equal_after(placed.id) if selection is not None else []

    def is_outdated(self, keys: RetryKeys) -> bool:
        """Whether gangs were set aside by an outdated retry key of plugins. `keys`: the present ones."""
        before, selections = self.snapshot.memory.retry_keys, self.selections.values()
        if keys.all != before.all and any(each.rests for each in selections):
            return True
        is_any_unseen = any(len(each.seen) < len(each.backlog.entries) for each in selections)
        return is_any_unseen and keys.plugins != before.plugins

    @property
    def next_wake(self) -> int | None:
        """The time (ms) at which the first refusal of an unschedulable gang ends."""
        times = [selection.backlog.next_wake() for selection in self.selections.values()]
        return min((at for at in times if at is not None), default=None)

    def known(self, gang: Gang) -> Refusal | None:
        """The refusal of the gang by an earlier cycle."""
        return self.snapshot.memory.refusal_of(self.snapshot.gangs[gang.id])

    def kept(self, gang: Gang) -> Refusal | None:
        """The outdated refusal that the cycle keeps, since nodes have too little free for the gang."""
        selection = self.selections.get(gang.queue)
        return self.known(gang) if selection is not None and selection.keeps(gang.id) else None

    def learn(self, gang: Gang, refusal: Refusal) -> None:
        """Note what was found about the refusal of a gang of the snapshot that has not started."""
        backlog = self.selections[gang.queue].backlog
        backlog.learn(backlog.entries[gang.id], refusal)

    def objected(self, gang: Gang, objection: Objection, *, lasts: bool, resource: str = "") -> None:
        """Note an objection to a gang. `lasts`: it holds until something other than the usage changes."""
        if self.snapshot.gangs[gang.id].is_untouched and gang.id not in self.objections:
            self.objections[gang.id] = Objected(objection, lasts, resource)
            self.worked(gang, 1)

    def objection_to_oversized(self, gang: Gang) -> Objection | None:
        """The objection to a gang of a long queue whose pods are larger than every node."""
        selection = self.selection_of(gang)
        if selection is None or not selection.backlog.is_long:
            return None
        largest = self.inputs.largest_allocatable
        resource = _oversized_resource(gang, largest)
        if not resource:
            return None
        objection = _objection_to_oversized(gang, resource, largest)
        self.objected(gang, objection, lasts=True, resource=resource)
        return objection


def named_in(memory: Memory, gangs: Mapping[GangId, Gang]) -> list[GangId]:
    """Gangs that have not started of which more is remembered than their refusal, sorted."""
    tables: Iterable[Iterable[GangId]] = (
        *(memory.nominations, memory.moves, memory.reserved_starts, memory.compositions),
        *(memory.preempted, memory.preempted.values(), memory.partial_since, memory.member_losses),
    )
    found = {gang for table in tables for gang in table if gang in gangs and gangs[gang].is_untouched}
    controllers = {move.controller for move in memory.moves.values()} - {""}
    if controllers:
        found.update(gang.id for gang in gangs.values() if gang.is_untouched and _is_of(gang, controllers))
    return sorted(found)


def _is_of(gang: Gang, controllers: set[str]) -> bool:
    """Whether it is a pod that a controller has created, perhaps instead of a pod that is moved."""
    owner = gang.members[0].controller
    return owner is not None and owner.uid in controllers


def _oversized_resource(gang: Gang, largest: Resources) -> str:
    """A resource of which too few members request no more than some node has; empty if there is none.

    `largest`: the largest allocatable amounts of a node. Devices come first.
    """
    if gang.reserves or len(gang.members) < gang.min_member:
        return ""
    exceeded = [_exceeded(pod, largest) for pod in gang.members]
    if sum(1 for name in exceeded if not name) >= gang.min_member:
        return ""
    return next(name for name in exceeded if name)


def _objection_to_oversized(gang: Gang, resource: str, largest: Resources) -> Objection:
    """The objection to a gang because of this resource."""
    asked = max(pod.shape.requests.get(resource, 0) for pod in gang.members)
    most = formatting.amount(resource, largest.get(resource, 0))
    return Objection(
        reason=Reason.ABOVE_CLUSTER_CAPACITY,
        message=f"a pod requests {formatting.amount(resource, asked)}, but the largest node has {most}",
        next_step="Request less per pod, or add larger nodes",
    )


def _exceeded(pod: Pod, largest: Mapping[str, int]) -> str:
    requests = pod.shape.requests
    if requests_parts(requests):
        return ""
    names = [name for name, amount in requests.items() if amount > largest.get(name, 0)]
    return min(names, key=lambda name: ("/" not in name, name), default="")
