"""Objects of which a cluster has few: queues, topologies, namespaces, priority classes, budgets."""

from collections.abc import Callable, Iterable, Mapping
from operator import is_not
from typing import Any

from msgspec.structs import replace

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import Key, Table
from phalanx.model.api import core
from phalanx.model.api.kai import KaiTopology
from phalanx.model.api.queues import Queue as ApiQueue
from phalanx.model.api.queues import Topology as ApiTopology
from phalanx.model.conversion.cluster_objects import (
    PriorityLevel,
    all_topologies,
    read_disruption_budget,
    read_kai_topology,
    read_priority_class,
    read_topology,
)
from phalanx.model.conversion.hyper_nodes import HyperNodeTree
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.queues import queue_tree, read_queue
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialectName, merged_queues
from phalanx.model.names import QueueName
from phalanx.model.nodes import Node
from phalanx.model.queues import Queue
from phalanx.model.snapshot import DisruptionBudget, Topology

Labels = Mapping[str, str]
Named = Callable[[str, ChangeLog], None]


class ClusterObjects:
    """One table per kind. The callbacks get the name of a changed namespace or class, to update gangs."""

    def __init__(
        self,
        *,
        namespace_changed: Named,
        class_changed: Named,
        queue_dialects: Iterable[QueueDialectName] = (),
    ) -> None:
        self._namespace_changed = namespace_changed
        self._class_changed = class_changed
        self.queues: Table[ApiQueue, Queue] = Table(read=read_queue, changed=self._on_queue)
        self.other_queues: Mapping[QueueDialectName, Table[Any, Queue]] = {
            name: Table(read=QUEUE_DIALECTS[name].read, changed=self._on_queue) for name in queue_dialects
        }
        self.topologies: Table[ApiTopology, Topology] = Table(read=read_topology, changed=_may_fit_more)
        self.kai_topologies: Table[KaiTopology, Topology] = Table(
            read=read_kai_topology, changed=_may_fit_more
        )
        self.namespaces: Table[core.Namespace, Labels] = Table(read=_labels, changed=self._on_namespace)
        self.classes: Table[core.PriorityClass, PriorityLevel] = Table(
            read=read_priority_class, changed=self._on_class
        )
        self.budgets: Table[core.PodDisruptionBudget, DisruptionBudget] = Table(
            read=read_disruption_budget, changed=self._on_budget
        )
        self._budgets: tuple[DisruptionBudget, ...] | None = None
        self._tree: Mapping[QueueName, Queue] | None = None
        self._rules: tuple[object, object, QueueRules] | None = None
        self._implied: tuple[tuple[object, ...], Mapping[str, Topology]] | None = None

    def queue_tree(self) -> Mapping[QueueName, Queue]:
        """All queues, including `default`. It is the same mapping until a queue changes."""
        if self._tree is None:
            others = {name: table.by_name() for name, table in self.other_queues.items()}
            self._tree = queue_tree(merged_queues(self.queues.by_name(), others))
        return self._tree

    def queue_rules(self) -> QueueRules:
        """What the queues allow. It is the same object until a queue or a namespace changes."""
        tree, namespaces = self.queue_tree(), self.namespaces.by_name()
        if self._rules is None or self._rules[0] is not tree or self._rules[1] is not namespaces:
            self._rules = (tree, namespaces, QueueRules(tree, namespaces))
        return self._rules[2]

    def all_topologies(self, nodes: Mapping[str, Node], tree: HyperNodeTree) -> Mapping[str, Topology]:
        """All topologies, including those of KAI and those that nodes and HyperNodes imply.

        It is the same mapping until a topology or an argument changes.
        """
        declared = self.topologies.by_name()
        of_kai = self.kai_topologies.by_name()
        read = (declared, of_kai, nodes, tree)
        if self._implied is None or any(map(is_not, self._implied[0], read)):
            found = all_topologies(declared, nodes.values())
            found = {**found, **{topology.name: topology for topology in of_kai.values()}}
            if tree.topology is not None:
                found = {**found, tree.topology.name: tree.topology}
            self._implied = (read, found)
        return self._implied[1]

    def disruption_budgets(self) -> tuple[DisruptionBudget, ...]:
        """All budgets, by namespace and name. It is the same tuple until a budget changes."""
        if self._budgets is None:
            self._budgets = tuple(sorted(self.budgets.values(), key=lambda each: (each.namespace, each.name)))
        return self._budgets

    def _on_queue(self, key: Key, old: Queue | None, new: Queue | None, log: ChangeLog) -> None:
        """A change of the past usage alone comes from our own status write and admits no gang."""
        self._tree = None
        if old is None or new is None or replace(old, past=new.past) != new:
            log.queues_changed = True
            _may_fit_more(key, old, new, log)

    def _on_budget(
        self, _key: Key, old: DisruptionBudget | None, new: DisruptionBudget | None, log: ChangeLog
    ) -> None:
        """A budget that allows more evictions, or protects other pods, may permit a preemption."""
        self._budgets = None
        if old is None:
            return
        if new is None or new.allowed > old.allowed or replace(new, allowed=old.allowed) != old:
            log.mark_capacity_grew()

    def _on_namespace(self, key: Key, _old: Labels | None, _new: Labels | None, log: ChangeLog) -> None:
        """Other queues may now accept the namespace, and it may name another queue for its gangs."""
        log.mark_cluster_changed()
        self._namespace_changed(key[1], log)

    def _on_class(
        self, key: Key, _old: PriorityLevel | None, _new: PriorityLevel | None, log: ChangeLog
    ) -> None:
        """Gangs whose priority is now lower may be evicted for others."""
        log.mark_capacity_grew()
        self._class_changed(key[1], log)


def _labels(written: core.Namespace) -> Labels:
    return dict(sorted(written.metadata.labels.items()))


def _may_fit_more(_key: Key, _old: object, _new: object, log: ChangeLog) -> None:
    """A limit may be higher or a domain wider, so all refused gangs are tried again."""
    log.mark_cluster_changed()
