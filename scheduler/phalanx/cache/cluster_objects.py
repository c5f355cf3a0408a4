"""Objects of which a cluster has few: queues, topologies, namespaces, priority classes, budgets, volumes."""

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
    ClaimSource,
    PriorityLevel,
    VolumeSource,
    all_topologies,
    binds_late,
    read_claim,
    read_disruption_budget,
    read_kai_topology,
    read_priority_class,
    read_topology,
    read_volume,
    resolve_claim,
)
from phalanx.model.conversion.hyper_nodes import HyperNodeTree
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.queues import queue_tree, read_queue
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialectName, merged_queues
from phalanx.model.names import QueueName
from phalanx.model.nodes import Node
from phalanx.model.queues import Queue
from phalanx.model.snapshot import DisruptionBudget, Topology, VolumeClaim

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


class ClaimTables:
    """The three kinds that describe volumes, and the state of each claim that follows from them."""

    def __init__(self) -> None:
        self.claims: Table[core.PersistentVolumeClaim, ClaimSource] = Table(
            read=read_claim, changed=self._claim_changed
        )
        self.volumes: Table[core.PersistentVolume, VolumeSource] = Table(
            read=read_volume, changed=self._volume_changed
        )
        self.classes: Table[core.StorageClass, bool] = Table(read=binds_late, changed=self._class_changed)
        self._by_volume: dict[str, dict[Key, None]] = {}
        self._resolved: dict[Key, VolumeClaim] = {}
        self._view: Mapping[str, VolumeClaim] | None = None

    def view(self) -> Mapping[str, VolumeClaim]:
        """All claims by "namespace/name", sorted. It is the same mapping until something changes."""
        if self._view is None:
            self._view = {"/".join(key): self._resolved[key] for key in sorted(self._resolved)}
        return self._view

    def _claim_changed(
        self, key: Key, old: ClaimSource | None, new: ClaimSource | None, log: ChangeLog
    ) -> None:
        if old is not None:
            users = self._by_volume[old.volume]
            del users[key]
            if not users:
                del self._by_volume[old.volume]
        if new is not None:
            self._by_volume.setdefault(new.volume, {})[key] = None
        self._resolve(key, log)

    def _volume_changed(
        self, key: Key, _old: VolumeSource | None, _new: VolumeSource | None, log: ChangeLog
    ) -> None:
        for claim in self._by_volume.get(key[1], ()):
            self._resolve(claim, log)

    def _class_changed(self, _key: Key, _old: bool | None, _new: bool | None, log: ChangeLog) -> None:
        """A class matters only to claims without a volume."""
        for claim in self._by_volume.get("", ()):
            self._resolve(claim, log)

    def _resolve(self, key: Key, log: ChangeLog) -> None:
        source = self.claims.get(key)
        if source is None:
            self._resolved.pop(key, None)
            self._view = None
            return
        resolved = resolve_claim(
            source, volume=self.volumes.get(("", source.volume)), binds_late=self._binds_late(source)
        )
        if self._resolved.get(key) != resolved:
            self._resolved[key] = resolved
            self._view = None
            log.mark_cluster_changed()

    def _binds_late(self, source: ClaimSource) -> bool:
        return self.classes.get(("", source.storage_class)) or False

    def check(self) -> None:
        """Assert that no state remains of deleted claims."""
        keys = set(self.claims.keys())
        assert self._resolved.keys() == keys, "state of a deleted claim remains"
        assert {key for users in self._by_volume.values() for key in users} == keys
        assert all(self._by_volume.values()), "an empty entry by volume"
