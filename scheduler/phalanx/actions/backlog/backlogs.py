"""Keeps the gangs that have not started from cycle to cycle, so that only changed ones are read again.

Everything follows from the snapshot and its memory.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from itertools import compress, count, islice
from operator import is_, is_not
from typing import TypeVar

from phalanx.actions.backlog.backlog import Backlog, named_in
from phalanx.actions.backlog.equal_gangs import IDENTITY_LABELS, class_key_of
from phalanx.actions.backlog.free_capacity import FreeCapacity
from phalanx.actions.backlog.queue_backlog import QueueBacklog
from phalanx.actions.backlog.selection import Selection, bounds_of
from phalanx.actions.limits import CROWDED_DUE_GANGS
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.hooks import are_lasting
from phalanx.framework.plugin import Plugin
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.registry import plugin_classes
from phalanx.framework.retry import RetryInputs, settings_of
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.gangs import Gang
from phalanx.model.memory import HelpedBy, Memory, Refusal
from phalanx.model.names import GangId, QueueName
from phalanx.model.nodes import Node
from phalanx.model.queues import Admission, Ordering
from phalanx.model.resources import Resources, largest
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import is_completed


class Backlogs:
    """The backlogs of a sequence of cycles."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._settings = settings_of(config)
        self._largest: tuple[list[Node], Resources] = ([], {})
        self._refusals: Mapping[QueueName, Mapping[GangId, Refusal]] = {}
        self._forget()

    def _forget(self) -> None:
        self._gangs: Mapping[GangId, Gang] = {}
        self._queues: dict[QueueName, QueueBacklog] = {}
        self._others: dict[GangId, Gang] = {}
        """The gangs that have started, or have a pod on a node."""
        self._terms: tuple[object, object] = ((), ())
        self._selected: frozenset[str] = frozenset()
        """The identity labels that terms of pods select by."""

    def begin(self, snapshot: Snapshot) -> Backlog:
        """The backlog of a cycle on this snapshot."""
        memory, tree = snapshot.memory, QueueTree(snapshot.queues)
        if memory.refused_starts is not self._refusals and (memory.refused_starts or self._refusals):
            self._forget()
        self._refusals = memory.refused_starts
        self._follow_terms(snapshot)
        self._follow(snapshot)
        self._follow_orderings(snapshot)
        inputs = RetryInputs(snapshot, tree, self._settings, partial(self._largest_allocatable, snapshot))
        named = named_in(memory, snapshot.gangs)
        for name, queue in self._queues.items():
            queue.settle(named, memory.refusal_of, any_may_go_first=_admits_by_value(name, tree))
            queue.refresh(partial(_basis, inputs, name, memory), inputs.queue_basis(name), snapshot.now)
        capacity = FreeCapacity(snapshot.nodes)
        selections = {
            name: Selection(
                self._queues[name],
                capacity,
                snapshot.capacity_version,
                memory.turns.get(name),
                memory.resting_turns.get(name),
                may_rest=not _compares_all(name, tree) and not is_completed(snapshot),
            )
            for name in sorted(self._queues)
        }
        self._set_bounds(selections, inputs, memory)
        rests = any(each.rests for each in selections.values())
        return Backlog(snapshot, selections, inputs, self.refusals, named, capacity if rests else None)

    def visible_gangs(self, backlog: Backlog) -> Mapping[GangId, Gang]:
        """The gangs that the cycle looks at from its begin, sorted by id."""
        snapshot, selections = backlog.snapshot, backlog.selections
        seen = {gang.id: gang for each in selections.values() for gang in each.first(backlog.named)}
        if len(seen) + len(self._others) == len(snapshot.gangs):
            return snapshot.gangs
        return dict(sorted({**self._others, **seen}.items()))

    def refusals(self) -> Mapping[QueueName, Mapping[GangId, Refusal]]:
        """By queue, the refusals of all gangs that have not started; the same mapping if none changed."""
        found = {name: self._queues[name].refusals for name in sorted(self._queues)}
        is_same = found.keys() == self._refusals.keys() and all(
            refusals is self._refusals[name] for name, refusals in found.items()
        )
        if not is_same:
            self._refusals = found
        return self._refusals

    # --- gangs ----------------------------------------------------------------------------------------------

    @cached_property
    def _plugins(self) -> tuple[type[Plugin], ...]:
        return plugin_classes(self._config)

    @cached_property
    def _may_be_equal(self) -> bool:
        return are_lasting(self._plugins)

    def _follow_terms(self, snapshot: Snapshot) -> None:
        """Read all gangs again if terms of pods select by other labels that name gangs."""
        terms = (snapshot.pod_affinity_terms, snapshot.preferred_pod_terms)
        if all(map(is_, terms, self._terms)):
            return
        every = (*snapshot.pod_affinity_terms, snapshot.preferred_pod_terms)
        selecting = {key for some in every for key in keys_of(some)}
        selecting.update(key for plugin in self._plugins for key in plugin.pod_labels)
        selected = IDENTITY_LABELS & selecting
        if selected != self._selected:
            self._forget()
        self._terms, self._selected = terms, selected

    def _class_key(self, gang: Gang, snapshot: Snapshot) -> bytes | None:
        """None if some plugin may decide about gangs by more than it declares, and for a gang whose time in
        line a cycle has yet to record."""
        record = snapshot.record_of(gang)
        is_recorded = record is None or bool(record.queued_since)
        return class_key_of(gang, self._selected) if self._may_be_equal and is_recorded else None

    def _follow(self, snapshot: Snapshot) -> None:
        """Note which gangs came, changed or went since the last cycle."""
        before, self._gangs = self._gangs, snapshot.gangs
        old, new = _differences(before, self._gangs) if before is not self._gangs else ({}, {})
        for gang in old.values():
            if gang.is_untouched:
                self._queues[gang.queue].remove(gang.id)
            else:
                del self._others[gang.id]
        for gang in new.values():
            if gang.is_untouched:
                since = snapshot.queued_since(gang)
                self._queue(gang.queue, snapshot).add(gang, since, self._class_key(gang, snapshot))
            else:
                self._others[gang.id] = gang
        for name in [name for name, queue in self._queues.items() if not queue.entries]:
            del self._queues[name]

    def _queue(self, name: QueueName, snapshot: Snapshot) -> QueueBacklog:
        if name not in self._queues:
            self._queues[name] = QueueBacklog(is_strict=_is_strict(name, snapshot))
        return self._queues[name]

    def _follow_orderings(self, snapshot: Snapshot) -> None:
        """Order the gangs of queues again whose ordering has changed."""
        for name, queue in list(self._queues.items()):
            if queue.is_strict is not _is_strict(name, snapshot):
                del self._queues[name]
                for entry in queue.entries.values():
                    since = snapshot.queued_since(entry.gang)
                    self._queue(name, snapshot).add(entry.gang, since, entry.class_key)

    # --- bounds ---------------------------------------------------------------------------------------------

    def _set_bounds(
        self, selections: Mapping[QueueName, Selection], inputs: RetryInputs, memory: Memory
    ) -> None:
        crowded = [selection for selection in selections.values() if selection.is_crowded]
        others = (name for name in selections if not selections[name].is_crowded)
        others_wait = bool(crowded) and any(self._has_work(name, inputs, memory) for name in others)
        for selection in crowded:
            few_are_new = len(selection.backlog.due) <= CROWDED_DUE_GANGS
            selection.bounds = bounds_of(len(crowded), others_wait=others_wait, few_are_new=few_are_new)

    def _has_work(self, name: QueueName, inputs: RetryInputs, memory: Memory) -> bool:
        """Whether the queue has a gang to try or to explain."""
        queue = self._queues[name]
        basis = partial(_basis, inputs, name, memory, HelpedBy.CAPACITY)
        tried = [entry.refusal for entry in queue.open.entries.values() if entry.refusal is not None]
        return bool(queue.due or queue.unexplained) or any(
            refusal.fingerprint and refusal.basis != basis(refusal.resource) for refusal in tried
        )

    def _largest_allocatable(self, snapshot: Snapshot) -> Resources:
        nodes = [state.node for state in snapshot.nodes.values()]
        if self._largest[0] != nodes:
            self._largest = (nodes, largest(node.allocatable for node in nodes))
        return self._largest[1]


