"""The gangs that one cycle looks at, and what is known of those that it sets aside.

A queue is crowded if more than CROWDED_QUEUE_GANGS untouched gangs wait in it. Of a crowded queue a cycle
looks at these gangs:

- those that something is remembered of: nominated, evicted, moved or reserved capacity
- due gangs in their usual order until some do not fit, then due gangs in turn until more do not fit
- some refused gangs that could fit the empty cluster: the first ones, and others in turn
- some gangs whose refusal is not explained yet

The others keep their last verdict. If other queues have due gangs too, a crowded queue gets less attention,
so that it delays them little. All of this follows from the snapshot.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import is_
from typing import Final

from msgspec import Struct

from phalanx.actions.backlog.oversized import objection_to_oversized, oversized_resource
from phalanx.actions.backlog.queue_index import Entry, QueueIndex, after
from phalanx.actions.limits import (
    CROWDED_EXPLANATIONS,
    CROWDED_EXPLANATIONS_BESIDE_OTHERS,
    CROWDED_FAILURES,
    CROWDED_FAILURES_BESIDE_OTHERS,
    CROWDED_OBJECTIONS,
    CROWDED_OBJECTIONS_BESIDE_OTHERS,
    CROWDED_SETTLED,
)
from phalanx.framework.retry import RetryInputs
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.memory import Memory, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Objection
from phalanx.model.snapshot import Snapshot


class Bounds(Struct, frozen=True):
    """What a cycle does for a crowded queue at most."""

    failures: int
    """Gangs that are tried and do not fit."""
    objections: int
    """Gangs to which there is an objection."""
    explanations: int
    """Refusals that are explained."""


BESIDE_OTHERS: Final = Bounds(
    CROWDED_FAILURES_BESIDE_OTHERS, CROWDED_OBJECTIONS_BESIDE_OTHERS, CROWDED_EXPLANATIONS_BESIDE_OTHERS
)
"""The bounds while queues that are not crowded have gangs to try."""


def shared_bounds(count: int) -> Bounds:
    """The bounds of each of so many crowded queues if only these have gangs to try."""
    return Bounds(
        failures=max(BESIDE_OTHERS.failures, CROWDED_FAILURES // max(1, count)),
        objections=max(BESIDE_OTHERS.objections, CROWDED_OBJECTIONS // max(1, count)),
        explanations=max(BESIDE_OTHERS.explanations, CROWDED_EXPLANATIONS // max(1, count)),
    )


class CrowdedQueue:
    """The attention of one cycle to a crowded queue."""

    def __init__(self, name: QueueName, index: QueueIndex, memory: Memory) -> None:
        self.name = name
        self.index = index
        self.seen: dict[GangId, Entry] = {}
        """The gangs that the cycle looks at."""
        self.objections = 0
        """Objections to gangs so far."""
        self.bounds = BESIDE_OTHERS
        self.last_in_turn = memory.turns.get(name)
        """The last gang that was tried in turn."""
        self._memory = memory
        self._failed = 0
        self._lot = 1
        self._is_in_turn = False
        self._in_order = iter(index.due)
        self._in_turn = after(index.due, self.last_in_turn)

    # --- bounds ---------------------------------------------------------------------------------------------

    @property
    def may_try(self) -> bool:
        """Whether fewer gangs than allowed did not fit so far."""
        return self._failed < self.bounds.failures

    @property
    def is_complete(self) -> bool:
        """Whether the cycle has looked at all due gangs, apart from those that wait for the end of an
        objection of which the time is not known."""
        entries = (self.index.entries[place[-1]] for place in self.index.due if place[-1] not in self.seen)
        return all(entry.refusal is not None and not entry.refusal.fingerprint for entry in entries)

    @property
    def set_aside(self) -> tuple[int, int]:
        """The numbers of gangs and of waiting pods that the cycle has not looked at."""
        pods = sum(entry.pods for entry in self.seen.values())
        return len(self.index.entries) - len(self.seen), self.index.pods - pods

    def failed(self) -> None:
        """Note that a gang was tried and does not fit."""
        self._failed += 1

    # --- which gangs ----------------------------------------------------------------------------------------

    def first(self, named: Iterable[GangId]) -> list[Gang]:
        """The gangs that the cycle looks at in any case, and the first due ones.

        `named`: gangs of which something is remembered.
        """
        index, settled = self.index, self.index.settled
        start = self._memory.cycle * CROWDED_SETTLED % max(1, len(settled))
        places = [*settled[:CROWDED_SETTLED], *settled[start : start + CROWDED_SETTLED]]
        chosen = [index.entries[gang] for gang in named if gang in index.entries]
        chosen += index.longest_unexplained(self.bounds.explanations)
        chosen += [index.entries[place[-1]] for place in places]
        return [*self._see(chosen), *self.more()]

    def more(self) -> list[Gang]:
        """More due gangs to look at; empty if enough of them did not fit or were objected to."""
        if not self.may_try or self.objections >= self.bounds.objections:
            return []
        lot, self._lot = self._lot, 2 * self._lot
        if self.objections:
            lot = min(lot, self.bounds.objections - self.objections)
        if 2 * self._failed < self.bounds.failures:
            found = self._see(islice(self._unseen(self._in_order), lot))
            if found:
                return found
        self._is_in_turn = True
        return self._see(islice(self._unseen(self._in_turn), lot))

    def _unseen(self, places: Iterator[QueuePlace]) -> Iterator[Entry]:
        for place in places:
            if place[-1] not in self.seen:
                if self._is_in_turn:
                    self.last_in_turn = place
                yield self.index.entries[place[-1]]

    def _see(self, entries: Iterable[Entry]) -> list[Gang]:
        new = {entry.gang.id: entry for entry in entries if entry.gang.id not in self.seen}
        self.seen.update(new)
        return [entry.gang for entry in new.values()]


class Merged:
    """The union of some sorted mappings; the same mapping while they are the same."""

    def __init__(self) -> None:
        self._parts: list[Mapping[GangId, Refusal]] = []
        self._whole: Mapping[GangId, Refusal] = {}

    def of(self, parts: list[Mapping[GangId, Refusal]]) -> Mapping[GangId, Refusal]:
        """The union, sorted."""
        if len(parts) == 1:
            return parts[0]
        is_same = len(parts) == len(self._parts) and all(map(is_, parts, self._parts))
        if not is_same:
            self._whole = dict(sorted(chain.from_iterable(part.items() for part in parts)))
            self._parts = parts
        return self._whole


class Objected(Struct, frozen=True):
    """An objection to a gang."""

    objection: Objection
    lasts: bool
    """Whether it holds until something changes."""
    resource: str = ""
    """Set if a pod requests more of it than any node has."""


class Backlog:
    """The crowded queues of one cycle; most cycles have none."""

    def __init__(
        self,
        snapshot: Snapshot,
        crowded: Mapping[QueueName, CrowdedQueue],
        inputs: RetryInputs,
        merged: "Merged",
    ) -> None:
        self.snapshot = snapshot
        self.crowded = crowded
        self.inputs = inputs
        self._merged = merged
        self.objections: dict[GangId, Objected] = {}
        """Objections to untouched gangs."""

    def first_gangs(self) -> list[Gang]:
        """The gangs of crowded queues that the cycle looks at first."""
        memory = self.snapshot.memory
        named = _named_in(memory) if self.crowded else []
        controllers = {move.controller for move in memory.moves.values()} - {""}
        found = []
        for queue in self.crowded.values():
            moved = _created_by(controllers, queue.index) if controllers else []
            found += queue.first([*named, *moved])
        return found

    def queue_of(self, gang: Gang) -> CrowdedQueue | None:
        """The crowded queue in which the gang is untouched; None for any other gang."""
        queue = self.crowded.get(gang.queue)
        return queue if queue is not None and gang.id in queue.seen else None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do before something changes."""
        return all(queue.is_complete and not queue.index.unexplained for queue in self.crowded.values())

    @property
    def next_wake(self) -> int | None:
        """The time (ms) at which an objection ends, or a gang misses its deadline."""
        indexes = [queue.index for queue in self.crowded.values()]
        times = [index.next_wake() for index in indexes] + [index.next_deadline for index in indexes]
        return min((at for at in times if at is not None), default=None)

    def set_aside(self) -> Mapping[GangId, Refusal]:
        """The refusals of all gangs of crowded queues, sorted."""
        return self._merged.of([queue.index.refusals.view() for queue in self.crowded.values()])

    def known(self, gang: GangId) -> Refusal | None:
        """The refusal of the gang by an earlier cycle."""
        memory = self.snapshot.memory
        found = memory.set_aside.get(gang)
        return memory.refusals.get(gang) if found is None else found

    def objected(self, gang: Gang, objection: Objection, *, lasts: bool, resource: str = "") -> None:
        """Note an objection to a gang. `lasts`: it holds until something changes."""
        if not self.snapshot.gangs[gang.id].is_untouched or gang.id in self.objections:
            return
        self.objections[gang.id] = Objected(objection, lasts, resource)
        queue = self.queue_of(gang)
        if queue is not None:
            queue.objections += 1

    def objection_to_oversized(self, gang: Gang) -> Objection | None:
        """The objection to a gang of a crowded queue whose pods are larger than every node."""
        if self.queue_of(gang) is None:
            return None
        largest = self.inputs.largest_allocatable
        resource = oversized_resource(gang, largest)
        if not resource:
            return None
        objection = objection_to_oversized(gang, resource, largest)
        self.objected(gang, objection, lasts=True, resource=resource)
        return objection


def _created_by(controllers: Collection[str], index: QueueIndex) -> list[GangId]:
    """Pods without a group that a controller has created, perhaps instead of a pod that is moved."""
    pods = [(gang_id, entry.gang.members[0].controller) for gang_id, entry in index.entries.items()]
    return sorted(gang for gang, owner in pods if owner is not None and owner.uid in controllers)


def _named_in(memory: Memory) -> list[GangId]:
    """Gangs of which more is remembered than their refusal, sorted."""
    found: set[GangId] = set()
    for table in (memory.nominations, memory.moves, memory.reserved_starts):
        found.update(table)
    found.update(memory.preempted, memory.preempted.values())
    return sorted(found)
