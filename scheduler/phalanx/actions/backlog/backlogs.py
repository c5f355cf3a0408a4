"""Finds the crowded queues of each cycle, and remembers what the cycle found out about their gangs.

Everything is derived from the snapshot and its memory. Between cycles the gangs of each queue are kept as
they were, so that only changed gangs are read again.
"""

from collections.abc import Mapping
from functools import partial

from phalanx.actions.backlog.backlog import Backlog, CrowdedQueue, Merged, shared_bounds
from phalanx.actions.backlog.differences import differences
from phalanx.actions.backlog.queue_index import START, QueueIndex
from phalanx.actions.limits import CROWDED_QUEUE_GANGS
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.retry import RetryInputs, settings_of
from phalanx.model.gangs import Gang
from phalanx.model.memory import HelpedBy, Memory, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.nodes import Node
from phalanx.model.resources import Resources, largest
from phalanx.model.snapshot import Snapshot


class Backlogs:
    """The backlogs of a sequence of cycles."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._settings = settings_of(config)
        self._gangs: Mapping[GangId, Gang] = {}
        self._set_aside: Mapping[GangId, Refusal] = {}
        self._queues: dict[QueueName, QueueIndex] = {}
        self._others: dict[GangId, Gang] = {}
        """All gangs but the untouched ones of crowded queues."""
        self._others_without: set[QueueName] = set()
        self._merged = Merged()
        self._largest: tuple[list[Node], Resources] = ([], {})

    def begin(self, snapshot: Snapshot) -> Backlog:
        """The backlog of a cycle on this snapshot."""
        memory = snapshot.memory
        if memory.set_aside is not self._set_aside and (memory.set_aside or self._set_aside):
            self._gangs, self._queues, self._others, self._others_without = {}, {}, {}, set()
        self._set_aside = memory.set_aside
        self._follow(snapshot.gangs, memory)
        tree = QueueTree(snapshot.queues)
        inputs = RetryInputs(snapshot, tree, self._settings, partial(self._largest_allocatable, snapshot))
        crowded: dict[QueueName, CrowdedQueue] = {}
        for name in sorted(self._queues):
            index = self._queues[name]
            if len(index.entries) <= CROWDED_QUEUE_GANGS:
                index.forget_refusals()
                continue
            self._learn_refusals(index, memory)
            index.refresh(partial(_basis, inputs, name, memory), snapshot.now)
            crowded[name] = CrowdedQueue(name, index, memory)
        self._set_bounds(crowded, inputs, memory)
        return Backlog(snapshot, crowded, inputs, self._merged)

    def _set_bounds(
        self, crowded: Mapping[QueueName, CrowdedQueue], inputs: RetryInputs, memory: Memory
    ) -> None:
        """Raise the bounds of crowded queues if no other queue has gangs to try."""
        busy = sum(1 for queue in crowded.values() if queue.index.due or queue.index.unexplained)
        others = [name for name in self._queues if busy and name not in crowded]
        if busy and not any(self._has_due(name, inputs, memory) for name in others):
            for queue in crowded.values():
                queue.bounds = shared_bounds(busy)

    def visible_gangs(self, backlog: Backlog) -> Mapping[GangId, Gang]:
        """The gangs of the snapshot, without those that are set aside at first; sorted by id."""
        if not backlog.crowded:
            return backlog.snapshot.gangs
        if self._others_without != backlog.crowded.keys():
            self._others_without = set(backlog.crowded)
            self._others = {name: gang for name, gang in self._gangs.items() if not self._is_hidden(gang)}
        seen = {gang.id: gang for gang in backlog.first_gangs()}
        return dict(sorted({**self._others, **seen}.items()))

    def _is_hidden(self, gang: Gang) -> bool:
        return gang.is_untouched and gang.queue in self._others_without

    # --- gangs ----------------------------------------------------------------------------------------------

    def _follow(self, gangs: Mapping[GangId, Gang], memory: Memory) -> None:
        """Note which gangs came, changed or went since the last cycle."""
        before, self._gangs = self._gangs, gangs
        if before is gangs:
            return
        old, new = differences(before, gangs)
        for name in old:
            self._others.pop(name, None)
        self._others.update({name: gang for name, gang in new.items() if not self._is_hidden(gang)})
        left: dict[QueueName, list[GangId]] = {}
        came: dict[QueueName, list[Gang]] = {}
        for gang in [gang for gang in old.values() if gang.is_untouched]:
            left.setdefault(gang.queue, []).append(gang.id)
        for gang in [gang for gang in new.values() if gang.is_untouched]:
            came.setdefault(gang.queue, []).append(gang)
        for name in left.keys() | came.keys():
            index = self._queues.setdefault(name, QueueIndex())
            index.change(left.get(name, ()), came.get(name, ()))
            for gang in came.get(name, ()) if index.is_sorted else ():
                index.learn(index.entries[gang.id], _known(gang.id, memory))
            if not index.entries:
                del self._queues[name]

    def _learn_refusals(self, index: QueueIndex, memory: Memory) -> None:
        """Learn what is known of a queue that has become crowded."""
        if not index.is_sorted:
            index.is_sorted = True
            for entry in index.entries.values():
                index.learn(entry, _known(entry.gang.id, memory))

    def _has_due(self, name: QueueName, inputs: RetryInputs, memory: Memory) -> bool:
        """Whether the queue has a gang that was not tried, or that a change since then could help."""
        for gang_id, entry in self._queues[name].entries.items():
            refusal = _known(gang_id, memory)
            if refusal is None:
                return True
            if refusal.fingerprint and not inputs.holds(refusal, entry.gang, START, memory.retry_keys):
                return True
        return False

    def _largest_allocatable(self, snapshot: Snapshot) -> Resources:
        nodes = [state.node for state in snapshot.nodes.values()]
        if self._largest[0] != nodes:
            self._largest = (nodes, largest(node.allocatable for node in nodes))
        return self._largest[1]

    # --- what the cycle found -------------------------------------------------------------------------------

    def end(self, memory: Memory) -> None:
        """Note the memory that the next cycle gets. What it says about crowded queues was learnt already."""
        self._set_aside = memory.set_aside


def _known(gang: GangId, memory: Memory) -> Refusal | None:
    found = memory.set_aside.get(gang)
    return memory.refusals.get(gang) if found is None else found


def _basis(inputs: RetryInputs, queue: QueueName, memory: Memory, helped_by: HelpedBy, resource: str) -> str:
    return inputs.basis(queue, helped_by, resource, memory.retry_keys)