def _is_strict(name: QueueName, snapshot: Snapshot) -> bool:
    queue = snapshot.queues.get(name)
    return queue is not None and queue.ordering is Ordering.STRICT_FIFO


def _admits_by_value(name: QueueName, tree: QueueTree) -> bool:
    """Whether joint admission chooses which gangs of the queue start, and so compares all of them."""
    return tree.inherited(name, lambda queue: queue.admission) is Admission.MOST_VALUE


def _compares_all(name: QueueName, tree: QueueTree) -> bool:
    """Whether the order of its gangs depends on all of them: by value, or because users take turns."""
    queue = tree.get(name)
    takes_turns = queue is not None and queue.ordering is Ordering.FAIR_USERS
    return takes_turns or _admits_by_value(name, tree)


def _basis(inputs: RetryInputs, queue: QueueName, memory: Memory, helped_by: HelpedBy, resource: str) -> str:
    return inputs.basis(queue, helped_by, resource, memory.retry_keys)


_K = TypeVar("_K")
_V = TypeVar("_V")


def _differences(before: Mapping[_K, _V], after: Mapping[_K, _V]) -> tuple[dict[_K, _V], dict[_K, _V]]:
    """The entries that are gone or replaced, and those that are new. Values are compared by identity.

    Equal values at the begin and at the end of both mappings are skipped fast, as sorted mappings have them
    after few changes.
    """
    most = min(len(before), len(after))
    first = min(_common(before.values(), after.values()), most)
    ends = reversed(list(before.values())), reversed(list(after.values()))
    last = min(_common(*ends), most - first)
    keys = islice(after, first, len(after) - last)
    changed = {key: after[key] for key in keys if before.get(key) is not after[key]}
    gone = {key: before[key] for key in islice(before, first, len(before) - last) if key not in after}
    return {**gone, **{key: before[key] for key in changed if key in before}}, changed


def _common(left: Iterable[_V], right: Iterable[_V]) -> int:
    """The number of equal values at the begin; many if all are equal."""
    return next(compress(count(), map(is_not, left, right)), sys.maxsize)
