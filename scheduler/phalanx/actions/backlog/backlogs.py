"""Finds the crowded queues of each cycle, and remembers what the cycle found out about their gangs.

Everything is derived from the snapshot and its memory. Between cycles the gangs of each queue are kept as
they were, so that only changed gangs are read again.
"""

from collections.abc import Mapping
from functools import partial

from phalanx.actions.backlog.backlog import Backlog, CrowdedQueue
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
        self._largest: tuple[list[Node], Resources] = ([], {})

    def begin(self, snapshot: Snapshot) -> Backlog:
        """The backlog of a cycle on this snapshot."""
        memory = snapshot.memory
        if memory.set_aside is not self._set_aside and (memory.set_aside or self._set_aside):
            self._gangs, self._queues = {}, {}
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
        with_due = [name for name in self._queues if crowded and self._has_due(name, crowded, inputs, memory)]
        for queue in crowded.values():
            queue.is_beside_others = any(name != queue.name for name in with_due)
        return Backlog(snapshot, crowded, inputs)

    # --- gangs ----------------------------------------------------------------------------------------------

    def _follow(self, gangs: Mapping[GangId, Gang], memory: Memory) -> None:
        """Note which gangs came, changed or went since the last cycle."""
        before, self._gangs = self._gangs, gangs
        if before is gangs:
            return
        changed = [gang for name, gang in gangs.items() if before.get(name) is not gang]
        added = sum(1 for gang in changed if gang.id not in before)
        gone = before.keys() - gangs.keys() if len(before) + added > len(gangs) else frozenset()
        left: dict[QueueName, list[GangId]] = {}
        came: dict[QueueName, list[Gang]] = {}
        for gang in [*(before[name] for name in [*gone, *(gang.id for gang in changed)] if name in before)]:
            if gang.is_untouched:
                left.setdefault(gang.queue, []).append(gang.id)
        for gang in changed:
            if gang.is_untouched:
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

    def _has_due(
        self,
        name: QueueName,
        crowded: Mapping[QueueName, CrowdedQueue],
        inputs: RetryInputs,
        memory: Memory,
    ) -> bool:
        """Whether the queue has a gang that was not tried, or that a change since then could help."""
        if name in crowded:
            return bool(crowded[name].index.due)
        for gang_id, entry in self._queues[name].entries.items():
            refusal = memory.refusals.get(gang_id)
            if refusal is None or not inputs.holds(refusal, entry.gang, START, memory.retry_keys):
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
